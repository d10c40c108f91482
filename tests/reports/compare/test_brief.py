"""The short answer of a comparison: what it must say of every kind of run, and no more."""

import pytest
from msgspec.structs import replace
from support.pages.printed import every, small_comparison

from simverify.reports.compare.brief import sentence, under


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
    return under(run, info, [row for row in run.results if row.model == model])


@pytest.mark.thorough
def test_a_pass_has_its_error_rate_and_what_it_would_have_found(run):
    words = sentence(judged(run, "PASS", detect=0.02))
    assert words.startswith("PASS: all 10 results follow the target's distribution; ")
    assert "FAIL with probability 1e-06 at most" in words
    assert "a deviation of 0.02" in words
    assert "probability 0.9." in words


@pytest.mark.thorough
def test_a_promise_for_some_deviations_alone_says_so(run):
    passed = judged(run, "PASS")

    def shaped(row):
        lossless = replace(row.lossless, deviation="mean one-token TV, monotone in q/p")
        return replace(row, lossless=lossless) if row.model == "toy" else row

    assert "(on toy: of the shapes that --verbose names)" in sentence(every(passed, shaped))
    assert "--verbose" not in sentence(passed)


def test_a_fail_names_who_failed(run):
    assert sentence(run).startswith(
        "FAIL: temperature-0 on toy, temperature-0 on markov-16 do not follow the target's"
    )


def test_acceptance_alone_is_not_called_lossy(run):
    passed = judged(run, "PASS")
    first = passed.results[0]
    strange = replace(first, acceptance=replace(first.acceptance, verdict="FAIL"))
    words = sentence(replace(passed, verdict="FAIL", results=(strange, *passed.results[1:])))
    assert "token on toy does not accept as the declared rule does" in words
    assert "nothing says that the output is wrong" in words


def test_too_few_samples_say_what_to_raise(run):
    assert sentence(judged(run, "INCONCLUSIVE")) == (
        "INCONCLUSIVE: all 10 results do not have enough blocks to be judged; raise --blocks or "
        "--detect."
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
    assert rests.startswith("exact: the rule's own law is the target's")
    assert bound == "no rule can keep more than 3.21 of 6 draft tokens in a first call"


def test_the_first_line_of_a_failed_table_is_why(run):
    (why,) = lines(run, "toy")
    assert why.startswith("FAIL temperature-0: the rule's own law differs")
    assert "looks like the fault" in why
