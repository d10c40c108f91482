"""Two sweeps, cell by cell: what moved is tested, and all cells share one rate."""

import pytest
from msgspec.structs import replace
from support.baseline_runs import drawn
from support.pages.report_runs import example

from simverify.baselines.check import check_baseline
from simverify.baselines.kept import save
from simverify.baselines.sweeps import sweep_check
from simverify.errors import UsageError
from simverify.reports.others.baselines import check_lines, check_markdown
from simverify.results import (
    SCHEMA_VERSION,
    SweepAudit,
    SweepCell,
    SweepRun,
    SweepVersions,
    sweep_verdict,
)

BLOCKS = 400_000


def cell(seed, share=1.0, blocks=BLOCKS, draw=0):
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
        schema_version=SCHEMA_VERSION, blocks=BLOCKS, alpha=1e-6, alpha_each=1e-7, detect=0.01,
        power=0.9, verdict=sweep_verdict(tuple(cells), tuple(audits)), cells=tuple(cells),
        audits=tuple(audits), versions=SweepVersions("1", "c", "3.11", "2", "0", "1"),
        reproduce="simverify sweep",
    )  # fmt: skip


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
    assert save("main", sweep_of([cell(0)]), tmp_path).is_file()
