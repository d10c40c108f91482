"""A run held against a baseline: what is worse, what is not, and what cannot be told."""

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats
from support.baseline_runs import counted, drawn, run_of, tail
from support.pages.report_runs import example

from simverify.errors import UsageError
from simverify.history.baseline import (
    MAX_BLOCKS,
    blocks_needed,
    check_baseline,
    detectable_drop,
    rate_pvalue,
    save_baseline,
    simulated_tokens,
    sweep_check,
)
from simverify.reports.surveys import check_lines, check_markdown
from simverify.results import (
    SCHEMA_VERSION,
    SweepAudit,
    SweepCell,
    SweepRun,
    SweepVersions,
    sweep_verdict,
)

BLOCKS = 200_000


def outcomes(check):
    return {item.what: item.outcome for item in check.items}


def test_a_rerun_is_no_worse_and_a_drop_is():
    old = drawn(BLOCKS, seed=1)
    assert check_baseline(old, old).verdict == "PASS"
    assert check_baseline(old, drawn(BLOCKS, seed=2)).verdict == "PASS"
    worse = check_baseline(old, drawn(BLOCKS, share=0.97, seed=2))
    assert worse.verdict == "FAIL"
    item = next(item for item in worse.items if item.what == "E[tau], measured")
    assert item.outcome == "worse"
    assert item.low < -0.03 * tail().sum() < item.high < 0.0
    better = check_baseline(drawn(BLOCKS, share=0.97, seed=2), old)
    assert better.verdict == "PASS"
    assert outcomes(better)["E[tau], measured"] == "better"


def test_the_mean_may_stay_while_a_level_drops():
    """Fewer first tokens kept and more last ones: E[tau] is as it was, the curve is not."""
    law = tail()
    bent = law + np.array([-0.02, 0, 0, 0, 0, 0, 0, 0.02])
    old = run_of(counted(BLOCKS, law, 1), BLOCKS)
    check = check_baseline(old, run_of(counted(BLOCKS, bent, 2), BLOCKS))
    said = outcomes(check)
    assert (said["Pr(tau >= 1)"], said["Pr(tau >= 8)"]) == ("worse", "better")
    assert said["E[tau], measured"] == "same"
    assert check.verdict == "FAIL"


def test_a_short_run_says_how_many_blocks_would_do():
    old = drawn(BLOCKS, seed=1)
    short = check_baseline(old, drawn(2_000, share=0.98, seed=2))
    assert short.verdict == "INCONCLUSIVE"
    both = check_baseline(drawn(2_000, seed=1), drawn(2_000, seed=2))
    assert both.both
    enough = check_baseline(drawn(both.blocks, seed=3), drawn(both.blocks, seed=4))
    assert (enough.verdict, enough.blocks) == ("PASS", None)
    # A tenth fewer would not have done.
    less = int(both.blocks * 0.9)
    assert check_baseline(drawn(less, seed=3), drawn(less, seed=4)).verdict == "INCONCLUSIVE"


