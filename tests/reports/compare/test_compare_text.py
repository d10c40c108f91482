"""The short answer of a comparison: what it must say of every kind of run, and no more."""

import re

import pytest
from msgspec.structs import replace
from support.pages.printed import every, small_comparison
from support.pages.report_runs import compare_run

import simverify
from simverify.reports.compare_charts import model_charts
from simverify.reports.compare_text import model_notes, results_by_gamma, verdict_sentence
from simverify.reports.words import truncate_line


@pytest.fixture(scope="module")
def run():
    return small_comparison()


def judged(run, verdict, detect=0.01):
    """Every result with one verdict, nothing found."""

    def change(row):
        lossless = replace(
            row.lossless, verdict=verdict, findings=(), faults=None, localisation=None
        )
        acceptance = replace(row.acceptance, verdict=verdict, findings=())
        return replace(row, verdict=verdict, lossless=lossless, acceptance=acceptance)

    return replace(every(run, change), verdict=verdict, detect=detect)


def lines(run, model):
    (info,) = [m for m in run.models if m.name == model]
    return model_notes(run, info, [row for row in run.results if row.model == model])


@pytest.mark.thorough
def test_a_pass_has_its_error_rate_and_what_it_would_have_found(run):
    words = verdict_sentence(judged(run, "PASS", detect=0.02))
    assert words.startswith("PASS: all 10 results follow the target's distribution. ")
    assert "fail a run with probability at most 1e-06" in words
    assert "A deviation of 0.02" in words
    assert "probability 0.9; " in words


@pytest.mark.thorough
def test_a_promise_for_some_deviations_alone_says_so(run):
    passed = judged(run, "PASS")

    def shaped(row):
        lossless = replace(row.lossless, deviation="mean one-token TV, monotone in q/p")
        return replace(row, lossless=lossless) if row.model == "toy" else row

    assert "(on toy: of the shapes that --verbose names)" in verdict_sentence(every(passed, shaped))
    assert "--verbose" not in verdict_sentence(passed)


def test_a_fail_names_who_failed(run):
    words = verdict_sentence(run)
    assert words.startswith(
        "FAIL: Do not ship temperature-0 on toy, temperature-0 on markov-16: the output does not "
        "follow the target."
    )
    assert words.endswith(" Lossless verifiers fail a run with probability at most 1e-06.")


def test_acceptance_alone_is_not_called_lossy(run):
    passed = judged(run, "PASS")
    first = passed.results[0]
    strange = replace(first, acceptance=replace(first.acceptance, verdict="FAIL"))
    words = verdict_sentence(
        replace(passed, verdict="FAIL", results=(strange, *passed.results[1:]))
    )
    assert "Look at token on toy: the kernel accepts otherwise than the declared rule" in words
    assert "says nothing against losslessness" in words


def test_too_few_samples_say_what_to_raise(run):
    assert verdict_sentence(judged(run, "INCONCLUSIVE")) == (
        "INCONCLUSIVE: Do not decide on this run about any of the 10 results: too few blocks to "
        "say that the output follows the target: raise --blocks or --detect."
    )


def test_a_table_has_two_lines_at_most(run):
    def failing(row):
        return replace(row, lossless=replace(row.lossless, findings=("a", "b")))

    many = every(run, failing)
    assert lines(many, "toy")[1] == "4 failures more: see --verbose"
    for found in (lines(many, "toy"), lines(run, "toy"), lines(judged(run, "PASS"), "toy")):
        assert len(found) <= 2


def test_a_passed_table_says_what_it_rests_on_and_what_is_possible(run):
    rests, bound = lines(judged(run, "PASS"), "toy")
    assert rests.startswith("exact: the rule's distribution is the target's")
    assert bound == "no rule can keep more than 3.21 of 6 draft tokens in a first call"


def test_the_first_line_of_a_failed_table_is_why(run):
    (why,) = lines(run, "toy")
    assert why.startswith("FAIL temperature-0: the rule's exact distribution differs")
    assert "looks like the fault" in why


@pytest.fixture(scope="module")
def runs():
    verifiers = ["token", "block", "greedy", "match"]
    return {
        gamma: simverify.compare(["toy"], verifiers, gamma=gamma, blocks=1000) for gamma in (2, 3)
    }


def test_the_curve_of_long_drafts_has_the_exact_laws_of_shorter_ones(runs):
    shorter = {(row.model, row.verifier): row for row in runs[2].results}
    for row in runs[3].results:
        own = shorter[row.model, row.verifier]
        point = results_by_gamma(row)[1]
        assert point.gamma == 2
        assert point.block_efficiency == pytest.approx(own.block_efficiency, rel=1e-12)
        assert point.speedup == pytest.approx(own.speedup.predicted, rel=1e-12)
        assert point.accepted == pytest.approx(own.acceptance_ccdf.exact[1], rel=1e-12)


def test_the_last_point_is_the_result_itself(runs):
    for row in runs[3].results:
        last = results_by_gamma(row)[-1]
        assert last.block_efficiency == pytest.approx(row.block_efficiency, rel=1e-12)
        assert last.speedup == pytest.approx(row.speedup.predicted, rel=1e-12)
        assert last.measured_efficiency == pytest.approx(row.measured.mean + 1, rel=1e-12)


# What stands where in the charts of a comparison.


def expected_chart(run):
    return str(model_charts("x", run.models[0], run.results)[0].svg)


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
    assert truncate_line("temperature-0", 13) == "temperature-0"
    assert truncate_line("temperature-0", 12) == "temperature\N{HORIZONTAL ELLIPSIS}"
    assert truncate_line("a\nb\x1b", 9) == "a b?"
