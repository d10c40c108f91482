"""Answers to a prompt that was asked before: a cache that answers is found, chance is none."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    emitted,
)
from support.judged_tokens import judged  # noqa: E402
from support.sampled_engine import sampled_answers  # noqa: E402

from simverify.models.distribution import Law  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served.evidence import (  # noqa: E402
    OutputEvidence,
    RepeatedAnswers,
    pair_tests,
)
from simverify.served.judge import (  # noqa: E402
    JudgedTokens,
    OutputSettings,
    RowTolerance,
    RunTolerance,
    judge_evidence,
    measure_rounding,
)
from simverify.served.requests import Request  # noqa: E402
from simverify.served.rescore import rescore  # noqa: E402
from simverify.served.run import judge_apart  # noqa: E402
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.usefixtures("shallow_target")

NAME = "pairs, copies of an earlier answer to the prompt"


def asked(rng, n, length, cached=0.0):
    """Repeats of answers to three prompts, by rows of four tokens; a share comes from a cache."""
    rows = np.random.default_rng(5).dirichlet(np.ones(4), size=(3, length))
    found, kept = RepeatedAnswers(), {}
    for i in range(n):
        prompt = i % 3
        own = tuple(int(rng.choice(4, p=row)) for row in rows[prompt])
        tokens = kept[prompt] if prompt in kept and rng.random() < cached else own
        kept.setdefault(prompt, tokens)
        found.add(Request((prompt,), tokens), rows[prompt])
    return found


def evalue(repeats):
    evidence = OutputEvidence(0, False)
    evidence.repeats = repeats
    (test,) = [test for test in pair_tests(evidence, 1e-6, 0.0) if test.name == NAME]
    return test


@pytest.mark.distribution
@pytest.mark.parametrize("length", [2, 5])
def test_answers_that_are_alike_by_chance_are_no_copies(length):
    """Short answers repeat each other all the time; the e-value's mean is 1 at most."""
    rng = np.random.default_rng(1)
    tests = [evalue(asked(rng, 60, length)) for _ in range(60)]
    assert np.mean([test.statistic for test in tests]) > 1
    assert not any(test.rejected for test in tests)
    assert np.mean([np.exp(-test.log_pvalue) for test in tests]) < 2


@pytest.mark.distribution
def test_a_cache_that_answers_now_and_then_is_found():
    rng = np.random.default_rng(2)
    assert all(evalue(asked(rng, 40, 16, 0.5)).rejected for _ in range(20))
    assert evalue(asked(rng, 40, 16)).statistic == 0


def test_the_chance_of_a_copy_is_of_all_answers_before_it():
    rows = np.array([[0.5, 0.3, 0.2]])
    repeats = RepeatedAnswers()
    for token in (0, 1, 0, 1, 2):
        repeats.add(Request((7,), (token,)), rows)
    assert (repeats.compared, repeats.count) == (4, 2)
    assert np.exp(list(repeats.copies(0.0))) == pytest.approx([0.8, 0.8])
    assert np.exp(list(repeats.copies(0.3))) == pytest.approx([1.0, 1.0])
    repeats.add(Request((8,), (0,)), rows)  # another prompt
    assert repeats.compared == 4


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_server_with_a_cache_of_answers_fails_and_one_without_passes():
    torch.set_num_threads(1)
    pair = load_pair("tiny-llama", "tiny-llama")
    prompts = PROMPTS[:16]
    anew = emitted(pair, VERIFIERS["token"], 1200, lanes=16, length=25, prompts=prompts)
    by_prompt = {}
    for line in anew:
        by_prompt.setdefault(tuple(line["prompt"]), []).append(line)
    # In turn, as a server is asked, so that no answer stands beside its copy.
    anew = [line for turn in zip(*by_prompt.values(), strict=False) for line in turn]
    run = judged(pair, anew, 1000)
    assert run.verdict == "PASS"
    assert NAME in {test.name for test in run.tests}
    first, cached = {}, []
    for line in anew:
        cached.append(first.setdefault(tuple(line["prompt"]), line))
    found = judged(pair, cached, 1000)
    assert found.verdict == "FAIL"
    assert NAME in {test.name for test in found.tests if test.rejected}
    # Single tokens are right, and the verdict does not say otherwise.
    shown = " ".join(str(found).split())
    assert found.copies > 10
    assert f"{found.copies} of {found.requests} answers are copies of another: one seed" in shown
    assert "Those that are no copies follow the target model" in shown
    assert not found.worst
    assert all(test.name.startswith("pairs") for test in found.tests if test.rejected)


@pytest.mark.distribution
@pytest.mark.thorough
def test_wrong_tokens_are_found_beside_copies():
    torch.set_num_threads(1)
    pair = load_pair("tiny-llama", None)
    cold = sampled_answers(pair, Law(0.4).after, 600, prompts=PROMPTS[:8])
    lines = [
        {"prompt": list(own.prompt), "tokens": list(own.tokens), "finish_reason": "length"}
        for own in cold
    ]
    run = judged(pair, [*lines, *lines], 1200)
    assert run.verdict == "FAIL"
    shown = " ".join(str(run).split())
    assert "do not follow the target model, those of copies left out" in shown
    assert "answers are copies of another" in shown


@pytest.mark.distribution
def test_greedy_answers_repeat_honestly():
    torch.set_num_threads(1)
    pair = dataclasses.replace(load_pair("tiny-llama", None), sampling=Law(0.0))
    answers = sampled_answers(pair, Law(0.0).after, 400, prompts=PROMPTS[:3])
    lines = [
        {"prompt": list(own.prompt), "tokens": list(own.tokens), "finish_reason": "length"}
        for own in answers
    ]
    run = judged(pair, lines, 300, detect=0.9)
    assert run.verdict == "PASS"
    assert run.copies == 0


def test_answers_that_are_judged_apart_are_allowed_what_all_were():
    """Else what rounds in bfloat16 would fail by its rows, or by tokens at the edge of a cut."""
    torch.set_num_threads(1)
    pair = load_pair("tiny-llama", None)
    requests = list(sampled_answers(pair, Law().after, 100, prompts=PROMPTS[:8]))
    evidence = OutputEvidence(0, False)
    for scored in rescore(requests, pair, False):
        evidence.add(scored)
    fine = dataclasses.replace(measure_rounding(requests, pair, False), shift=0.5)
    evidence.allow(fine.shift)
    evidence.reported.allowed = 0.25
    settings, ball = OutputSettings(tokens=evidence.n), RowTolerance(1e-6, {})
    run = JudgedTokens(evidence, requests, pair, settings, fine)
    whole = judge_evidence(evidence, settings, ball)
    apart, _ = judge_apart(requests[1:], run, whole, RunTolerance(ball, ball, False, ""))
    assert (apart.margin, apart.reported.allowed) == (evidence.margin, 0.25)
    assert evidence.margin == 1.0
