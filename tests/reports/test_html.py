"""."""

import json

import msgspec
import pytest
from support.pages.html_page import Page, check
from support.pages.report_runs import HOSTILE, compare_run, example, hostile_runs

from simverify import results
from simverify.reports.formats import html_report, markdown_report
from simverify.results import AtPlace, Meta, OutputRun, Rescoring, WorstToken
from simverify.results.registry import document_type

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
        "Its distribution there equals that of the fault naive-block",
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
    text = html_report(msgspec.convert(run, document_type()))
    assert "Acceptance on" in text
    assert "Block efficiency on" not in text


# Where an audit of emitted tokens fails, on every face: few lines, all of them, tables.


META = Meta(version="0", started="", seconds=0.0, machine="", python="", threads=1, timings=())


def off(number, **changes):
    token = WorstToken(
        request=number, position=3, slot=None, token=7, text=" cat", before="The", after=" sat",
        p=1e-5, rank=412, chance=2e-5, expected=8, expected_text=" dog", expected_p=0.9,
    )  # fmt: skip
    return msgspec.structs.replace(token, **changes)


def place(of, first, last, sigmas):
    return AtPlace(of=of, first=first, last=last, tokens=99, name="score -log p", mean=0.1,
                   sigmas=sigmas)  # fmt: skip


@pytest.fixture
def run():
    test = results.Test(
        name="score -log p", statistic=1.0, log_pvalue=-99.0, alpha=1e-7, n=9, df=None,
        method="x", min_detectable=None, deviation="x", rejected=True,
    )  # fmt: skip
    return OutputRun(
        schema_version=1, source="a.jsonl", endpoint=True, target="t", proxy=None, sha256="",
        vocab_size=9, requests=9, tokens=99, planned=999, left_out=0, ended=0, restored=0,
        unfinished=0, near=0, unsupported=0, temperature=1.0, top_k=None, top_p=None, otherwise=0,
        device="cpu", dtype="float32", alpha=1e-6, detect=0.04, power=0.9, ball=1e-6,
        ball_given=False, ball_measured=1e-6, hidden=(), shape=None,
        rescoring=Rescoring(mean=0.0, largest=0.0, precision=None, precision_tokens=0, margin=0.1),
        text=None, stopped=True, failed_from=64, budget=5000, seed=0, verdict="FAIL",
        tests=(test,), detectable=1.0, deviation="x", certificate=None, findings=("score",),
        worst=(off(0, p=0.0, chance=0.0), off(1, slot=2), off(2, text="\x1b[31m<b>"), off(3)),
        places=(place("request", 0, 0, 1.0), place("request", 2, 3, 8.0),
                place("draft", 2, 2, 9.0)),
        inconclusive=None, notes=(), reproduce="simverify audit", meta=META,
    )  # fmt: skip


def test_the_terminal_shows_a_few_and_verbose_all(run):
    few, all_ = (" ".join(run.as_text(verbose=v).split()) for v in (False, True))
    assert '0 3 not known "The" " cat" 0, cut off 412 " dog", p = 0.9' in few
    assert '1 3 2 "The" " cat" 1e-05 412' in few
    assert "place: score -log p" in few
    assert "tokens 2 to 3 99 0.1 8 place 2 of a draft 99 0.1 9" in few
    assert "1 more row stands in the run file" in few
    assert '3 3 not known "The"' not in few
    assert '3 3 not known "The"' in all_
    assert "token 0 99 0.1 1 " in all_
    assert "Bets as tokens came: FAIL after 64 tokens: the server was asked no more" in few
    assert "Budget: 5,000 tokens" in few
    assert "\x1b" not in few
    assert all(len(line) <= 80 for line in run.as_text().splitlines())


SHARED = "pairs, repeated stream neighbouring requests, token order"
SAME = "pairs, same token as the request before"
HEADS = {
    "tokens": ({"score -log p": -99.0}, "the emitted tokens do not follow the target model."),
    "one seed": (
        {SHARED: -900.0},
        "share their random numbers: one seed for all requests? Each request's own tokens follow",
    ),
    "one seed, and tokens": (
        {SHARED: None, "PIT in token order": -30.0},
        "share their random numbers: one seed for all requests? Answers that depend on each other",
    ),
    "one noise": (
        {SAME: -90.0, "rates of single tokens": -95.0},
        "emit the same tokens as those before them too often: one seed for all requests?",
    ),
    "one noise, and tokens": (
        {SAME: -90.0, "score -log p": -95.0}, "the emitted tokens do not follow the target model."
    ),
    "by the draft": (
        {"score q > p": -43.0, "PIT in q/p order": -30.0, "score -log p": -20.0},
        "look at the rule that accepts drafts",
    ),
    "by the draft alone": ({"score min(1, q/p)": None}, "look at the rule that accepts drafts"),
    "by the draft as by others": (
        {"score q > p": -43.0, "score -log p": -40.0}, "They are consistent with x (p-value 0.5)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_the_headline_names_the_cause_that_the_tests_leave(run, name):
    rejected, words = HEADS[name]
    tests = tuple(
        msgspec.structs.replace(run.tests[0], name=test, log_pvalue=log_p)
        for test, log_p in rejected.items()
    )
    explained = results.Explained(
        tokens=9, alpha=1e-3, tried=3, fits=(results.Explanation("x", 0.5),), rest_log_pvalue=-9.0
    )
    found = msgspec.structs.replace(run, tests=tests, explained=explained)
    head = " ".join(found.as_text().split("Judged:")[0].split())
    assert words in head
    assert ("consistent with" in head) == (name in ("tokens", "by the draft as by others",
                                                    "one noise, and tokens"))  # fmt: skip


def test_copies_explain_a_stream_that_they_share(run):
    tests = (msgspec.structs.replace(run.tests[0], name=SHARED, log_pvalue=-900.0),)
    few, many = (
        " ".join(msgspec.structs.replace(run, requests=40, tests=tests, copies=n).as_text().split())
        for n in (1, 15)
    )
    assert "share their random numbers: one seed for all requests? 1 of 40 answers is a copy" in few
    assert "Do not ship it: 15 of 40 answers are copies of another" in many
    assert "share their random numbers" not in many


def test_a_pass_names_the_parameters_without_a_bound(run):
    passed = msgspec.structs.replace(
        run, verdict="PASS", findings=(), tests=(), untested=("logit-bias", "presence-penalty")
    )
    shown = " ".join(passed.as_text().split())
    assert "No bound holds for logit-bias, presence-penalty, which requests name" in shown
    assert "No bound holds" not in msgspec.structs.replace(passed, untested=()).as_text()


def test_the_report_has_both_tables(run):
    text = " ".join(check(html_report(run)).text.split())
    for shown in (text, markdown_report(run)):
        assert "Tokens that the target expected least, the worst first" in shown
        assert "How far a mean is off by place: score -log p" in shown
        assert "place 2 of a draft" in shown
        assert "\x1b" not in shown


def test_a_run_without_them_has_no_such_section(run):
    passed = msgspec.structs.replace(
        run, verdict="PASS", worst=(), places=(), findings=(), tests=(), stopped=False,
        failed_from=None,
    )  # fmt: skip
    assert "Where it fails" not in check(html_report(passed)).text
    assert "Where it fails" not in passed.as_text()
