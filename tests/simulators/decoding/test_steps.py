"""Rules that draft for themselves: the rows they are given, and what is handed out of them."""

import copy
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import CONTEXT, VOCAB_SIZE, little_pair
from support.traces import spelled_pair

from simverify.errors import SimverifyError
from simverify.models.transformer import Sampling
from simverify.simulators.decoding.job import make_job
from simverify.simulators.decoding.loop import (
    CachedModelRows,
    ContextExceeded,
    Job,
    ModelError,
    decode_steps,
)

PROMPTS = ((1, 2, 3), (4,), (5, 6), (7, 8, 9, 10))
JOB = Job(PROMPTS, gamma=3, lanes=3, lane_tokens=40, request_tokens=13, seed=3)
EOS = (2, 3)


class Told:
    """Emits what it is made with; keeps what it was asked, and when it was reset."""

    def __init__(self, emit):
        self.emit, self.calls = emit, []

    def reset(self):
        self.calls.append("reset")

    def step(self, prefix, target, draft, gamma, rng):
        self.calls.append(prefix)
        return self.emit(prefix, target, draft, gamma, rng)


def sample(prefix, target, draft, gamma, rng):
    """Three samples of the target."""
    tokens = []
    for _ in range(gamma):
        row = target((*prefix, *tokens))
        tokens.append(int(rng.choice(len(row), p=row)))
    return tokens


def decoded(pair, emit=sample, job=JOB):
    rules, blocks = [], []

    def make():
        rules.append(Told(emit))
        return rules[-1]

    decode_steps(pair, job, make, blocks.append)
    return rules, blocks


@pytest.fixture
def fed(monkeypatch):
    """How many tokens were fed in each call."""
    from simverify.models.kv_cache import CachedModel

    counts, feed = [], CachedModel.feed

    def counting(self, tokens):
        counts.append(len(tokens[0]))
        return feed(self, tokens)

    monkeypatch.setattr(CachedModel, "feed", counting)
    return counts


def precise(pair):
    """The pair in float64: in float32 rows differ by 1e-6 with what is fed at once."""
    models = (copy.deepcopy(model).double() for model in (pair.target_model, pair.draft_model))
    target, draft = models
    return replace(pair, target_model=target, draft_model=draft)


def oracle(pair):
    return CachedModelRows(pair, pair.cached(pair.target_model, 1))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, top_k=5)])
