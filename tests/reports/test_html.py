import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
from report_runs import HOSTILE, compare_run, example, hostile_runs

from simverify.reports.html import html_report
from simverify.results import Document

EXAMPLES = ("compare", "transformers", "faulty-block")
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Every element with its attributes, the text of each script and style, and all other text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.inside, self.text, self._open = [], [], "", []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)
        if tag in ("script", "style"):
            self.inside.append((tag, dict(attributes), ""))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1:] in (["script"], ["style"]):
            tag, attributes, text = self.inside[-1]
            self.inside[-1] = tag, attributes, text + data
        else:
            self.text += data

    def policy(self):
        return next(
            a["content"]
            for t, a in self.elements
            if a.get("http-equiv") == "Content-Security-Policy"
        )


def digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def check(text):
    """What must hold of every page, whatever it shows."""
    page = Page(text)
    policy = dict(part.strip().split(" ", 1) for part in page.policy().split(";"))
    codes = {tag: body for tag, attributes, body in page.inside if "type" not in attributes}
    assert sorted(codes) == ["script", "style"]
    assert policy["default-src"] == "'none'"
    assert policy["style-src"] == digest(codes["style"])
    assert policy["script-src"] == digest(codes["script"])
    assert set(policy) == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
    for tag, attributes in page.elements:
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert not {"src", "srcset", "action", "data"} & set(attributes), tag
        assert attributes.get("href", "#").startswith("#"), tag
        assert tag not in ("link", "img", "iframe", "object", "base", "form")
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    charts = [a for tag, a in page.elements if tag == "svg" and a.get("role") == "img"]
    for chart in charts:
        assert set(chart["aria-labelledby"].split()) <= set(identifiers)
    assert "url(" not in codes["style"]
    assert "@import" not in codes["style"]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)
    return page


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
def test_500_results_are_bounded_and_what_is_left_out_is_said(name):
    text = html_report(compare_run(125, 4, name))
    page = check(text)
    assert len(text.encode()) < 2_000_000
    assert "300 rows more stand in the run file" in page.text
    assert "is not embedded" in page.text


def test_the_first_words_say_what_to_do():
    for name, words in (
        ("compare", "PASS No verifier deviates"),
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
        "Speed-up on markov-5000",
        "PITs in q/p order on markov-5000",
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
