"""Two engines that answer alike pass, those that do not fail, and what tells nothing says so."""

import dataclasses
import json

import pytest
from support.false_alarms import ALPHA
from support.pages.html_page import check
from support.two_engines import Chain, asked

from simverify.emitted.against import (
    AgainstSettings,
    Pairs,
    Sources,
    audit_against,
    paired,
    read_answers,
)
from simverify.emitted.against.answers import answer_iv
from simverify.emitted.against.judging import first_unit_certificate
from simverify.errors import UsageError
from simverify.reports.formats.html import html_report
from simverify.reports.formats.junit import junit_report
from simverify.reports.formats.markdown import markdown_report
from simverify.results.reading.document import read_document

HERE = Sources("a.jsonl", "b.jsonl", "simverify audit --outputs a.jsonl --against b.jsonl")
CHAIN = Chain()
SMALL = {"prompts": 8, "repeats": 60, "length": 32}
FAULTS = {
    "lenient": CHAIN.lenient(0.4),
    "temperature": CHAIN.tempered(0.8),
    "one token": CHAIN.biased(5, 0.1),
}


def judged(rows, *, seed=0, alpha=ALPHA, detect=0.2, **sources):
    pairs = asked(CHAIN.p, rows, seed=seed, **SMALL)
    settings = AgainstSettings(alpha=alpha, detect=detect)
    return audit_against(pairs, dataclasses.replace(HERE, **sources), settings)


@pytest.mark.distribution
@pytest.mark.parametrize("name", [None, *FAULTS])
def test_engines_that_answer_alike_pass_and_others_fail(name):
    run = judged(CHAIN.p if name is None else FAULTS[name])
    assert run.verdict == ("PASS" if name is None else "FAIL")
    assert (run.certificate is None) == bool(run.findings) == bool(run.shown)
    if name is None:
        # No law of 8 prompts is told from itself closer than this.
        assert 0.2 < run.certificate.bound < 1.0
        assert any(note.startswith("not run: permutations") for note in run.notes)


def test_most_faults_need_another_test():
    """Each test finds something that another does not: none stands there for nothing."""
    found = [
        {test.name for test in judged(rows, alpha=1e-6).tests if test.rejected}
        for rows in FAULTS.values()
    ]
    assert len(set(map(frozenset, found))) > 1


def test_permutations_are_made_where_the_rest_finds_nothing():
    run = judged(CHAIN.p, alpha=0.05)
    assert run.tests[-1].name == "permutations of whole answers"
    assert not run.tests[-1].rejected
    off = judged(CHAIN.tempered(0.93), alpha=0.05, detect=0.9)
    assert any(test.rejected for test in off.tests)


def test_too_few_answers_promise_nothing():
    pairs = asked(CHAIN.p, CHAIN.p, prompts=2, repeats=3, length=4)
    planned = dataclasses.replace(HERE, planned=9)
    run = audit_against(pairs, planned, AgainstSettings())
    assert run.verdict == "INCONCLUSIVE"
    assert "6 of 9 pairs are there: no power is promised" in run.inconclusive
    assert "--repeats" in run.inconclusive


@pytest.mark.parametrize("differ", [False, True])
def test_copies_tell_nothing_whatever_is_found(differ):
    one, other = tuple(range(12)), tuple(range(12 + differ))
    pairs = Pairs((((one, other),) * 400,) * 3, ("x", "y", "z"), "ids")
    run = audit_against(pairs, HERE, AgainstSettings())
    assert run.verdict == "INCONCLUSIVE"
    assert "temperature 0 or with one seed" in run.inconclusive
    assert run.copied == (3, 3)


def test_one_seed_in_one_engine_alone_is_a_fault():
    pairs = asked(CHAIN.p, CHAIN.p, **SMALL)
    groups = tuple(tuple((a, group[0][1]) for a, _ in group) for group in pairs.groups)
    run = audit_against(dataclasses.replace(pairs, groups=groups), HERE, AgainstSettings())
    assert run.verdict == "FAIL"
    assert any("the second gives one answer alone to 8 prompts: one seed?" in n for n in run.notes)


def test_a_certificate_is_above_the_truth_and_needs_repeats():
    few, many = (
        first_unit_certificate(asked(CHAIN.p, CHAIN.lenient(0.5), prompts=4, repeats=n, length=1))
        for n in (20, 2000)
    )
    truth = abs(CHAIN.p[:4] - CHAIN.lenient(0.5)[:4]).sum(axis=1).mean() / 2
    assert truth < many.bound < truth + 0.1 < few.bound


