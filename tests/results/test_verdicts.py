"""Each field that contradicts a verdict is named, in tables, sweeps, audits and self-tests."""

import pytest
from msgspec.structs import replace
from support.audit_runs import STARVED, finding
from support.pages.report_runs import example

from simverify.results import (
    Judged,
    SelfTestRun,
    SweepAudit,
    SweepCell,
    SweepRun,
    SweepVersions,
    Tried,
)
from simverify.results.registry import Kind, document_kinds, verdict_complaints

TABLE, COMPARISON = example("engines"), example("compare")
PASSED, FAILED = example("transformers"), example("faulty-block")
FAIL_ROW = next(row for row in TABLE.rows if row.verdict == "FAIL")
PASS_ROW = next(row for row in TABLE.rows if row.verdict == "PASS" and row.tier == "exact")
OPEN_ROW = replace(
    PASS_ROW, verdict="INCONCLUSIVE", reason="took too long", least=None, exit_code=3
)
LEAST = next(row.least for row in TABLE.rows if row.least is not None)
BOUND = next((row.certificate for row in TABLE.rows if row.certificate is not None), None)
ABSENT = replace(
    PASS_ROW, state="absent", verdict=None, found=None, reason="not here", least=None, tier=None,
    instances=0, tolerance=None,
)  # fmt: skip
BROKE = finding("tests", "broke")


def complaints(run, **changes):
    return list(verdict_complaints(replace(run, **changes)))


def of_row(row, **changes):
    """What is said of the second row of a table of which it is the only one that is not right."""
    row = replace(row, **changes)
    verdict = "FAIL" if row.verdict == "FAIL" else "INCONCLUSIVE"
    if row.verdict == "PASS" or row.state == "absent":
        verdict = "PASS"
    return complaints(TABLE, rows=(PASS_ROW, row), verdict=verdict)


@pytest.mark.parametrize("row", [PASS_ROW, FAIL_ROW, OPEN_ROW, ABSENT])
def test_right_rows(row):
    assert of_row(row) == []


@pytest.mark.parametrize(
    ("row", "changes", "said"),
    [
        (PASS_ROW, {"state": "not loaded"}, "verdict is PASS with the state not loaded"),
        (OPEN_ROW, {"verdict": None}, "verdict is None with the state judged"),
        (
            FAIL_ROW,
            {"findings": (), "counterexample": None},
            "verdict is FAIL and findings is empty: expected what failed",
        ),
        (PASS_ROW, {"findings": (BROKE,)}, "verdict is PASS: expected FAIL, by what was found"),
        (
            OPEN_ROW,
            {"counterexample": FAILED.counterexample},
            "verdict is INCONCLUSIVE: expected FAIL, by what was found",
        ),
        (PASS_ROW, {"reason": "why"}, "verdict is PASS: expected INCONCLUSIVE, by reason"),
        *(
            (
                PASS_ROW,
                changes,
                "verdict is PASS and rests on nothing: expected a tier and what it tried",
            )
            for changes in (
                {"tier": None},
                {"instances": 0},
                {"tolerance": None},
                {"tier": "sampled", "certificate": None},
            )
        ),
        (
            OPEN_ROW,
            {"least": LEAST},
            "least stands beside the verdict INCONCLUSIVE: expected null",
        ),
        (ABSENT, {"found": "installed"}, "state is absent and found is installed: expected null"),
    ],
)
def test_what_a_row_contradicts_is_named(row, changes, said):
    assert of_row(row, **changes) == [f"rows[1].{said}"]


def test_a_pass_rests_on_its_own_tier():
    sampled = {"tier": "sampled", "instances": 0, "tolerance": None, "certificate": BOUND}
    assert BOUND is not None
    assert of_row(PASS_ROW, **sampled) == []
    assert of_row(PASS_ROW, tier="coins") == []
    assert of_row(PASS_ROW, instances=1) == []


def test_the_verdict_of_a_table_is_that_of_its_rows():
    for wrong in ("FAIL", "INCONCLUSIVE"):
        (said,) = complaints(TABLE, rows=(PASS_ROW,), verdict=wrong)
        assert said == f"verdict is {wrong}: expected PASS, by its rows"


CELL = SweepCell(seed=0, model=COMPARISON.models[0], result=COMPARISON.results[0])
JUDGED = SweepAudit(
    spec="a:b", gamma=None, seed=0, state="judged", verdict="PASS", reason="", exit_code=0
)
SWEEP = SweepRun(
    schema_version=1, blocks=1000, alpha=1e-6, alpha_each=1e-6, detect=COMPARISON.detect,
    power=0.9, verdict="PASS", cells=(CELL,), audits=(JUDGED,), reproduce="simverify sweep a",
    versions=SweepVersions(simverify="", code="", python="", numpy="", numba="", scipy=""),
)  # fmt: skip


