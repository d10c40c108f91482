"""The decoding loop on draft trees: its rows, its requests, its draws."""

from collections import defaultdict
from functools import cache

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import little_pair

from simverify.errors import UsageError
from simverify.models.transformer import Sampling
from simverify.simulators.decoding.loop import Job
from simverify.simulators.decoding.trees import (
    StatelessTreeVerifier,
    decode_trees,
    min_inner_nodes,
    walk_steps,
)
from simverify.trees import ROOT, SCHEMES, Drafting, TreeShape, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

PROMPTS = ((1, 2, 3), (4,), (5, 6), (7, 8, 9, 10), (11, 1))
EOS = (2, 3, 5)
JOB = Job(PROMPTS, gamma=2, lanes=6, lane_tokens=40, request_tokens=13, seed=3)
TREE = Drafting(shape_of_levels([2, 2]), SCHEMES["iid"])


def run_of(rule, pair, drafting=TREE, job=JOB):
    lanes = defaultdict(list)
    judge = StatelessTreeVerifier(TREE_VERIFIERS[rule].rule if isinstance(rule, str) else rule)
    clock = decode_trees(
        pair, job, drafting, lambda: judge, lambda b: lanes[b.block.lane].append(b)
    )
    return lanes, clock


def with_prefixes(lane, found, job=JOB):
    """Give each call of a lane the text before it."""
    request, text = lane, ()
    for call in found:
        if call.block.first:
            text = job.prompts[request % len(job.prompts)]
            request += job.lanes
        yield text, call
        text += call.block.emitted


@pytest.mark.parametrize(
    ("rule", "levels", "scheme", "sampling"),
    [
        ("recursive", (2, 2), "iid", Sampling()),
        ("recursive-without-replacement", (3, 2), "without-replacement", Sampling(0.7, top_k=5)),
        ("match", (3, 2), "without-replacement", Sampling(top_k=2)),  # fewer tokens than siblings
        ("fixed-tree", (3, 1, 1), "top-k", Sampling(0.0)),
    ],
)
@pytest.mark.thorough
def test_rows_are_those_of_each_way(rule, levels, scheme, sampling):
    pair = little_pair(eos=EOS, sampling=sampling)
    target, draft = (cache(lambda t, row=row: row(list(t))) for row in (pair.target, pair.draft))
    job = Job(PROMPTS, len(levels), lanes=6, lane_tokens=24, request_tokens=13, seed=3)
    lanes, clock = run_of(rule, pair, Drafting(shape_of_levels(levels), SCHEMES[scheme]), job)
    assert clock.tokens == 6 * 24
    assert clock.calls == sum(map(len, lanes.values()))
    short = set()
    for lane in (0, 5):
        assert sum(len(call.block.emitted) for call in lanes[lane]) == 24
        for text, call in with_prefixes(lane, lanes[lane], job):
            short.add(len(call.drawn.tree.shape))
            for node in range(ROOT, len(call.drawn.tree.shape)):
                prefix = text + call.drawn.tree.text(node)
                np.testing.assert_allclose(call.drawn.p[node + 1], target(prefix), atol=1e-5)
                np.testing.assert_allclose(call.drawn.q[node + 1], draft(prefix), atol=1e-5)
            for i in range(len(call.block.emitted)):
                prefix = text + call.block.emitted[:i]
                np.testing.assert_allclose(call.block.p[i], target(prefix), atol=1e-5)
                np.testing.assert_allclose(call.block.q[i], draft(prefix), atol=1e-5)
    assert len(short) == 1 or rule == "match"


def test_requests_end_where_they_must():
    lanes, _ = run_of("recursive", little_pair(eos=EOS))
    ends = []
    for lane, calls in lanes.items():
        length = 0
        for call in calls:
            length = 0 if call.block.first else length
            length += len(call.block.emitted)
            over = length == JOB.request_tokens or call.block.emitted[-1] in EOS
            ends.append(over)
            assert not set(call.block.emitted[:-1]) & set(EOS)
            assert length <= JOB.request_tokens
        assert [call.block.first for call in calls[1:]] == ends[-len(calls) : -1]
        assert sum(len(call.block.emitted) for call in calls) == JOB.lane_tokens, lane
    assert sum(ends) > 20


def test_rules_see_the_same_trees_as_long_as_their_texts_agree():
    pair = little_pair(eos=EOS)
    one, other = (run_of(rule, pair)[0] for rule in ("recursive", "match"))
    alike = 0
    for lane in one:
        for a, b in zip(one[lane], other[lane], strict=False):
            assert a.drawn.tree == b.drawn.tree
            alike += 1
            if a.block.emitted != b.block.emitted:
                break
    assert alike > 2 * JOB.lanes - 6


def test_batches_change_no_draw():
    """The first lanes of many emit what they emit alone, as their prompts are the same."""
    pair = little_pair(eos=EOS)
    few = Job(PROMPTS[:3], 2, lanes=3, lane_tokens=40, request_tokens=13, seed=3)
    many = Job(PROMPTS[:3], 2, lanes=6, lane_tokens=40, request_tokens=13, seed=3)
    one, other = (run_of("recursive", pair, job=job)[0] for job in (few, many))
    assert few.lanes == len(one)
    for lane in one:
        assert [call.drawn.tree for call in one[lane]] == [call.drawn.tree for call in other[lane]]
        assert [c.block.emitted for c in one[lane]] == [c.block.emitted for c in other[lane]]


def test_nodes_may_be_numbered_depth_first():
    pair = little_pair(eos=EOS)
    depth_first = Drafting(TreeShape((-1, 0, 0, -1, 3, 3)), SCHEMES["iid"])
    lanes, _ = run_of("traversal", pair, depth_first)
    target = cache(lambda text: pair.target(list(text)))
    for text, call in with_prefixes(0, lanes[0]):
        for node in range(len(call.drawn.tree.shape)):
            prefix = text + call.drawn.tree.text(node)
            np.testing.assert_allclose(call.drawn.p[node + 1], target(prefix), atol=1e-5)
    # The same texts in another order: the draws of a level do not depend on the numbers.
    level_by_level, _ = run_of("traversal", pair)
    assert [
        sorted(a.drawn.tree.text(n) for n in range(6))
        == sorted(b.drawn.tree.text(n) for n in range(6))
        for a, b in zip(
            [calls[0] for calls in lanes.values()],
            [calls[0] for calls in level_by_level.values()],
            strict=True,
        )
    ] == [True] * JOB.lanes


@pytest.mark.parametrize(
    ("parents", "least"),
    [((-1, -1, 0, 2), 15), ((-1, -1, 0, 1), 20)],  # a leaf at the first level, or at the second
)
def test_a_lane_comes_by_as_many_nodes_as_are_promised(parents, least):
    shape = TreeShape(parents)
    drafting, rule = Drafting(shape, SCHEMES["iid"]), TREE_VERIFIERS["recursive"]
    job = Job(PROMPTS, shape.depth, lanes=4, lane_tokens=30, request_tokens=13, seed=3)
    lanes, _ = run_of("recursive", little_pair(eos=EOS, noise=0.01), drafting, job)
    assert min_inner_nodes(shape, job.lane_tokens) == least
    for calls in lanes.values():
        assert sum(len(walk_steps(rule, drafting, c.drawn, c.output)) for c in calls) >= least


def test_what_is_no_way_of_the_tree_is_refused():
    with pytest.raises(UsageError, match="expected a way from its root"):
        run_of(lambda p, q, tokens, parents, rng: [11, 11, 11], little_pair())