@pytest.mark.parametrize("name", [None, "lenient"])
def test_a_document_reads_back_and_every_report_says_the_verdict(name, tmp_path):
    run = judged(CHAIN.p if name is None else FAULTS[name], alpha=1e-6, side_by_side=True)
    run.save(tmp_path / "run.json")
    assert read_document(tmp_path / "run.json") == run
    text = check(html_report(run)).text
    for shown in (text, markdown_report(run), run.as_text(verbose=True)):
        assert run.verdict in shown
        assert "rates of single tokens" in shown
    assert ("<failure" in junit_report(run)) == (run.verdict == "FAIL")
    assert all(len(line) <= 80 for line in run.as_text().splitlines() if "reproduce" not in line)
    if name is not None:
        assert "differs most: answers to the prompt" in " ".join(run.as_text().split())
    wrong = json.loads((tmp_path / "run.json").read_text())
    wrong["verdict"] = "PASS" if name else "FAIL"
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    with pytest.raises(UsageError, match="verdict is"):
        read_document(tmp_path / "wrong.json")


def said(prompt="x", **answer):
    return answer_iv({"prompt": prompt} | answer, "line 1")


def test_the_finest_units_that_both_have_are_compared():
    ids = said(tokens=[1, 2], pieces=["a", "b"], text="ab")
    assert paired([ids], [ids]).groups == ((((1, 2), (1, 2)),),)
    assert paired([ids], [said(pieces=["a"])]).kind == "token texts"
    text = paired([said(text="two words, then")], [ids])
    assert text.groups[0][0] == (("two", " words", ",", " then"), ("ab",))
    with pytest.raises(UsageError, match="token ids and the other text alone"):
        paired([said(tokens=[1])], [said(text="a")])


def test_the_end_counts_and_is_alike_whether_its_token_is_shown():
    shown = [said(tokens=[7, 0], finish_reason="stop"), said(tokens=[8, 0], finish_reason="stop")]
    hidden = [said(tokens=[7], finish_reason="stop"), said(tokens=[8], finish_reason="stop")]
    ((first, second),) = paired(shown, hidden).groups
    assert first[0] == first[1] == (7, "")
    assert second[0] == second[1] == (8, "")
    ((cut,),) = paired([said(tokens=[7])], [said(tokens=[7], finish_reason="length")]).groups
    assert cut == ((7,), (7,))


def test_answers_are_paired_by_their_prompt():
    first = [said("x", tokens=[1]), said("y", tokens=[2]), said("x", tokens=[3])]
    second = [said("y", tokens=[4]), said("x", tokens=[5]), said("z", tokens=[6])]
    pairs = paired(first, second)
    assert pairs.prompts == ("x", "y")
    assert pairs.groups == ((((1,), (5,)),), (((2,), (4,)),))
    assert pairs.left_out == 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{}", "has no prompt"),
        ("[]", "has no prompt"),
        ('{"prompt": "x"}', "neither tokens"),
        ('{"prompt": "x", "tokens": [1.5]}', "tokens is no list of token ids"),
        ('{"prompt": "x", "pieces": [1]}', "pieces is no list of texts"),
        ('{"prompt": "x", "text": 5}', "text is int"),
        ('{"prompt": "x", "text": "a", "finish_reason": "abort"}', 'ended by "abort"'),
        ("", "holds no answer"),
    ],
)
def test_a_line_that_is_no_answer_is_named(tmp_path, line, says):
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=says) as error:
        read_answers(tmp_path / "a.jsonl", "outputs")
    assert "\n" not in str(error.value)


def test_two_that_were_asked_otherwise_are_not_compared():
    hot, cold = ({"temperature": t, "model": str(t), "top_k": k} for t, k in ((1.0, -1), (0.8, 0)))
    with pytest.raises(UsageError, match=r"temperature 1\.0, the second with 0\.8"):
        paired([said(tokens=[1], asked=hot)], [said(tokens=[1], asked=cold)])
    same = cold | {"temperature": 1.0}
    assert paired([said(tokens=[1], asked=hot)], [said(tokens=[1], asked=same)]).n == 1
    with pytest.raises(UsageError, match="no prompt in common"):
        paired([said("x", tokens=[1])], [said("y", tokens=[1])])


def test_a_plan_asks_for_what_it_promises():
    settings = AgainstSettings()
    assert settings.planned(16, 64) == 22
    assert settings.planned(100_000 // 64, 64) == 8
    assert "704 answers of 64 tokens at most" in settings.plan(16, 64)
    assert "TV of 0.039" in settings.plan(16, 64)
    with pytest.raises(UsageError, match="ask for a larger deviation"):
        AgainstSettings(detect=1e-3).planned(1, 1)
    for name, value in (("repeats", 1), ("alpha", 0.0), ("detect", 2.0), ("seed", -1)):
        with pytest.raises(UsageError, match=f"{name} is"):
            AgainstSettings(**{name: value})
