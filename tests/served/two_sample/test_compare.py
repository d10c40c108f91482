"""Two engines that answer alike pass, those that do not fail, and what tells nothing says so."""

import dataclasses
import json

import pytest
from support.false_alarms import ALPHA
from support.pages.html_page import check
from support.two_engines import Chain, asked

from simverify.errors import UsageError
from simverify.reports.formats import html_report, junit_report, markdown_report
from simverify.results.reading import read_document
from simverify.served.answers import END_UNIT, AgainstSettings, AnswerPairs
from simverify.served.two_sample import AnswerSources, audit_against, first_unit_certificate

HERE = AnswerSources("a.jsonl", "b.jsonl", "simverify audit --outputs a.jsonl --against b.jsonl")
CHAIN = Chain(size=12)
SMALL = {"prompts": 4, "repeats": 350, "length": 4}
FAULTS = {
    "lenient": CHAIN.lenient(0.4),
    "temperature": CHAIN.tempered(0.8),
    "one token": CHAIN.biased(5, 0.1),
}


def judged(rows, *, seed=0, alpha=ALPHA, detect=0.35, late=False, **sources):
    pairs = asked(CHAIN.p, rows, seed=seed, late=late, **SMALL)
    settings = AgainstSettings(alpha=alpha, detect=detect)
    return audit_against(pairs, dataclasses.replace(HERE, **sources), settings)


@pytest.mark.distribution
@pytest.mark.parametrize("name", [None, *FAULTS])
@pytest.mark.thorough
def test_engines_that_answer_alike_pass_and_others_fail(name):
    run = judged(CHAIN.p if name is None else FAULTS[name])
    assert run.verdict == ("PASS" if name is None else "FAIL")
    assert (run.certificate is None) == bool(run.findings) == bool(run.shown)
    if name is None:
        # No law is told from itself closer than this.
        assert 0.05 < run.certificate.bound < 0.5
        assert 0.1 < run.detectable <= run.detect
        assert (run.asked_most, run.repeats) == (4, 350)
        assert 0.01 < run.once < 0.1
        assert any(note.startswith("not run: permutations") for note in run.notes)


def test_most_faults_need_another_test():
    """Each test finds something that another does not: none stands there for nothing."""
    found = [
        {test.name for test in judged(rows, alpha=1e-6).tests if test.rejected}
        for rows in FAULTS.values()
    ]
    assert len(set(map(frozenset, found))) > 1


def test_permutations_are_made_where_the_rest_finds_nothing():
    pairs = asked(CHAIN.p, CHAIN.p, prompts=4, repeats=30, length=4)
    run = audit_against(pairs, HERE, AgainstSettings(alpha=0.05))
    assert run.tests[-1].name == "permutations of whole answers"
    assert not run.tests[-1].rejected


@pytest.mark.distribution
def test_a_fault_behind_the_first_token_is_found():
    """Where a prompt's prefill gives the first token, speculation shows from the second on."""
    run = judged(CHAIN.lenient(0.4), late=True)
    assert run.verdict == "FAIL"
    found = {test.name for test in run.tests if test.rejected}
    assert {"counts of first two tokens, by prompt", "how tokens fit what came before"} <= found


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_engine_that_was_asked_too_little_does_not_pass(name):
    """What the first design asked for: few long answers, in which contexts seldom recur."""
    pairs = asked(CHAIN.p, FAULTS[name], prompts=12, repeats=6, length=4)
    run = audit_against(pairs, HERE, AgainstSettings())
    assert run.verdict != "PASS"
    assert run.detectable > run.detect
    if run.verdict == "INCONCLUSIVE":
        assert "asked was 0.1" in run.inconclusive
        assert "--repeats" in run.inconclusive


def test_what_it_would_take_is_said_and_is_enough():
    pairs = asked(CHAIN.p, CHAIN.p, prompts=4, repeats=150, length=2)
    run = audit_against(pairs, HERE, AgainstSettings(detect=0.35))
    assert run.verdict == "INCONCLUSIVE"
    wanted = int(run.inconclusive.split("some ")[1].split(" ")[0].replace(",", ""))
    more = asked(CHAIN.p, CHAIN.p, prompts=4, repeats=wanted, length=2)
    assert audit_against(more, HERE, AgainstSettings(detect=0.35)).verdict == "PASS"
    assert 150 < wanted < 600


def test_answers_of_one_token_promise_nothing():
    pairs = asked(CHAIN.p, CHAIN.p, prompts=2, repeats=400, length=1)
    run = audit_against(pairs, HERE, AgainstSettings(detect=0.9))
    assert run.verdict == "INCONCLUSIVE"
    assert "most answers are one token" in run.inconclusive
    ended = dataclasses.replace(
        pairs,
        groups=tuple(
            tuple(((*a, END_UNIT), (*b, END_UNIT)) for a, b in group) for group in pairs.groups
        ),
    )  # fmt: skip
    assert audit_against(ended, HERE, AgainstSettings(detect=0.9)).verdict == "PASS"


def test_one_stream_behind_both_is_no_pass(tmp_path):
    """One seed for both, or one cache: that the two agree is then no evidence."""
    pairs = asked(CHAIN.p, CHAIN.p, **SMALL)
    same = dataclasses.replace(
        pairs, groups=tuple(tuple((a, a) for a, _ in group) for group in pairs.groups)
    )
    run = audit_against(same, HERE, AgainstSettings(detect=0.9))
    assert run.verdict == "INCONCLUSIVE"
    assert "the two answers are copies of each other" in run.inconclusive
    run.save(tmp_path / "run.json")
    assert read_document(tmp_path / "run.json") == run


