"""The decoding loop: what it hands out is what the models say, and nothing is lost."""

import itertools
from collections import defaultdict
from functools import cache

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import VOCAB_SIZE, little_pair

from simverify import stats
from simverify.errors import UsageError
from simverify.models.transformer import Sampling
from simverify.simulators.decoding.job import EmissionObserver
from simverify.simulators.decoding.loop import Job, decode, decode_plain, verifier_factory
from simverify.verifiers import VERIFIERS

PROMPTS = ((1, 2, 3), (4,), (5, 6), (7, 8, 9, 10), (11, 1))
JOB = Job(PROMPTS, gamma=4, lanes=6, lane_tokens=40, request_tokens=13, seed=3)
EOS = (2, 3, 5)


def blocks_of(rule, pair, job=JOB):
    lanes = defaultdict(list)
    clock = decode(pair, job, verifier_factory(rule), lambda block: lanes[block.lane].append(block))
    return lanes, clock


def requests_of(lane, blocks, job=JOB):
    """Cut a lane's blocks where requests begin; give each its prompt."""
    prompts = itertools.count(lane, job.lanes)
    requests = []
    for block in blocks:
        if block.first:
            requests.append((job.prompts[next(prompts) % len(job.prompts)], []))
        requests[-1][1].append(block)
    return requests


@pytest.mark.parametrize("name", ["token", "greedy"])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, top_k=5), Sampling(0.0)])
@pytest.mark.thorough(by_day=2)
def test_rows_are_those_of_the_prefix(name, sampling):
    pair = little_pair(eos=EOS, sampling=sampling)
    # What a block drafted and kept is a prefix of the next one too.
    target, draft = (
        cache(lambda text, row=row: row(list(text))) for row in (pair.target, pair.draft)
    )
    lanes, _ = blocks_of(VERIFIERS[name], pair)
    for lane in (0, 5):
        for prompt, blocks in requests_of(lane, lanes[lane]):
            text = list(prompt)
            for block in blocks:
                for i in range(JOB.gamma + 1):
                    prefix = (*text, *block.drafts[:i])
                    np.testing.assert_allclose(block.p[i], target(prefix), atol=1e-5)
                    np.testing.assert_allclose(block.q[i], draft(prefix), atol=1e-5)
                text += block.emitted


@pytest.mark.parametrize("name", ["token", "block", "greedy", "match"])
@pytest.mark.thorough
def test_every_lane_emits_its_tokens_and_every_request_ends_where_it_must(name):
    lanes, clock = blocks_of(VERIFIERS[name], little_pair(eos=EOS))
    assert sorted(lanes) == list(range(JOB.lanes))
    assert clock.tokens == JOB.lanes * JOB.lane_tokens
    assert clock.calls == sum(map(len, lanes.values()))
    ended = 0
    for lane, blocks in lanes.items():
        emitted = [token for block in blocks for token in block.emitted]
        assert len(emitted) == JOB.lane_tokens
        assert [block.position for block in blocks] == [
            sum(len(b.emitted) for b in blocks[:i]) for i in range(len(blocks))
        ]
        *whole, last = requests_of(lane, blocks)
        for _, own in whole:
            tokens = [token for block in own for token in block.emitted]
            assert tokens[-1] in EOS or len(tokens) == JOB.request_tokens
            assert not set(EOS) & set(tokens[:-1])
            ended += tokens[-1] in EOS
        assert sum(len(block.emitted) for block in last[1]) <= JOB.request_tokens
        for block in blocks:
            assert block.emitted[: block.tau] == block.drafts[: min(block.tau, len(block.emitted))]
    assert ended > 3


@pytest.mark.thorough
def test_rules_see_the_same_drafts_while_their_texts_agree():
    pair = little_pair()
    first = [blocks_of(VERIFIERS[name], pair)[0] for name in ("token", "block", "greedy", "match")]
    for lane in range(JOB.lanes):
        assert len({lanes[lane][0].drafts for lanes in first}) == 1
    # And runs repeat themselves, whatever ran before.
    again = blocks_of(VERIFIERS["token"], pair)[0]
    for lane in range(JOB.lanes):
        pairs = zip(again[lane], first[0][lane], strict=True)
        assert all((a.drafts, a.emitted) == (b.drafts, b.emitted) for a, b in pairs)


def test_the_target_alone_emits_as_many():
    clock = decode_plain(little_pair(eos=EOS), JOB)
    assert (clock.tokens, clock.draft, clock.verify) == (JOB.lanes * JOB.lane_tokens, 0.0, 0.0)


def target_residual(p, q, x, rng):
    for i, y in enumerate(x):
        if not rng.random() < p[i][y] / q[i][y]:
            return [*x[:i], rng.choice(len(p[i]), p=p[i])]
    return [*x, rng.choice(len(p[-1]), p=p[-1])]


LONG = Job(PROMPTS, gamma=4, lanes=32, lane_tokens=48, request_tokens=24, seed=9)
"""Two requests a lane. The lossy rule has p = 1.5e-15 on it, far below the 1e-9 that is asked."""


def log_pvalues(rule, verifier):
    seen = EmissionObserver(LONG, VERIFIERS[verifier])
    decode(little_pair(eos=EOS), LONG, verifier_factory(rule), seen)
    assert seen.features.n == LONG.lanes * LONG.lane_tokens
    return [stats.pit_ks(bins, alpha=1e-9).log_pvalue for bins in seen.features.pits]


@pytest.mark.distribution
@pytest.mark.parametrize("name", ["token", "block", "greedy"])
@pytest.mark.thorough
def test_emitted_tokens_follow_the_target(name):
    assert min(log_pvalues(VERIFIERS[name], name)) > np.log(1e-9)


@pytest.mark.distribution
def test_tokens_of_a_lossy_rule_do_not():
    assert min(log_pvalues(target_residual, "token")) < np.log(1e-9)


def test_a_rule_that_drafts_for_itself_is_refused():
    class Own:
        def step(self, prefix, target, draft, gamma, rng):
            return [0]

    with pytest.raises(UsageError, match=r"Own drafts for itself: give it a method judge"):
        verifier_factory(Own)


@pytest.mark.parametrize("emitted", [[], [1] * 6, [VOCAB_SIZE] * 2])
def test_what_no_verifier_may_emit_is_refused(emitted):
    with pytest.raises(UsageError, match="expected some first tokens of the draft and one more"):
        decode(little_pair(), JOB, verifier_factory(lambda p, q, x, rng: emitted))