@pytest.mark.thorough
def test_power_and_false_alarms_over_many_runs(monkeypatch):
    """At what the check asks for: found in 9 of 10 or more; never where nothing changed."""
    # statsmodels collects garbage at each adjustment, in a session of thousands of tests.
    monkeypatch.setattr("gc.collect", lambda: 0)
    tokens = simulated_tokens(drawn(BLOCKS).results[0], "it")
    blocks, _ = blocks_needed(tokens, tokens, 1e-6 / 9, 0.02 * tokens.mean)
    rounds, found, alarms = 60, 0, 0
    for i in range(rounds):
        old = drawn(blocks, seed=3 * i)
        found += check_baseline(old, drawn(blocks, 0.98, 3 * i + 1)).verdict == "FAIL"
        alarms += check_baseline(old, drawn(blocks, seed=3 * i + 2)).verdict == "FAIL"
    assert alarms == 0
    # Binomial(60, .9) is below 35 with probability 1e-10.
    assert found >= 35
    # The control: at a tenth of the blocks it is found almost never.
    weak = sum(
        check_baseline(drawn(blocks // 10, seed=i), drawn(blocks // 10, 0.98, i + 99)).verdict
        == "FAIL"
        for i in range(0, 60, 3)
    )
    assert weak <= 5


def test_fishers_test_is_exact():
    # 5 of 10 against 0 of 10: C(10, 5) / C(20, 5), on both sides.
    assert rate_pvalue(5, 10, 0, 10) == pytest.approx(2 * 252 / 15504)
    assert rate_pvalue(0, 10, 0, 10) == rate_pvalue(10, 10, 10, 10) == 1.0
    assert 0.0 <= rate_pvalue(3 * 10**7, 10**8, 3 * 10**7 + 10**5, 10**8) < 1e-50


def test_fishers_test_is_that_of_scipy_and_takes_as_many_blocks_as_a_command():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, m = (int(10 ** rng.uniform(0, 5)) for _ in range(2))
        share = rng.random() ** 3
        a, b = int(rng.binomial(n, share)), int(rng.binomial(m, share * rng.uniform(0.8, 1.0)))
        law = stats.hypergeom(n + m, a + b, m)
        found = rate_pvalue(a, n, b, m)
        assert found == pytest.approx(min(1.0, 2 * min(law.cdf(b), law.sf(b - 1))), rel=1e-9)
        assert found == pytest.approx(rate_pvalue(b, m, a, n), rel=1e-9)
    # Summed over all blocks this takes most of a minute; here it is the normal law's.
    n = MAX_BLOCKS
    for sigmas in (0.5, 3.0, 6.0):
        moved = round(sigmas * (n / 2) ** 0.5)
        found = rate_pvalue(n // 2, n, n // 2 - moved, n)
        assert found == pytest.approx(2 * stats.norm.sf(sigmas), rel=1e-3)


@pytest.mark.parametrize("blocks", [MAX_BLOCKS + 1, 2**53 + 1, 2**64])
def test_more_blocks_than_any_run_has_are_refused(blocks):
    fits = run_of([MAX_BLOCKS // 2] * 2, MAX_BLOCKS)
    assert check_baseline(fits, fits).verdict == "PASS"
    run = run_of([blocks // 2] * 2, blocks)
    with pytest.raises(UsageError, match="blocks at most"):
        check_baseline(run, run)


@pytest.mark.parametrize(("counts", "blocks"), [([0] * 8, 1), ([1], 1), ([2], 2), ([0, 0], 2)])
def test_degenerate_runs_promise_nothing(counts, blocks):
    run = run_of(counts, blocks)
    check = check_baseline(run, run)
    assert all(item.outcome != "worse" for item in check.items)
    if sum(counts):
        assert check.verdict == "INCONCLUSIVE"
        assert check.blocks > blocks
    tokens = simulated_tokens(run.results[0], "it")
    assert 0.0 < detectable_drop(tokens, tokens, 1e-6) < np.inf


def test_all_alike_against_all_alike():
    """Everything kept before and nothing now: too few blocks show nothing, many do."""
    few = check_baseline(run_of([2] * 4, 2), run_of([0] * 4, 2))
    assert few.verdict == "INCONCLUSIVE"
    many = check_baseline(run_of([1000] * 4, 1000), run_of([0] * 4, 1000))
    assert many.verdict == "FAIL"


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("PASS", "PASS", "PASS"), ("PASS", "FAIL", "FAIL"),
        ("PASS", "INCONCLUSIVE", "INCONCLUSIVE"),
        ("FAIL", "FAIL", "PASS"), ("FAIL", "PASS", "PASS"), ("INCONCLUSIVE", "FAIL", "FAIL"),
        ("INCONCLUSIVE", "INCONCLUSIVE", "INCONCLUSIVE"), ("INCONCLUSIVE", "PASS", "PASS"),
        ("FAIL", "INCONCLUSIVE", "PASS"),
    ],
)  # fmt: skip
def test_verdicts(old, new, verdict):
    counts = counted(BLOCKS, tail(), 1)
    check = check_baseline(run_of(counts, BLOCKS, verdict=old), run_of(counts, BLOCKS, verdict=new))
    assert check.verdict == verdict


def judged_as_declared(run, verdict):
    """The same run with E[tau] of the declared rule, which its own blocks passed as or did not."""
    row = run.results[0]
    exact = replace(row.expected_accepted, exact=2.0, lower=2.0, upper=2.0, confidence=None)
    acceptance = replace(row.acceptance, verdict=verdict)
    return replace(run, results=(replace(row, expected_accepted=exact, acceptance=acceptance),))


@pytest.mark.parametrize(
    ("acceptance", "share", "verdict"),
    [
        ("PASS", 1.0, "PASS"),
        ("INCONCLUSIVE", 1.0, "INCONCLUSIVE"),
        ("INCONCLUSIVE", 0.85, "INCONCLUSIVE"),
    ],
)
def test_the_law_of_a_declared_rule_makes_no_short_run_long(acceptance, share, verdict):
    old = judged_as_declared(drawn(500, seed=1), acceptance)
    new = judged_as_declared(drawn(500, share=share, seed=2), acceptance)
    check = check_baseline(old, new)
    assert check.verdict == verdict
    assert outcomes(check)["E[tau], exact"] == "same"


def test_what_failed_in_both_runs_is_said():
    counts = counted(BLOCKS, tail(), 1)
    run = run_of(counts, BLOCKS, verdict="FAIL")
    assert any("FAIL -> FAIL" in line for line in check_lines(check_baseline(run, run), "main"))
    right = run_of(counts, BLOCKS)
    assert not any("FAIL" in line for line in check_lines(check_baseline(right, right), "main"))


def test_a_pass_that_promises_less_is_too_short():
    """200 blocks asked for a deviation of .95 pass, and would hide what the baseline finds."""
    counts = counted(BLOCKS, tail(), 1)
    old = replace(run_of(counts, BLOCKS), detect=0.05)

    def found(detectable, detect):
        row = old.results[0]
        lossless = replace(row.lossless, detectable=detectable)
        return replace(old, detect=detect, results=(replace(row, lossless=lossless),))

    weak = check_baseline(old, found(0.9, 0.95))
    assert weak.verdict == "INCONCLUSIVE"
    assert "deviations of 0.9, the baseline of 0.05" in weak.of("too short")[0].note
    assert check_baseline(old, found(0.04, 0.95)).verdict == "PASS"
    assert check_baseline(old, found(None, 0.95)).verdict == "PASS"


def test_the_rate_that_is_told_is_that_of_the_verdicts_too():
    """A run with an alpha of .3 fails on nothing in up to 3 of 10 runs, whatever the tests do."""
    old = drawn(BLOCKS, seed=1)
    loose = replace(drawn(BLOCKS, seed=2), alpha=0.3)
    check = check_baseline(old, loose, alpha=1e-6)
    assert check.rate == pytest.approx(1e-6 + old.alpha + 0.3)
    assert "with probability 0.300002 at most" in check_lines(check, "it")[-1]
    audit = check_baseline(example("transformers"), example("transformers"))
    assert audit.rate == 0.0
    assert "probability" not in check_lines(audit, "it")[-1]


def test_exact_laws_are_compared_beyond_rounding():
    run = example("compare")
    row = next(row for row in run.results if row.expected_accepted.confidence is None)
    told = row.expected_accepted

    def moved(by):
        law = replace(told, exact=told.exact - by, lower=told.lower - by, upper=told.upper - by)
        rows = tuple(replace(r, expected_accepted=law) if r is row else r for r in run.results)
        return check_baseline(run, replace(run, results=rows))

    assert moved(1e-12).verdict == "PASS"
    assert moved(1e-6).verdict == "FAIL"
    assert moved(-1e-6).of("better")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: replace(run, gamma=3), "gamma was"),
        (lambda run: replace(run, results=run.results[1:]), "the baseline has"),
        (lambda run: replace(run, models=(replace(run.models[0], file_sha256="ab" * 32),
                                          *run.models[1:])), "file_sha256 was none"),
        (lambda run: example("transformers"), "the baseline is of simverify compare"),
        (lambda run: example("engines"), "of simverify table"),
    ],
)  # fmt: skip
def test_what_does_not_compare_is_said_in_a_line(change, said):
    run = example("compare")
    with pytest.raises(UsageError, match=said) as raised:
        check_baseline(run, change(run))
    assert "\n" not in str(raised.value)


def test_edited_curves_are_refused():
    run = drawn(1000)
    row = run.results[0]
    for curve in (
        (1.5, *row.acceptance_ccdf.measured[1:]),
        tuple(reversed(row.acceptance_ccdf.measured)),
        (*row.acceptance_ccdf.measured[:-1], 0.0),
    ):
        told = replace(row.acceptance_ccdf, measured=curve)
        broken = replace(run, results=(replace(row, acceptance_ccdf=told),))
        with pytest.raises(UsageError, match="measured curve is not that"):
            check_baseline(run, broken)


def test_an_audits_instances():
    run = example("transformers")
    assert check_baseline(run, run).verdict == "PASS"
    known = next(i for i in run.instances if i.expected_accepted and i.optimum)

    def lower(by):
        dropped = replace(known, expected_accepted=known.expected_accepted - by)
        return tuple(dropped if i is known else i for i in run.instances)

    worse = check_baseline(run, replace(run, instances=lower(1e-3)))
    assert worse.verdict == "FAIL"
    assert known.name in worse.of("worse")[0].note
    assert check_baseline(run, replace(run, instances=lower(1e-12))).verdict == "PASS"
    # Code that cannot be enumerated any more is not "no worse".
    none = check_baseline(run, replace(run, instances=()))
    assert (none.verdict, none.of("too short")[0].what) == ("INCONCLUSIVE", "E[tau]")
    assert check_baseline(replace(run, instances=()), run).verdict == "PASS"
    # Another instance of the same name is no drop.
    other = tuple(replace(i, optimum=i.optimum * 0.9) if i.optimum else i for i in lower(1e-3))
    assert check_baseline(run, replace(run, instances=other)).verdict == "PASS"


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", 0.0), ("alpha", float("nan")), ("detect", 1.0), ("detect", float("nan"))],
)
def test_values_out_of_range(name, value):
    run = drawn(1000)
    with pytest.raises(UsageError, match=f"{name} is"):
        check_baseline(run, run, **{name: value})


# Two sweeps, cell by cell: what moved is tested, and all cells share one rate.


SWEEPS_BLOCKS = 400_000


def cell(seed, share=1.0, blocks=SWEEPS_BLOCKS, draw=0):
    """A cell whose counts are drawn; ``share``: how often tokens are kept, of the usual."""
    run = drawn(blocks, share, seed=1000 * seed + draw)
    return SweepCell(seed=seed, model=run.models[0], result=run.results[0])


def audited(spec, verdict="PASS", deviation=0.0, state="judged", reason=""):
    return SweepAudit(
        spec=spec, gamma=1, seed=0, state=state, verdict=verdict, reason=reason, exit_code=0,
        tier="exact", tolerance=1e-9, max_abs_deviation=deviation,
    )  # fmt: skip


def sweep_of(cells, audits=()):
    return SweepRun(
        schema_version=SCHEMA_VERSION,
        blocks=SWEEPS_BLOCKS,
        alpha=1e-6,
        alpha_each=1e-7,
        detect=0.01,
        power=0.9,
        verdict=sweep_verdict(tuple(cells), tuple(audits)),
        cells=tuple(cells),
        audits=tuple(audits),
        versions=SweepVersions("1", "c", "3.11", "2", "0", "1"),
        reproduce="simverify sweep",
    )


def called(check):
    return {
        (item.subject, item.what) for item in check.items if item.outcome in ("worse", "better")
    }


def test_one_cell_of_many_that_lost_is_found_and_no_other():
    old = sweep_of([cell(seed) for seed in range(6)])
    same = check_baseline(old, sweep_of([cell(seed, draw=1) for seed in range(6)]))
    assert (same.verdict, same.cells, same.tests) == ("PASS", 6, 6 * 9)
    assert called(same) == set()
    worse = [cell(seed, 0.95 if seed == 4 else 1.0, draw=1) for seed in range(6)]
    found = check_baseline(old, sweep_of(worse))
    assert found.verdict == "FAIL"
    assert {subject for subject, _ in called(found)} == {old.cells[4].name}
    assert (old.cells[4].name, "E[tau], measured") in called(found)
    item = next(item for item in found.items if item.outcome == "worse")
    assert item.low < item.high < 0.0
    lines = check_lines(found, "it")
    assert lines[1].startswith(f"WORSE: {old.cells[4].name}: E[tau], measured: ")
    assert "0 of 6 cells and audits are equal" in lines
    assert old.cells[4].name in check_markdown(found, "it")


def test_all_cells_share_one_rate():
    """An interval of one cell among many is wider than alone: so many more may be wrong."""
    wide, narrow = (
        check_baseline(sweep_of(cells), sweep_of(cells)).items
        for cells in ([cell(seed) for seed in range(8)], [cell(0)])
    )
    a, b = (next(i for i in items if i.what == "E[tau], measured") for items in (wide, narrow))
    assert a.high - a.low > 1.05 * (b.high - b.low)


def test_what_one_sweep_alone_has_is_named():
    old, new = (sweep_of([cell(s) for s in seeds]) for seeds in ((0, 1), (1, 2)))
    found = sweep_check(old, new)
    assert found.only_old == (old.cells[0].name,)
    assert found.only_new == (new.cells[1].name,)
    assert found.check.cells == 1
    lines = check_lines(found.check, "it")
    assert "1 of 1 cells and audits are equal" in lines
    assert not [line for line in lines if "E[tau]" in line]
    assert sweep_check(old, sweep_of([cell(7)])).check.tests == 0


def test_a_model_of_the_same_name_that_is_another_is_not_compared():
    one = cell(0)
    other = replace(one, model=replace(one.model, corpus_sha256="0" * 64))
    found = sweep_check(sweep_of([one]), sweep_of([other]))
    assert found.check.cells == 0
    assert "not compared: model" in found.check.notes[0]
    with pytest.raises(UsageError, match="corpus_sha256 was none and is 000"):
        check_baseline(sweep_of([one]), sweep_of([other]))


def test_a_baseline_wants_all_of_its_cells():
    old = sweep_of([cell(0), cell(1)], [audited("rule.py:verify")])
    more = sweep_of([cell(s, draw=1) for s in range(3)], old.audits)
    assert check_baseline(old, more).verdict == "PASS"
    with pytest.raises(UsageError, match=r"the baseline has token on .*, seed 1, and the run has"):
        check_baseline(old, sweep_of([cell(0)], old.audits))
    with pytest.raises(UsageError, match=r"the baseline has the audit of rule.py:verify, gamma 1"):
        check_baseline(old, sweep_of(old.cells))
    with pytest.raises(
        UsageError, match=r"the baseline is of simverify sweep, the run of .*compare"
    ):
        check_baseline(old, example("compare"))


@pytest.mark.parametrize(
    ("old", "new", "outcome", "words"),
    [
        (audited("a"), audited("a"), "PASS", "1 of 1 cells and audits are equal"),
        (audited("a"), audited("a", "FAIL", 0.2), "FAIL", "deviation: 1e-09 at most -> 0.2"),
        (audited("a", "FAIL", 0.2), audited("a", "FAIL", 0.1), "PASS", "deviation: 0.2 -> 0.1"),
        (audited("a", deviation=1e-16), audited("a", deviation=2e-16), "PASS", "1 of 1 cells"),
        (audited("a", "FAIL", 0.2), audited("a"), "PASS", "better: audit of a, gamma 1, seed 0"),
        (audited("a"), audited("a", None, None, "crashed", "signal 11"), "INCONCLUSIVE",
         "too short: audit of a, gamma 1, seed 0: lossless: PASS -> crashed, signal 11"),
        (*[audited("a", None, None, "crashed", "signal 11")] * 2, "INCONCLUSIVE",
         "too short: audit of a, gamma 1, seed 0: lossless: INCONCLUSIVE -> INCONCLUSIVE"),
    ],
)  # fmt: skip
def test_audits_of_sweeps(old, new, outcome, words):
    check = check_baseline(sweep_of([], [old]), sweep_of([], [new]))
    assert check.verdict == outcome
    assert check.rate == 0.0
    lines = check_lines(check, "it", verbose=outcome == "PASS")
    assert any(words in line for line in lines), lines


def test_what_failed_in_both_sweeps_is_said():
    for verdict, said in (("FAIL", True), ("PASS", False)):
        sweep = sweep_of([], [audited("a", verdict, 0.2 if said else 0.0)])
        lines = check_lines(check_baseline(sweep, sweep), "it")
        assert any("FAIL -> FAIL" in line for line in lines) == said


def test_many_cells_are_cut_short_and_what_is_worse_comes_first():
    old = sweep_of([cell(seed, blocks=2000) for seed in range(60)])
    new = [cell(seed, 0.5 if seed == 59 else 1.0, 2000, draw=1) for seed in range(60)]
    check = check_baseline(old, sweep_of(new))
    lines = check_lines(check, "it")
    assert lines[1].startswith(f"WORSE: {old.cells[59].name}")
    assert len(lines) < 50
    assert any(line.endswith(" more: --verbose") for line in lines)
    assert len(check_lines(check, "it", verbose=True)) > 500


def test_a_sweep_is_kept_as_a_baseline(tmp_path):
    assert save_baseline("main", sweep_of([cell(0)]), tmp_path).is_file()
