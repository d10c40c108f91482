"""Where an audit of emitted tokens fails, on every face: few lines, all of them, tables."""

import msgspec
import pytest
from support.pages.html_page import check

from simverify import results
from simverify.reports.formats.html import html_report
from simverify.reports.formats.markdown import markdown_report
from simverify.results import AtPlace, Meta, OutputRun, Rescoring, WorstToken

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
    assert 'worst: request 0, token 3: " cat" after "The": p = 0, cut off, rank 412; ' in few
    assert 'request 1, token 3 (place 2 of its draft): " cat"' in few
    assert "off by place (score -log p): tokens 2 to 3 +8.0 sd, place 2 of a draft +9.0 sd" in few
    assert "1 more of the worst tokens, and all places: --verbose" in few
    assert "request 3" not in few
    assert "request 3" in all_
    assert "token 0 +1.0 sd" in all_
    assert "Bets as tokens came: FAIL after 64 tokens: the server was asked no more" in few
    assert "Budget: 5,000 tokens" in few
    assert "\x1b" not in few
    assert all(len(line) <= 80 for line in run.as_text().splitlines())


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
    assert "worst" not in passed.as_text()
