"""Runs from Python: audited, compared, shown, saved, loaded, replayed."""

import inspect

import pytest
from msgspec.structs import replace
from support.pages.html_page import Page, check
from support.pages.printed import every, small_comparison

import simverify
from simverify import UsageError
from simverify.cli.app import app
from simverify.faults import get_fault
from simverify.options.audit import CODE
from simverify.options.compare import COMPARISONS
from simverify.options.served import OutputOptions
from simverify.results.reading import document_text

pytestmark = pytest.mark.usefixtures("unsearched_module")

SMALL = {"gamma": 1, "vocab": 3}


def reused(target_probs, draft_probs, draft_tokens, rng):
    return get_fault("reused-uniform").rule(target_probs, draft_probs, draft_tokens, rng)


@pytest.fixture(scope="module")
def failed(unsearched_module):
    return simverify.audit(reused, **SMALL)


@pytest.fixture(scope="module")
def passed(unsearched_module):
    return simverify.audit("token", **SMALL)


@pytest.mark.thorough
def test_a_callable_and_a_spec_are_judged(failed, passed):
    assert (failed.verdict, failed.passed) == ("FAIL", False)
    assert (passed.verdict, passed.passed) == ("PASS", True)
    assert failed.counterexample.tv > 0.01
    assert passed.counterexample is None


def test_inconclusive_is_not_passed(failed):
    assert not replace(failed, verdict="INCONCLUSIVE").passed


def test_a_run_prints_what_the_terminal_shows(failed):
    text = str(failed)
    assert text.startswith("FAIL: ")
    assert "Smallest counterexample" in text
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_verbose_says_more(passed):
    assert "Refuted: 22 named faults" in str(passed)
    assert "draft-leak(0.01)" not in str(passed)
    assert "draft-leak(0.01)" in passed.as_text(verbose=True)


def test_a_replay_calls_the_function_that_was_audited(failed):
    """A lambda has no SPEC that a new process could load."""
    by_name = simverify.replay(failed, 0)
    lossy = simverify.audit(lambda *block: reused(*block), **SMALL)
    assert ":" not in lossy.spec
    again = simverify.replay(lossy, 0)
    assert repr(again) == str(again)
    assert by_name.count("\n") > 3
    assert again.count("\n") == by_name.count("\n")


def test_an_output_that_is_due_and_never_comes_is_replayed_too():
    run = simverify.audit(lambda p, q, x, rng: [0], **SMALL)
    never = replace(run.counterexample, sequence=(1,))
    text = simverify.replay(replace(run, counterexample=never))
    assert "emitted with probability 0," in text
    assert "no path leads there" in text
    with pytest.raises(UsageError, match="numbered from 0: got 1"):
        simverify.replay(replace(run, counterexample=never), 1)


def test_what_cannot_be_replayed_is_one_line(failed, passed):
    with pytest.raises(UsageError, match="no counterexample and no failing trial"):
        simverify.replay(passed)
    with pytest.raises(UsageError, match="numbered from 0: got 99"):
        simverify.replay(failed, 99)


def test_a_run_is_saved_loaded_and_reported(failed, tmp_path):
    failed.save(tmp_path / "run.json")
    assert simverify.load(tmp_path / "run.json") == failed
    assert (tmp_path / "run.json").read_text() == document_text(failed)
    failed.report(tmp_path / "all")
    names = {path.name for path in (tmp_path / "all").iterdir()}
    assert names == {"report.html", "report.md", "junit.xml", "run.json"}
    with pytest.raises(UsageError, match="cannot be written"):
        failed.save(tmp_path / "none" / "run.json")
    with pytest.raises(UsageError, match="cannot be read"):
        simverify.load(tmp_path / "none.json")


def test_a_notebook_shows_the_report_in_a_frame_of_its_own(failed):
    """The page's own policy forbids scripts of others; nothing of it leaks into the notebook."""
    ((tag, frame),) = Page(failed._repr_html_()).elements
    assert tag == "iframe"
    check(frame["srcdoc"])
    assert "counterexample" in frame["srcdoc"]


@pytest.mark.thorough
def test_a_comparison_prints_a_table_and_one_sentence():
    run = every(small_comparison(), lambda row: replace(row, calls=()))
    text, full = str(run), run.as_text(verbose=True)
    assert len(text) < len(full) / 2
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.splitlines()[-1].endswith(".")
    assert "FAIL: " in text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: simverify.audit(reused, gamma=9), "gamma is 9: expected 1 to 4"),
        (lambda: simverify.audit(3), "expected a callable or a SPEC"),
        (
            lambda: simverify.audit(reused, tokens=3),
            r"tokens is not for code on small instances: it is for",
        ),
        (lambda: simverify.audit("token", target="x"), "draft is missing"),
        (lambda: simverify.audit_outputs(target="tiny-llama"), "outputs or endpoint"),
        (lambda: simverify.audit_outputs("a", endpoint="b", target="c"), "two sources"),
        (lambda: simverify.compare(["toy"]), "gamma requires an argument"),
        (
            lambda: simverify.compare(["toy"], gamma=2, top_p=0.5),
            r"it is for real models \(target and draft",
        ),
        (lambda: simverify.compare("toy", gamma=2), "expected a list"),
    ],
)
def test_bad_input_is_one_line_in_pythons_words(call, words):
    with pytest.raises(UsageError, match=words) as error:
        call()
    assert "\n" not in str(error.value)
    assert "--" not in str(error.value)


NOT_KEYWORDS = {
    "no_cache",
    "json",
    "report",
    "quiet",
    "verbose",
    "self_test",
    "list",
    "spec",
    "against",
}
"""Where results go is the caller's business in Python; the rest has functions of its own, whose
second argument is what ``--against`` names."""


@pytest.mark.parametrize(
    ("command", "functions"),
    [
        ("audit", (*CODE, OutputOptions, simverify.audit_engine, simverify.audit_against)),
        ("compare", COMPARISONS),
        ("plan", (simverify.plan,)),
        ("table", (simverify.table,)),
        ("bisect", (simverify.bisect,)),
    ],
)
def test_every_option_of_a_command_is_a_keyword(command, functions):
    shown = app[command].assemble_argument_collection().filter_by(show=True)
    arguments = [x for x in shown if not x.children]
    options = {x.names[0].lstrip("-").replace("-", "_").lower() for x in arguments}
    options -= NOT_KEYWORDS
    assert "gamma" in options
    keywords = {name for each in functions for name in inspect.signature(each).parameters}
    assert options <= keywords
