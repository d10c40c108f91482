import json

import msgspec
import pytest
from support.pages.html_page import Page, check
from support.pages.report_runs import HOSTILE, compare_run, example, hostile_runs

from simverify.reports.formats.html import html_report
from simverify.results import Document

EXAMPLES = ("compare", "transformers", "faulty-block")


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_page_allows_itself_and_nothing_else(name):
    check(html_report(example(name)))


def test_a_changed_script_or_an_attribute_would_be_found():
    text = html_report(example("faulty-block"))
    for old, new in (
        ('"use strict";', '"use strict" ;'),
        ("<body>", '<body style="margin:0">'),
        ("<body>", '<body onload="x()">'),
        ("<header>", '<header><img src="x">'),
        ("</header>", ""),
    ):
        assert old in text
        with pytest.raises(AssertionError):
            check(text.replace(old, new, 1))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_same_run_gives_the_same_bytes(name):
    assert html_report(example(name)) == html_report(example(name))


@pytest.mark.parametrize("index", range(3))
def test_hostile_texts_are_shown_and_do_nothing(index):
    run = list(hostile_runs())[index]
    text = html_report(run)
    page = check(text)
    assert "<script>alert" not in text
    assert "<script>alert(1)</script>?[31m??" in page.text
    assert len(text) < 1_000_000


def test_the_embedded_run_is_the_run_and_cannot_end_its_element():
    run = msgspec.structs.replace(example("faulty-block"), spec="</script><!--" + HOSTILE)
    page = check(html_report(run))
    embedded = next(body for _, attributes, body in page.inside if attributes.get("id") == "run")
    assert json.loads(embedded) == json.loads(msgspec.json.encode(run))
    assert "<" not in embedded
    assert embedded.isascii()


@pytest.mark.parametrize(("models", "verifiers"), [(13, 4), (50, 1)])
def test_50_results_stay_below_a_megabyte(models, verifiers):
    run = compare_run(models, verifiers)
    assert len(run.results) >= 50
    text = html_report(run)
    check(text)
    assert len(text.encode()) < 1_000_000


@pytest.mark.parametrize("name", ["model {}", "{}" + HOSTILE * 300])
@pytest.mark.thorough
def test_500_results_are_bounded_and_what_is_left_out_is_said(name):
    text = html_report(compare_run(125, 4, name))
    page = check(text)
    assert len(text.encode()) < 2_000_000
    assert "300 rows more stand in the run file" in page.text
    assert "is not embedded" in page.text


def test_the_first_words_say_what_to_do():
    for name, words in (
        ("compare", "PASS No deviation was found on the models tried"),
        ("transformers", "PASS Lossless on every instance tried"),
        ("faulty-block", "FAIL Do not ship it: its output does not follow the target model"),
    ):
        head = Page(html_report(example(name))).text.split("Skip to the sections")[1][:600]
        assert words in " ".join(head.split())


def test_an_audit_shows_its_counterexample_and_what_it_rests_on():
    run = example("faulty-block")
    words = " ".join(Page(html_report(run)).text.split())
    for part in (
        "has probability 0.2983; it should have 1/8 = 0.125",
        "due 1/2 = 0.5",
        "It deviates first at output token 1, a draft token that was accepted",
        "Its law there is that of the fault naive-block",
        "no false alarms",
        "warning",
        "simverify replay reports/examples/faulty-block/run.json#0",
    ):
        assert part in words, part


def test_a_comparison_shows_curves_bands_and_gaps():
    words = " ".join(Page(html_report(example("compare"))).text.split())
    for part in (
        "Acceptance on compact",
        "Block efficiency on markov-64",
        "Speed-up on markov-2048",
        "PITs in q/p order on markov-2048",
        "Simultaneous 99.9% band",
        "Contexts repeat here",
        "gap to optimum",
        "rational, by paths",
        "but for a probability of 0.001",
    ):
        assert part in words, part


def test_a_rule_that_is_not_built_in_has_no_curve_of_shorter_drafts():
    run = msgspec.to_builtins(compare_run(1, 1))
    run["results"][0]["verifier"] = run["meta"]["timings"][0]["verifier"] = "mine"
    text = html_report(msgspec.convert(run, Document))
    assert "Acceptance on" in text
    assert "Block efficiency on" not in text
