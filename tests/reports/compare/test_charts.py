"""What stands where in the charts of a comparison."""

import re

import pytest
from msgspec.structs import replace
from support.pages.report_runs import compare_run

from simverify.reports.compare.charts import charts
from simverify.reports.words import shortened


def expected_chart(run):
    return str(charts("x", run.models[0], run.results)[0].svg)


def labels(svg):
    """Texts of the chart with where they stand, in x."""
    return {
        text: float(x)
        for x, text in re.findall(r'<text[^>]* x="([\d.]+)"[^>]*>([^<]+)</text>', svg)
    }


def test_each_verifiers_name_stands_below_its_own_marks():
    run = compare_run()
    svg = expected_chart(run)
    below = labels(svg.split("coupling bound</text>")[0])
    apart = sorted(below[row.verifier] for row in run.results)
    half = (apart[1] - apart[0]) / 2
    for i, row in enumerate(run.results):
        marks = re.findall(rf'class="rule s{i}" d="M([\d.]+) ', svg)
        assert marks
        assert all(abs(float(x) - below[row.verifier]) < half for x in marks), row.verifier


@pytest.mark.parametrize("name", ["x" * 90, "模型" * 40])
def test_a_long_name_is_cut_to_its_place(name):
    run = compare_run()
    rows = tuple(replace(row, verifier=f"{i}{name}") for i, row in enumerate(run.results))
    texts = labels(expected_chart(replace(run, results=rows)))
    cut = [text for text in texts if text.endswith("\N{HORIZONTAL ELLIPSIS}")]
    assert {text[0] for text in cut} == {"0", "1", "2", "3"}
    assert max(map(len, cut)) <= 14


def test_shortened():
    assert shortened("temperature-0", 13) == "temperature-0"
    assert shortened("temperature-0", 12) == "temperature\N{HORIZONTAL ELLIPSIS}"
    assert shortened("a\nb\x1b", 9) == "a b?"