def test_a_cache_that_answers_in_turn_is_told_from_a_server_that_draws():
    pairs = asked(CHAIN.p, CHAIN.p, **SMALL)
    cached = tuple(
        tuple((a, group[number % 5][1]) for number, (a, _) in enumerate(group))
        for group in pairs.groups
    )
    run = audit_against(dataclasses.replace(pairs, groups=cached), HERE, AgainstSettings())
    assert run.verdict == "FAIL"


def test_prompts_that_were_tried_alone_are_no_part_of_the_promise():
    often = asked(CHAIN.p, CHAIN.p, **SMALL)
    tried = asked(CHAIN.p, CHAIN.p, prompts=12, repeats=16, length=4, seed=3)
    groups = tuple(
        group + (often.groups[i] if i < 4 else ()) for i, group in enumerate(tried.groups)
    )
    run = audit_against(dataclasses.replace(tried, groups=groups), HERE, AgainstSettings())
    assert (run.prompts, run.asked_most, run.repeats) == (12, 4, 366)
    assert run.detectable < audit_against(tried, HERE, AgainstSettings()).detectable


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
    pairs = AnswerPairs((((one, other),) * 400,) * 3, ("x", "y", "z"), "ids")
    run = audit_against(pairs, HERE, AgainstSettings())
    assert run.verdict == "INCONCLUSIVE"
    assert "temperature 0 or with one seed" in run.inconclusive
    assert run.copied == (3, 3)


@pytest.mark.distribution
@pytest.mark.parametrize("name", [None, "lenient"])
@pytest.mark.thorough
def test_prompts_of_one_answer_by_their_law_are_no_copies(name):
    """Forty that were only tried have one answer in both engines; four were asked often."""
    often = asked(CHAIN.p, CHAIN.p if name is None else FAULTS[name], **SMALL)
    alone = (((1, 2, 3, 4),) * 2,) * 16
    pairs = dataclasses.replace(
        often, groups=(*often.groups, *((alone,) * 40)),
        prompts=(*often.prompts, *map(str, range(40))),
    )  # fmt: skip
    run = audit_against(pairs, HERE, AgainstSettings(alpha=ALPHA, detect=0.35))
    assert run.verdict == ("PASS" if name is None else "FAIL")


def test_one_seed_in_one_engine_alone_is_a_fault():
    pairs = asked(CHAIN.p, CHAIN.p, **SMALL)
    groups = tuple(tuple((a, group[0][1]) for a, _ in group) for group in pairs.groups)
    run = audit_against(dataclasses.replace(pairs, groups=groups), HERE, AgainstSettings())
    assert run.verdict == "FAIL"
    assert any("the second gives one answer alone to 4 prompts: one seed?" in n for n in run.notes)


def test_a_certificate_is_above_the_truth_and_needs_repeats():
    few, many = (
        first_unit_certificate(
            asked(CHAIN.p, CHAIN.lenient(0.5), prompts=4, repeats=n, length=1).groups
        )
        for n in (20, 2000)
    )
    truth = abs(CHAIN.p[:4] - CHAIN.lenient(0.5)[:4]).sum(axis=1).mean() / 2
    assert truth < many.bound < truth + 0.1 < few.bound
    pairs = asked(CHAIN.p, CHAIN.lenient(0.5), prompts=4, repeats=2000, length=1)
    chosen = first_unit_certificate(pairs.groups, chosen=True)
    # What was tried may have been chosen for how it came out: 32 of 4,000 answers.
    assert chosen.bound == pytest.approx(first_unit_certificate(pairs.groups).bound + 0.016)


@pytest.mark.parametrize("name", [None, "lenient"])
@pytest.mark.thorough
def test_a_document_reads_back_and_every_report_says_the_verdict(name, tmp_path):
    run = judged(CHAIN.p if name is None else FAULTS[name], alpha=1e-6, side_by_side=True)
    run.save(tmp_path / "run.json")
    assert read_document(tmp_path / "run.json") == run
    text = check(html_report(run)).text
    for shown in (text, markdown_report(run), run.as_text(verbose=True)):
        assert run.verdict in shown
        assert "rates of single tokens" in shown
        assert "first two tokens" in " ".join(shown.split())
    assert ("<failure" in junit_report(run)) == (run.verdict == "FAIL")
    assert all(len(line) <= 80 for line in run.as_text().splitlines())
    if name is not None:
        assert "Where they differ most: answers to the prompt" in " ".join(run.as_text().split())
    wrong = json.loads((tmp_path / "run.json").read_text())
    wrong["verdict"] = "PASS" if name else "FAIL"
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    with pytest.raises(UsageError, match="verdict is"):
        read_document(tmp_path / "wrong.json")


def test_a_plan_asks_for_what_it_promises():
    settings = AgainstSettings()
    assert settings.planned(48) == settings.planned(8)
    assert settings.expected(8, settings.planned(8)) <= 0.1 < settings.expected(8, 1000)
    assert "48 prompts 16 times, then 8 of them, each 2,000 times" in settings.plan(48, 4)
    assert "TV of 0.1 between" in settings.plan(48, 4)
    assert "TV of 0.67 between" in AgainstSettings(repeats=6).plan(48, 32)
    assert settings.planned(1) > settings.planned(4) > settings.planned(8)
    with pytest.raises(UsageError, match="ask for a larger deviation"):
        AgainstSettings(detect=1e-3).planned(1)
    with pytest.raises(UsageError, match="repeats is 9,000 with 200 prompts"):
        AgainstSettings(repeats=9000).planned(200)
    for name, value in (("repeats", 1), ("alpha", 0.0), ("detect", 2.0), ("seed", -1)):
        with pytest.raises(UsageError, match=f"{name} is"):
            AgainstSettings(**{name: value})
