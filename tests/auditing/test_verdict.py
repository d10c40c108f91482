"""What the probes, the exact tier and the sampled tier come to, as one table."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from simverify.auditing.exact_tier import ExactTier, optimality_notes, run_exact_tier
from simverify.auditing.instances import instances_for
from simverify.auditing.subject import load_subject
from simverify.auditing.verdict import (
    audit_findings,
    clock_stop,
    decide_verdict,
    exact_tier_limit,
    inconclusive_reason,
    is_complete,
    needs_sampling,
    tier_notes,
)
from simverify.results import ClockStop, Probe
from simverify.results import Finding as Failure
from simverify.symbolic import CannotEnumerate, Finding

TABLE = """
    exact tier                          | not sampled  | PASS         | FAIL | INCONCLUSIVE
    ------------------------------------+--------------+--------------+------+-------------
    whole                               | PASS         | PASS         | FAIL | INCONCLUSIVE
    whole but for a large instance      | PASS         | PASS         | FAIL | INCONCLUSIVE
    a core instance left out            | INCONCLUSIVE | PASS         | FAIL | INCONCLUSIVE
    an instance undecided               | INCONCLUSIVE | PASS         | FAIL | INCONCLUSIVE
    one of two undecided                | INCONCLUSIVE | PASS         | FAIL | INCONCLUSIVE
    not enumerable                      | INCONCLUSIVE | PASS         | FAIL | INCONCLUSIVE
    not enumerable, with a warning      | INCONCLUSIVE | PASS         | FAIL | INCONCLUSIVE
    nothing judged                      | INCONCLUSIVE | PASS         | FAIL | INCONCLUSIVE
    whole, stopped behind the core      | PASS         | PASS         | FAIL | INCONCLUSIVE
    stopped before the core is judged   | INCONCLUSIVE | PASS         | FAIL | INCONCLUSIVE
    stopped before anything was judged  | INCONCLUSIVE | PASS         | FAIL | INCONCLUSIVE
    not enumerable, with a violation    | FAIL         | FAIL         | FAIL | FAIL
    a violation                         | FAIL         | FAIL         | FAIL | FAIL
    a deviation                         | FAIL         | FAIL         | FAIL | FAIL
    a deviation, and stopped            | FAIL         | FAIL         | FAIL | FAIL
