"""The plan of a run: its shares, what it says beforehand, and every way it can end."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from support.false_alarms import ALPHA

from simverify.stats import Evidence, SequentialRun, ratio_gate, ratio_sums, ratio_test

PLAN = SequentialRun(
    samples=8000,
    alpha=1e-6,
    fixed={"scores": 1, "PIT": 1},
    anytime={"ratios": 2},
    declared={"TV 0.01": 8000, "residual-p": 400, "rare fault": math.inf},
)
OPEN = {"TV 0.01", "residual-p", "rare fault"}


def look(samples, *, scores=0.0, pit=0.0, ratios=0.0, refuted=(), violation=""):
    return Evidence(
        samples=samples,
        log_pvalues={"scores": scores, "PIT": pit},
        log_evalues={"ratios": ratios},
        refuted=frozenset(refuted),
        violation=violation,
    )


def test_shares_of_all_looks_and_tests_add_up_to_alpha():
    spent = sum(Fraction(a) for x in PLAN.looks for a in x.alphas.values())
    assert spent + Fraction(PLAN.shares["ratios"]) <= Fraction(1e-6)
    assert float(spent) == pytest.approx(5e-7)
    assert [x.samples for x in PLAN.looks] == [1000, 2000, 4000, 8000]
    assert PLAN.looks[-1].alphas["PIT"] == pytest.approx(1.25e-7)
    assert sum(x.delta for x in PLAN.looks) == pytest.approx(1e-3)


def test_the_plan_is_said_before_the_first_sample():
    text = PLAN.describe()
    for part in (
        "looks at 1,000, 2,000, 4,000, 8,000",
        "1e-06 at most; shares: scores 2.5e-07, PIT 2.5e-07, ratios 5e-07",
        "stops at any time: ratios",
        "TV 0.01: found with probability 0.9 by 8,000 samples",
        "rare fault: no power promised; passes only if refuted at 0.001",
        "false with probability 0.001 at most",
    ):
        assert part in text
    assert PLAN.unpowered == ("rare fault",)


def test_healthy_run_passes_at_its_end_alone():
    seen = []
    for samples in (1000, 2000, 4000):
        seen.append(look(samples))
        assert PLAN.decide(seen).verdict == "CONTINUE"
    done = PLAN.decide([*seen, look(8000, refuted={"rare fault"})])
    assert done.verdict == "PASS"
    assert (done.refuted, done.open) == (("rare fault",), ("TV 0.01", "residual-p"))


def test_without_power_it_is_inconclusive():
    seen = [look(n) for n in (1000, 2000, 4000, 8000)]
    done = PLAN.decide(seen)
    assert done.verdict == "INCONCLUSIVE"
    assert done.reasons == ("rare fault is not ruled out by 8,000 samples",)
    early = PLAN.decide(seen[:2], ended=True)
    assert early.verdict == "INCONCLUSIVE"
    assert len(early.reasons) == 3


def test_early_pass_needs_every_declared_deviation_refuted():
    some = [look(1000, refuted={"residual-p"}), look(2000, refuted={"rare fault"})]
    listed = PLAN.decide(some)
    assert listed.verdict == "CONTINUE"
    assert listed.refuted == ("residual-p", "rare fault")
    assert PLAN.decide([*some, look(4000, refuted={"TV 0.01"})]).verdict == "PASS"
    # Between looks the fixed tests have not been asked.
    between = [*some, Evidence(samples=2500, refuted=frozenset(OPEN))]
    assert PLAN.decide(between).verdict == "CONTINUE"
    assert PLAN.decide(between, ended=True).reasons == ("ended at 2,500 samples, between looks",)


def test_fixed_tests_fail_at_the_level_of_their_look():
    level = math.log(2.5e-7 / 8)
    assert PLAN.decide([look(1000, scores=level + 1e-9)]).verdict == "CONTINUE"
    failed = PLAN.decide([look(1000, scores=level - 1e-9)])
    assert failed.verdict == "FAIL"
    assert "scores: ln p = -17.28 after 1,000 samples, level 3.12e-08" in failed.reasons[0]
    # What failed once stays failed.
    assert PLAN.decide([look(1000, scores=-99), look(2000, refuted=OPEN)]).verdict == "FAIL"


def test_e_processes_and_violations_fail_at_any_time():
    hurdle = math.log(2e6)
    above, below = (
        PLAN.decide([Evidence(samples=17, log_evalues={"ratios": e})])
        for e in (hurdle + 1e-9, hurdle - 1e-6)
    )
    assert (above.verdict, below.verdict) == ("FAIL", "CONTINUE")
    broken = PLAN.decide([Evidence(samples=3, violation="token 7 has probability 0")])
    assert broken.reasons == ("token 7 has probability 0 after 3 samples",)


def test_nothing_seen_yet():
    assert PLAN.decide([]).verdict == "CONTINUE"
    assert PLAN.decide([], ended=True).verdict == "INCONCLUSIVE"


ROWS = np.array([[0.5, 0.3, 0.2]])
FAULT = np.array([[[0.3, 0.3, 0.4]]])


def run(rng, plan, law):
    """A whole run: the gate at every look, the likelihood-ratio test at each of them."""
    counts, seen = np.zeros((1, 3), dtype=int), []
    for at in plan.looks:
        counts = counts + rng.multinomial(at.samples - counts.sum(), law)
        gate = ratio_gate(ratio_sums(counts, ROWS, FAULT, names=("leak",)), alpha=0.5)
        alpha = at.alphas["planned"]
        fixed = ratio_test(counts, ROWS, FAULT, names=("leak",), alpha=alpha)
        refuted = any(e.strength <= 0.3 for e in gate.refuted)
        seen.append(
            Evidence(
                samples=at.samples,
                log_pvalues={"planned": fixed.test.log_pvalue},
                log_evalues={"gate": gate.test.statistic},
                refuted=frozenset({"leak .3"} if refuted else ()),
            )
        )
        decision = plan.decide(seen)
        if decision.verdict != "CONTINUE":
            break
    return decision.verdict, at.samples


@pytest.mark.distribution
def test_size_power_and_early_ends_of_whole_runs():
    rng, repeats, alpha = np.random.default_rng(98), 150, 0.05
    plan = SequentialRun(
        samples=2400,
        alpha=alpha,
        fixed={"planned": 1},
        anytime={"gate": 1},
        declared={"leak .3": 2400},
    )
    healthy = [run(rng, plan, ROWS[0]) for _ in range(repeats)]
    faulty = [run(rng, plan, 0.7 * ROWS[0] + 0.3 * FAULT[0, 0]) for _ in range(repeats)]
    failed = sum(verdict == "FAIL" for verdict, _ in healthy)
    assert failed <= stats.binom.isf(ALPHA, repeats, alpha)
    # Negative control and power: the fault fails, whole runs end in PASS or FAIL alone.
    found = sum(verdict == "FAIL" for verdict, _ in faulty)
    assert found >= stats.binom.isf(1 - ALPHA, repeats, 0.9)
    assert {verdict for verdict, _ in healthy} <= {"PASS", "FAIL"}
    # A healthy run may end early once its fault is refuted; a strong fault ends one too.
    assert min(samples for verdict, samples in healthy if verdict == "PASS") < 2400
    assert min(samples for verdict, samples in faulty if verdict == "FAIL") < 2400


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"alpha": 1.0}, "alpha is 1"),
        ({"beta": 0.0}, "beta is 0"),
        ({"delta": 2.0}, "delta is 2"),
        ({"power": -0.1}, "power is -0.1"),
        ({"fixed": {"ratios": 1}}, "both fixed and at any time"),
        ({"fixed": {}, "anytime": {}}, "weights are empty"),
        ({"fixed": {"scores": 0.0}}, "weight of 'scores' is 0"),
        ({"declared": {}}, "declared is empty"),
        ({"declared": {"x": 0}}, "samples of 'x' is 0"),
        ({"declared": {"x": math.nan}}, "samples of 'x' is nan"),
    ],
)
def test_errors_of_a_plan(changes, message):
    good = {"samples": 8, "fixed": {"scores": 1}, "anytime": {"ratios": 1}, "declared": {"x": 8}}
    with pytest.raises(ValueError, match=message):
        SequentialRun(**(good | changes))


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ([look(2000), look(1000)], "expected more than 2000"),
        ([look(9000)], "at most the planned 8000"),
        ([look(1001)], "expected \\[\\]"),
        ([Evidence(samples=1000)], "are \\[\\], expected \\['PIT', 'scores'\\]"),
        ([look(1000, refuted={"other"})], "names \\['other'\\]"),
        ([Evidence(samples=5, log_evalues={"other": 1.0})], "names \\['other'\\]"),
        ([look(1000, ratios=math.nan)], "holds a NaN"),
    ],
)
def test_errors_of_evidence(evidence, message):
    with pytest.raises(ValueError, match=message):
        PLAN.decide(evidence)