def test_a_sweep_that_is_right():
    assert complaints(SWEEP) == []
    failed = replace(JUDGED, verdict="FAIL", findings=(BROKE,))
    assert complaints(SWEEP, audits=(JUDGED, failed), verdict="FAIL") == []
    absent = replace(JUDGED, verdict=None, state="not loaded")
    assert complaints(SWEEP, audits=(absent,), verdict="INCONCLUSIVE") == []
    assert complaints(SWEEP, audits=()) == complaints(SWEEP, cells=()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"verdict": "FAIL"},
            ["verdict is FAIL: expected PASS, the worst of its cells and audits"],
        ),
        (
            {"verdict": "FAIL", "cells": ()},
            ["verdict is FAIL: expected PASS, the worst of its cells and audits"],
        ),
        (
            {"verdict": "FAIL", "audits": ()},
            ["verdict is FAIL: expected PASS, the worst of its cells and audits"],
        ),
        (
            {"cells": (CELL, replace(CELL, result=replace(CELL.result, verdict="FAIL")))},
            [
                "cells[1].result.verdict is FAIL: expected PASS, the worse of its two",
                "verdict is PASS: expected FAIL, the worst of its cells and audits",
            ],
        ),
        (
            {"audits": (JUDGED, replace(JUDGED, verdict=None)), "verdict": "INCONCLUSIVE"},
            ["audits[1].verdict is None with the state judged"],
        ),
        (
            {"audits": (replace(JUDGED, state="hangs"),)},
            ["audits[0].verdict is PASS with the state hangs"],
        ),
        (
            {"audits": (replace(JUDGED, findings=(BROKE, BROKE)),)},
            ["audits[0].verdict is PASS with 2 findings"],
        ),
        (
            {"audits": (replace(JUDGED, verdict="FAIL"),), "verdict": "FAIL"},
            ["audits[0].verdict is FAIL with 0 findings"],
        ),
    ],
)
def test_what_a_sweep_contradicts_is_named(changes, said):
    assert complaints(SWEEP, **changes) == said


@pytest.mark.parametrize("part", ["lossless", "acceptance"])
def test_a_test_that_rejects_stands_beside_its_finding(part):
    row = COMPARISON.results[0]
    test = replace(row.lossless.tests[0], rejected=True, log_pvalue=-900.0)
    told = replace(getattr(row, part), tests=(test,), findings=("broke",), verdict="FAIL")
    failed = replace(row, verdict="FAIL", **{part: told})
    assert complaints(COMPARISON, results=(failed,), verdict="FAIL") == []
    assert complaints(COMPARISON, results=(failed,)) == [
        "verdict is PASS: expected FAIL, the worst of its results"
    ]
    silent = replace(failed, **{part: replace(told, findings=())})
    assert complaints(COMPARISON, results=(silent,), verdict="FAIL") == [
        f"results[0].{part}.tests[0].rejected is true: expected a finding in "
        f"results[0].{part}.findings",
        f"results[0].{part}.verdict is FAIL: expected PASS, by its findings",
    ]


def test_what_is_detectable_at_just_what_was_asked_for_is_a_pass():
    row = COMPARISON.results[0]
    edge = replace(row, lossless=replace(row.lossless, detectable=COMPARISON.detect))
    assert complaints(COMPARISON, results=(edge,)) == []


def test_a_sampled_audit_whose_test_rejects_has_it_among_its_findings():
    test = replace(COMPARISON.results[0].lossless.tests[0], rejected=True, log_pvalue=-900.0)
    sampled = replace(STARVED.sampled, tests=(test,), findings=(BROKE,))
    run = {"sampled": sampled, "findings": (BROKE,), "verdict": "FAIL", "inconclusive": None}
    assert complaints(STARVED, **run) == []


def test_an_empty_comparison_has_any_verdict():
    """A run that was interrupted before its first row."""
    assert complaints(COMPARISON, results=(), verdict="INCONCLUSIVE") == []
    assert complaints(COMPARISON) == []


@pytest.mark.parametrize("field", ["counterexample", "breach", "rows"])
def test_what_was_found_speaks_against_a_pass(field):
    shown = {
        "counterexample": FAILED.counterexample,
        "breach": FAILED.counterexample,  # any object: whether there is one is what counts
        "rows": FAILED.counterexample,
    }
    assert complaints(PASSED, **{field: shown[field]}) == [
        f"verdict is PASS: expected FAIL, by {field}"
    ]
    assert complaints(FAILED) == []


def test_what_a_pass_may_deviate_is_the_tolerance_and_twice_what_was_left_out():
    first, rest = PASSED.instances[0], PASSED.instances[1:]
    for left_out, deviation, said in (
        (0.0, PASSED.tolerance, []),
        (0.0, 2 * PASSED.tolerance, ["instances[0].max_abs_deviation is above what a PASS allows"]),
        (1e-3, PASSED.tolerance + 2e-3, []),
        (1e-3, PASSED.tolerance + 2.5e-3,
         ["instances[0].max_abs_deviation is above what a PASS allows"]),
        (None, 1.0, []),
    ):  # fmt: skip
        changed = replace(first, left_out=left_out, max_abs_deviation=deviation)
        assert complaints(PASSED, instances=(changed, *rest)) == said
        # Such a law was not what an INCONCLUSIVE or a FAIL rests on.
        open_ = {"verdict": "INCONCLUSIVE", "inconclusive": "why"}
        assert complaints(PASSED, instances=(changed, *rest), **open_) == []


def test_a_self_test_names_all_that_is_unexpected():
    caught = Tried(name="fine", kind="fault", caught=True, tier="exact", effort=7, tv=None)
    missed = replace(caught, name="bad", caught=False)
    run = SelfTestRun(
        schema_version=1, seed=0, gamma=3, vocab_size=4, alpha=1e-6, detect=0.01, verdict="PASS",
        results=(caught,), unexpected=(), meta=COMPARISON.meta,
    )  # fmt: skip
    assert complaints(run) == []
    assert complaints(run, unexpected=("fine",)) == [
        "unexpected does not name the entries that are not as expected: none"
    ]
    other = replace(missed, name="worse")
    assert complaints(run, results=(missed, caught, other), verdict="FAIL") == [
        "unexpected does not name the entries that are not as expected: bad, worse"
    ]


def test_every_judged_kind_is_held_to_its_verdicts():
    kinds = [kind for kind in document_kinds() if issubclass(kind.struct, Judged)]
    assert len(kinds) >= 9
    assert [kind.words for kind in kinds if kind.verdicts is Kind.verdicts] == []