"""
"""The verdict, by what the exact tier came to and by what the sampled one said after it."""

PROBES = {
    "ok": ("ok", False, False),
    "warning": ("warning", False, False),
    "not run": ("not run", False, False),
    "warning, strict": ("warning", True, False),
    "violation": ("violation", True, False),
    "hang": ("violation", True, True),
}
"""Outcome of a probe, whether it failed the audit, whether the code hung in it. One that failed
makes every cell of the table a FAIL; the others leave it as it is."""

LINES = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
HEAD, ROWS = LINES[0][1:], {line[0]: line[1:] for line in LINES[2:]}
CELLS = [
    (exact, column, verdict)
    for exact, verdicts in ROWS.items()
    for column, verdict in zip(HEAD, verdicts, strict=True)
]

WARNING = Finding("edge", "warning", "a token of p = 0 at u = 0")
VIOLATION = Finding("emits", "violation", "emitted token 9")


@pytest.fixture(scope="module")
def right():
    """Code that is right on one instance, and a larger instance."""
    models = instances_for("verify", 2, 4, 0, None)
    core = next(model for model in models if model.core)
    subject = load_subject("token")
    (judged,) = run_exact_tier(subject, "verify", [core], tolerance=None, searching=False).judged
    return judged, next(model for model in models if not model.core)


def tiers(right):
    """Each row of the table as what the exact tier returns."""
    judged, large = right
    core = judged.model
    undecided = replace(judged, undecided=True)
    broken = replace(
        judged, violated=True, comparison=replace(judged.comparison, findings=(VIOLATION,))
    )
    deviating = replace(judged, deviates=True)
    return {
        "whole": ExactTier(judged=[judged]),
        "whole but for a large instance": ExactTier(judged=[judged], skipped=[large]),
        "a core instance left out": ExactTier(judged=[judged], skipped=[large, core]),
        "an instance undecided": ExactTier(judged=[undecided]),
        "one of two undecided": ExactTier(judged=[judged, undecided]),
        "not enumerable": ExactTier(judged=[judged], not_enumerable=CannotEnumerate("a call")),
        "not enumerable, with a warning": ExactTier(
            judged=[judged], not_enumerable=CannotEnumerate("a call", "", (WARNING,))
        ),
        "nothing judged": ExactTier(),
        "whole, stopped behind the core": ExactTier(judged=[judged], aborted=1.0, late=[large]),
        "stopped before the core is judged": ExactTier(
            judged=[judged], aborted=1.0, late=[core, large]
        ),
        "stopped before anything was judged": ExactTier(aborted=1.0, late=[core]),
        "not enumerable, with a violation": ExactTier(
            not_enumerable=CannotEnumerate("a call", "", (VIOLATION,))
        ),
        "a violation": failing(broken),
        "a deviation": failing(deviating),
        "a deviation, and stopped": failing(deviating, aborted=1.0, late=[large]),
    }


def failing(judged, **more):
    return ExactTier(judged=[judged], failure=judged, **more)


def sampled(column):
    """What the sampled tier says; None where it was not asked."""
    if column == "not sampled":
        return None
    findings = (Failure(kind="tests", text="G2: p = 1e-30"),) if column == "FAIL" else ()
    why = "the budget ends in the pilot" if column == "INCONCLUSIVE" else None
    tier = SimpleNamespace(findings=findings)
    return SimpleNamespace(verdict=column, reason=why, tier=tier, hurried=None)


def probe(name):
    outcome, failed, hung = PROBES[name]
    return Probe(name="inputs", outcome=outcome, message="seen", failed=failed, hung=hung)


def test_the_table_has_every_kind_of_exact_tier(right):
    assert list(tiers(right)) == list(ROWS)
    assert HEAD == ["not sampled", "PASS", "FAIL", "INCONCLUSIVE"]


@pytest.mark.parametrize("seen", PROBES)
@pytest.mark.parametrize(("exact", "column", "verdict"), CELLS)
def test_the_verdict_is_the_tables(right, exact, column, verdict, seen):
    tier, found = tiers(right)[exact], sampled(column)
    findings = audit_findings(tier, (probe(seen),))
    if found is not None:
        findings += found.tier.findings
    due = "FAIL" if PROBES[seen][1] else verdict
    assert decide_verdict(findings, tier, found) == due
    assert due != "FAIL" or findings
    if due == "INCONCLUSIVE":
        assert inconclusive_reason(tier, found)


def test_a_failure_fails_even_where_no_words_were_found_for_it(right):
    assert decide_verdict([], tiers(right)["a deviation"], sampled("PASS")) == "FAIL"


@pytest.mark.parametrize("exact", ROWS)
@pytest.mark.parametrize("seen", PROBES)
@pytest.mark.parametrize("batch", [None, 2])
def test_the_sampled_tier_is_asked_where_the_exact_one_does_not_decide(right, exact, seen, batch):
    tier = tiers(right)[exact]
    findings = audit_findings(tier, (probe(seen),))
    decided = ROWS[exact][0] in ("PASS", "FAIL") and batch is None
    asked = not (decided or PROBES[seen][1] or ROWS[exact][0] == "FAIL")
    assert needs_sampling(findings, tier, batch) == asked


def test_nothing_passes_that_neither_tier_decided(right):
    for exact, tier in tiers(right).items():
        whole = exact.startswith("whole")
        # What was found wrong is not whole either, but for what else was run to its end.
        assert is_complete(tier) == whole or ROWS[exact][0] == "FAIL"


def test_a_verdict_that_the_clock_had_a_part_in_says_so(right):
    """Where the clock did not strike, counted budgets decide: the same on any machine."""
    for name, tier in tiers(right).items():
        assert (clock_stop(tier) is not None) == ("stopped" in name)
    judged, large = right
    core = judged.model
    assert clock_stop(tiers(right)["whole, stopped behind the core"]) == ClockStop(
        seconds=1.0, judged=1, instances=2, next=large.name
    )
    left = ExactTier(judged=[judged], skipped=[large], aborted=2.5, late=[core, large])
    assert clock_stop(left) == ClockStop(seconds=2.5, judged=1, instances=4, next=core.name)


def test_the_reason_is_the_gravest(right):
    found = tiers(right)
    judged, large = right
    assert exact_tier_limit(found["not enumerable"]) == "cannot follow a call"
    late = found["stopped before the core is judged"]
    assert exact_tier_limit(late).startswith("the clock stopped it after 1 s and 1 of 3 instances")
    late_too = ExactTier(judged=[judged] * 2, skipped=[large], aborted=2.5, late=[judged.model])
    assert exact_tier_limit(late_too) == (
        "the clock stopped it after 2.5 s and 2 of 4 instances, before those that a pass needs: "
        "raise --seconds"
    )
    left_out = found["a core instance left out"]
    more = f"more paths than the budget on {large.name}: raise --max-paths"
    assert exact_tier_limit(left_out) == more
    assert exact_tier_limit(found["nothing judged"]) == "no instance could be run"
    assert inconclusive_reason(late, None) == exact_tier_limit(late)
    assert inconclusive_reason(late, sampled("INCONCLUSIVE")) == "the budget ends in the pilot"
    assert inconclusive_reason(found["not enumerable"], sampled("INCONCLUSIVE")) == (
        "the budget ends in the pilot"
    )
    assert inconclusive_reason(found["not enumerable"], sampled("PASS")) == (
        "the promised power was not reached"
    )
    assert judged.model.name not in exact_tier_limit(found["whole"])


def test_the_reason_names_the_largest_mass_that_was_not_run(right):
    judged, _ = right
    by_mass = [
        replace(judged, undecided=True, comparison=replace(judged.comparison, pruned=mass))
        for mass in (1e-7, 2e-5, 1e-6)
    ]
    assert exact_tier_limit(ExactTier(judged=by_mass)) == (
        "branches of mass 2.0e-05 could not be told from rounding"
    )


def test_notes_say_what_does_not_decide(right):
    judged, large = right
    core = judged.model
    slow = replace(judged, comparison=replace(judged.comparison, expected_accepted=0.01))
    (below,) = optimality_notes([slow], 1e-9)
    left_out = f"left out because the paths ran out; the first is {large.name}: raise --max-paths"
    lost = {"unrepeated": "1 path"}
    notes = [
        (ExactTier([judged]), []),
        (ExactTier([slow]), [below]),
        (ExactTier([slow], **lost), ["not counted: 1 path", below]),
        (failing(slow), []),
        (failing(slow, **lost), ["not counted: 1 path"]),
        (ExactTier([judged], skipped=[large]), [f"1 instance was {left_out}"]),
        (ExactTier([slow], skipped=[large, core]), [below, f"2 instances were {left_out}"]),
        (
            ExactTier([judged], skipped=[large], too_large=CannotEnumerate("a race of 4")),
            [f"1 instance was {left_out}; on the largest of them it cannot follow a race of 4"],
        ),
        (ExactTier([judged], aborted=1.0, late=[large, core]), []),
    ]
    for tier, due in notes:
        assert tier_notes(tier, None, 1e-9) == due
    assert tier_notes(ExactTier([slow]), None, 1.0) == []


def test_a_sampled_tier_that_found_nothing_says_how_far_from_optimal_the_rule_is(right):
    tier = tiers(right)["whole"]
    for column, said in (("PASS", ["sampled: as the optimum"]), ("FAIL", [])):
        found = sampled(column)
        found.tier.optimality = "as the optimum"
        assert tier_notes(tier, found, 1e-9) == said
        found.tier.optimality = None
        assert tier_notes(tier, found, 1e-9) == []
        found.hurried = "a TV of 0.05 was asked for"
        assert tier_notes(tier, found, 1e-9) == ["sampled: a TV of 0.05 was asked for"]


def test_findings_are_the_probes_first_and_warnings_are_none(right):
    found = tiers(right)
    strict = probe("warning, strict")
    assert audit_findings(found["a violation"], (strict, probe("ok"))) == [
        Failure(kind="probe", text="probe inputs: seen"),
        Failure(kind="contract", text="emits: emitted token 9", broke="emits"),
    ]
    assert audit_findings(found["not enumerable, with a warning"], (probe("warning"),)) == []
    other = Finding("random", "violation", "calls time.time")
    stopped = failing(
        found["a violation"].failure, not_enumerable=CannotEnumerate("a call", "", (other, other))
    )
    assert audit_findings(stopped, ()) == [
        Failure(kind="contract", text="emits: emitted token 9", broke="emits"),
        Failure(kind="contract", text="random: calls time.time", broke="random"),
    ]


def test_a_deviation_is_told_by_its_size(right):
    off = tiers(right)["a deviation"].failure
    off = replace(off, comparison=replace(off.comparison, tv=0.0312512))
    said = f"the exact distribution on {off.model.name} differs from the target's by TV 0.0313"
    assert audit_findings(failing(off), ()) == [Failure(kind="law", text=said)]
    lifted = replace(off, held=replace(off.held, lifted=True, dtype="bfloat16"))
    why = ", although computed in float64: no rounding of bfloat16"
    assert audit_findings(failing(lifted), ()) == [Failure(kind="law", text=said + why)]