def test_rows_are_those_of_any_prefix(sampling):
    pair, rng = precise(little_pair(sampling=sampling)), np.random.default_rng(1)
    rows, prefix = oracle(pair), (1,)
    for turn in range(60):
        # Now it grows, now it jumps back and branches, now it is another request's.
        kept = int(rng.integers(0 if turn % 7 == 6 else len(prefix) // 2, len(prefix) + 1))
        prefix = (*prefix[:kept], *rng.integers(VOCAB_SIZE, size=rng.integers(1, 4)).tolist())[:50]
        if turn % 3 == 0:
            rows.settle(prefix[: kept + 1])
        found = rows(list(prefix))
        np.testing.assert_allclose(found, pair.target(prefix), atol=1e-6)
        assert found.sum() == pytest.approx(1.0, abs=1e-12)
        found[:] = 0.0  # a rule may write into its row
        np.testing.assert_allclose(rows(prefix), pair.target(prefix), atol=1e-6)


def test_only_what_is_new_is_fed(fed):
    rows = oracle(little_pair())
    rows.settle((1, 2, 3))
    for prefix in ((1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3, 4), (1, 2, 3, 4, 6), (1, 2, 3, 4, 5)):
        rows(prefix)
    assert fed == [3, 2, 1]
    rows.settle((1, 2, 3, 4, 6))
    rows((1, 2, 3, 4))
    rows((1, 2, 3, 4, 5))  # beside the path, so it was forgotten
    assert fed == [3, 2, 1, 1]


def test_calls_follow_the_requests_of_each_lane():
    pair = precise(little_pair(eos=EOS))
    rules, blocks = decoded(pair)
    assert len(rules) == JOB.lanes
    ended = 0
    for lane, rule in enumerate(rules):
        own = iter([block for block in blocks if block.lane == lane])
        number, emitted, text, prompt = lane, 0, (), ()
        for call in rule.calls:
            if call == "reset":
                ended += bool(text) and text[-1] in EOS
                text = prompt = PROMPTS[number % len(PROMPTS)]
                number += JOB.lanes
                continue
            block = next(own)
            assert (call, block.position, block.first) == (text, emitted, call == prompt)
            assert not set(block.emitted[:-1]) & set(EOS)
            for i in range(len(block.emitted)):
                prefix = (*text, *block.emitted[:i])
                np.testing.assert_allclose(block.p[i], pair.target(prefix), atol=1e-6)
                np.testing.assert_allclose(block.q[i], pair.draft(prefix), atol=1e-6)
            text, emitted = (*text, *block.emitted), emitted + len(block.emitted)
            assert len(text) - len(prompt) <= JOB.request_tokens
        assert emitted == JOB.lane_tokens
        assert next(own, None) is None
    assert ended > 5


def test_tokens_beyond_an_end_are_cut():
    job = Job(((4,),), gamma=1, lanes=2, lane_tokens=10, request_tokens=7, seed=0)
    _, blocks = decoded(little_pair(eos=EOS), lambda *_: [1, 1, 2, 1, 3], job)
    assert [block.emitted for block in blocks if block.lane == 0] == [(1, 1, 2)] * 3 + [(1,)]
    _, blocks = decoded(little_pair(), lambda *_: [1] * 5, job)
    assert [len(block.emitted) for block in blocks if block.lane == 1] == [5, 2, 3]
    assert {block.tau for block in blocks} == {4}


def test_a_prompt_may_end_with_the_token_that_ends_sequences():
    job = Job(((4, 2),), gamma=1, lanes=2, lane_tokens=3, request_tokens=7, seed=0)
    _, blocks = decoded(little_pair(eos=EOS), lambda *_: [1], job)
    assert len(blocks) == 6


def test_draws_are_of_the_lane_and_the_call_alone():
    def drawing(prefix, target, draft, gamma, rng):
        drawn.append(rng.random())
        return [1] * len(drawn)

    runs = []
    for lane_tokens in (40, 20):
        drawn = []
        job = Job(PROMPTS, gamma=3, lanes=2, lane_tokens=lane_tokens, request_tokens=13, seed=3)
        decoded(little_pair(), drawing, job)
        assert len(set(drawn)) == len(drawn)
        runs.append(set(drawn))
    assert runs[1] < runs[0]


def test_gamma_and_one_tokens_beyond_a_prefix_are_within_the_context():
    def ahead(beyond):
        def emit(prefix, target, draft, gamma, rng):
            target((*prefix, *[0] * (gamma + beyond)))
            return [0]

        return emit

    pair = spelled_pair()
    options = {"gamma": 3, "lanes": 2, "request_tokens": 128, "seed": 0}
    job = make_job(pair, ["123"], tokens=2 * CONTEXT, **options)
    assert job.request_tokens == CONTEXT - 3 - 3 - 1
    decoded(pair, ahead(1), job)
    with pytest.raises(ContextExceeded):
        decoded(pair, ahead(3), job)


@pytest.mark.parametrize(
    ("prefix", "error", "says"),
    [
        ((), ValueError, "one token or more"),
        ((1, VOCAB_SIZE), ValueError, f"prefix holds token {VOCAB_SIZE}, vocabulary 0..11"),
        ((1,) * (CONTEXT + 1), ContextExceeded, "after 65 tokens, and the context holds 64"),
    ],
)
def test_a_prefix_that_has_no_row(prefix, error, says):
    rows = oracle(little_pair())
    with pytest.raises(error, match=says):
        rows(prefix)
    np.testing.assert_allclose(rows((1, 2)), little_pair().target((1, 2)), atol=1e-6)


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, SimverifyError])
def test_a_model_that_fails_is_told(monkeypatch, kind):
    from simverify.models.kv_cache import CachedModel

    def short(self, tokens):
        raise kind("out of\nmemory")

    monkeypatch.setattr(CachedModel, "feed", short)
    with pytest.raises(ModelError, match="after 2 tokens: out of memory"):
        oracle(little_pair())((1, 2))
