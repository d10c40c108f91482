"""What a matrix of parameters says on a terminal, in reports, and as a file that is read again."""

import msgspec
import pytest
from support.pages.html_page import check
from support.pages.report_runs import example

from simverify.errors import UsageError
from simverify.reports.formats.html import html_report
from simverify.reports.formats.junit import junit_report
from simverify.reports.report import report_of
from simverify.results import MatrixCell, MatrixRun, matrix_verdict
from simverify.results.reading.document import load

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
    assert [case.outcome for case in report_of(found).cases].count("failed") == (verdict == "FAIL")
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
