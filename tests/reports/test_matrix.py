"""What a matrix of parameters says on a terminal, in reports, and as a file that is read again."""

import msgspec
import pytest
from support.pages.html_page import Page, check
from support.pages.report_runs import example

from simverify.errors import UsageError
from simverify.reports.formats import build_report, html_report, junit_report, markdown_report
from simverify.results import (
    MatrixCell,
    MatrixRun,
    PlanLine,
    PlanMeta,
    PlanRun,
    SelfTestRun,
    Timing,
    Tried,
    matrix_verdict,
)
from simverify.results.reading import load

TRIED = ("honoured", "dropped", "first row only")


def cell(name, outcome="honoured", left=None, words="as asked", found=0.08):
    left = (outcome,) if left is None else left
    return MatrixCell(
        name=name, value="asked 5", outcome=outcome, words=words, left=left, tried=TRIED,
        tokens=0 if outcome == "refused" else 2048, found=found, log_evalue=-3.0,
    )  # fmt: skip


def run(*cells):
    return MatrixRun(
        schema_version=1, source="http://localhost:8000", target="t", proxy=None, dtype="float32",
        alpha=1e-6, cell_alpha=1e-6 / 18, ball=1e-6, budget=2048, gammas=(1, 2), order=("top-k",),
        cells=cells, seed=0, verdict=matrix_verdict(cells), notes=("a note",),
        reproduce="simverify matrix --endpoint http://localhost:8000", meta=example("compare").meta,
    )  # fmt: skip


GOOD = cell("top-k")
LONG = cell("repetition-penalty before presence-penalty", "wrong order", words="the other")
OPEN = cell("min-p", "inconclusive", ("honoured", "dropped"), "honoured, or dropped", None)
REFUSED = cell("typical-p", "refused", (), "answers 400: unknown field", None)


@pytest.mark.parametrize(
    ("cells", "verdict", "ruling"),
    [
        ((GOOD,), "PASS", "1 of 1 are honoured"),
        ((GOOD, REFUSED), "PASS", "1 of 2 are honoured"),
        ((REFUSED,), "INCONCLUSIVE", "takes none of the parameters"),
        ((GOOD, OPEN), "INCONCLUSIVE", "Not decided: min-p"),
        ((GOOD, OPEN, LONG), "FAIL", "does not do what it is asked for with: repetition-penalty"),
    ],
)
def test_the_verdict_is_that_of_the_cells(cells, verdict, ruling):
    found = run(*cells)
    assert found.verdict == verdict
    lines = str(found).splitlines()
    assert lines[0] == f"{verdict} http://localhost:8000"
    assert ruling in " ".join(lines)
    assert max(map(len, lines)) <= 80
    assert [case.outcome for case in build_report(found).cases].count("failed") == (
        verdict == "FAIL"
    )
    text = " ".join(check(html_report(found)).text.split())
    assert all(own.name in text for own in cells)
    assert "testsuite" in junit_report(found)


def test_a_file_is_read_again_and_one_that_contradicts_itself_is_refused(tmp_path):
    found = run(GOOD, LONG)
    path = tmp_path / "run.json"
    found.save(path)
    assert load(path) == found
    for broken in (
        {"verdict": "PASS"},
        {"cells": (msgspec.structs.replace(GOOD, left=("honoured", "dropped")), LONG)},
    ):
        msgspec.structs.replace(found, **broken).save(path)
        with pytest.raises(UsageError, match="not a result document of this version"):
            load(path)


# What reports say of a self-test and of a plan.


def words(run):
    return " ".join(check(html_report(run)).text.split())


META = example("compare").meta


def test_a_self_test():
    def entry(name, kind, caught):
        return Tried(name=name, kind=kind, caught=caught, tier="exact", effort=7, tv=0.1)

    run = SelfTestRun(
        schema_version=1, seed=0, gamma=3, vocab_size=4, alpha=1e-6, detect=0.01, verdict="FAIL",
        results=(entry("good", "control", False), entry("bad", "fault", True),
                 entry("worse", "fault", False)),
        unexpected=("worse",), meta=META,
    )  # fmt: skip
    text = words(run)
    assert "FAIL Do not trust audits on this machine. What came out wrong: worse." in text
    assert "1 of 2 caught" in text
    assert "1 of 1 passed" in text
    assert [case.outcome for case in build_report(run).cases] == ["passed", "passed", "failed"]


def test_a_plan_has_no_verdict():
    meta = PlanMeta(
        version="0", started="", seconds=0.0, machine="", python="", threads=2,
        timings=(Timing(model="markov-64", verifier="token", blocks_per_second=1e6),),
        row_seconds=(90.0, None),
    )  # fmt: skip
    rows = (
        PlanLine(test="G2", level=1e-7, samples=1e6, unit="tokens", deviation=0.01, measure="TV"),
        PlanLine(test="KS", level=1e-7, samples=None, unit="tokens", deviation=0.01, measure="D"),
    )
    run = PlanRun(
        schema_version=1, seed=0, alpha=1e-6, power=0.9, vocab_size=64, gamma=8, contexts=577,
        asked="deviation", deviation=0.01, samples=None, seconds=None, tokens_per_block=3.7,
        rows=rows, meta=meta,
    )  # fmt: skip
    text = words(run)
    for part in ("It judges nothing", "1.5 min", "none will do", "--deviation 0.01"):
        assert part in text, part
    assert markdown_report(run).startswith("## Plan: To find 0.01")
    assert "PASS" not in Page(html_report(run)).text
