"""What drawn trees let expect, against what is enumerated on models that are small."""

import itertools

import numpy as np
import pytest

from simverify.comparing.tree_bounds import compute_tree_bounds
from simverify.comparing.trees import StateRows
from simverify.models import get_model
from simverify.simulators.decoding.loop import (
    RULES,
    Block,
    LaneStatistics,
    block_curves,
    law_of_tau,
)
from simverify.simulators.decoding.trees import DrawnTree, TreeExpectation, walk_steps
from simverify.simulators.exact.laws import compute_tree_law, markov_rows
from simverify.trees import SCHEMES, Drafting, TreeShape, enumerate_trees, shape_of_levels
from simverify.verifiers import VERIFIERS
from simverify.verifiers.trees import TREE_VERIFIERS

# What drafted blocks are worth, against the rules' own laws over all drafts.


GAMMA = 3


def weighted_blocks(model):
    """Every drafted block with its probability under the draft."""
    for x in itertools.product(range(model.vocab_size), repeat=GAMMA):
        p = np.array([model.target(x[:i]) for i in range(GAMMA + 1)])
        q = np.array([model.draft(x[:i]) for i in range(GAMMA + 1)])
        yield np.prod([q[i][y] for i, y in enumerate(x)]), Block(0, 0, True, p, q, x, 0, ())


@pytest.mark.parametrize("name", ["toy", "compact"])
def test_means_over_all_drafts_are_the_rules_own(name):
    model = get_model(name)
    worth, laws = np.zeros((len(RULES), GAMMA)), np.zeros((len(RULES), GAMMA + 1))
    for weight, block in weighted_blocks(model):
        worth += weight * block_curves(block)
        laws += [weight * law_of_tau(block, rule) for rule in RULES]
    for i, rule in enumerate(RULES):
        exact = np.array(compute_tree_law(VERIFIERS[rule], markov_rows(model), GAMMA).curve, float)
        np.testing.assert_allclose(worth[i], exact, atol=1e-14)
        np.testing.assert_allclose(laws[i][::-1].cumsum()[::-1][1:], exact, atol=1e-14)
        np.testing.assert_allclose(laws[i].sum(), 1.0)


def test_a_block_without_the_drafts_randomness_varies_less_than_its_coins():
    found = [
        (weight, block_curves(block), block)
        for weight, block in weighted_blocks(get_model("compact"))
    ]
    for i, rule in enumerate(RULES):
        mean = sum(w * c[i].sum() for w, c, _ in found)
        between = sum(w * (c[i].sum() - mean) ** 2 for w, c, _ in found)
        tau = np.arange(GAMMA + 1)
        whole = sum(w * law_of_tau(b, rule) @ (tau - mean) ** 2 for w, _, b in found)
        assert between < whole / 2


@pytest.mark.distribution
def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(5)
    lanes, runs, covered, naive = 12, 3000, 0, 0
    for _ in range(runs):
        means, values = LaneStatistics(lanes, 1), []
        for lane in range(lanes):
            level = rng.normal()  # the lane's own, which its blocks share
            for value in level + rng.normal(size=8):
                means.add(lane, [value])
                values.append(value)
        found = means.interval([1.0], 0.9)
        covered += found.low <= 0.0 <= found.high
        naive += abs(np.mean(values)) < 1.645 * np.std(values) / np.sqrt(len(values))
    assert abs(covered / runs - 0.9) < 6.2 * np.sqrt(0.09 / runs)
    # Negative control: blocks taken for independent.
    assert abs(naive / runs - 0.9) > 6.2 * np.sqrt(0.09 / runs)


MODEL = get_model("compact")


def drawn_of(drafting):
    """Every tree with its probability; no node is missing on this model."""
    for tree, mass in enumerate_trees(drafting, MODEL.draft):
        assert len(tree.shape) == len(drafting.shape)
        places = tuple(range(len(tree.shape)))
        yield DrawnTree(tree, places, tree.rows(MODEL.target), tree.rows(MODEL.draft)), float(mass)


@pytest.mark.parametrize(
    ("shape", "scheme", "counts"),
    [
        ([1, 1], "iid", True),
        ([2], "iid", True),
        ([2, 2], "iid", True),
        ([2, 1], "without-replacement", True),
        ([2], "last-sampled", True),
        ([2, 2], "argmax-first", True),
        ([2, 2], "top-k", True),
        (TreeShape((-1, -1, 0)), "iid", True),
        (TreeShape((-1, -1, 0)), "without-replacement", False),  # which sibling it is would count
    ],
)
def test_means_over_trees_are_what_enumeration_finds_or_bound_it(shape, scheme, counts):
    shape = shape if isinstance(shape, TreeShape) else shape_of_levels(shape)
    drafting = Drafting(shape, SCHEMES[scheme])
    worth, exact = (
        TreeExpectation(drafting),
        compute_tree_bounds(drafting, MODEL, StateRows.of(MODEL)),
    )
    levels, of_any = (
        sum(mass * worth.levels(drawn)[k] for drawn, mass in drawn_of(drafting)) for k in (0, 1)
    )
    if worth.by == "closed-form":
        assert not exact.memoryless.bound
        assert levels.sum() == pytest.approx(exact.memoryless.value, abs=1e-9)
        assert of_any.sum() == pytest.approx(exact.coupling.value, abs=1e-9)
    else:
        assert levels.sum() >= exact.coupling.value - 1e-9
        # The same count as over all texts, but that a level has no more than those above it.
        counted = exact.levels.upper
        if counts:
            assert levels == pytest.approx(counted, abs=0.02)
            assert (levels <= counted + 1e-9).all()
        else:
            assert (levels == 1.0).all()


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("recursive", "iid"), ("naive", "iid"), ("k-seq", "iid"), ("match", "top-k"),
        ("greedy-draft", "last-sampled"), ("spechub", "argmax-first"),
    ],
)  # fmt: skip
@pytest.mark.thorough
def test_a_walk_goes_on_as_often_as_its_step_says(name, scheme):
    drafting, rule = Drafting(shape_of_levels([2, 2]), SCHEMES[scheme]), TREE_VERIFIERS[name]
    rng, trees = np.random.default_rng(5), list(drawn_of(drafting))
    masses = np.array([mass for _, mass in trees])
    off, variance = 0.0, 0.0
    for i in rng.choice(len(trees), 4000, p=masses / masses.sum()):
        drawn = trees[i][0]
        arrays = np.array(drawn.tree.tokens), np.array(drawn.tree.shape.parents)
        emitted = rule.rule(drawn.p, drawn.q, *arrays, rng)
        steps = walk_steps(rule, drafting, drawn, emitted)
        assert sum(went for _, went in steps) == len(emitted) - 1
        off += sum(went - chance for chance, went in steps)
        variance += sum(chance * (1 - chance) for chance, _ in steps)
    assert abs(off) < 4.5 * max(variance, 1e-12) ** 0.5


def test_rules_without_a_fast_step_have_none():
    drafting = Drafting(shape_of_levels([2]), SCHEMES["iid"])
    drawn, _ = next(drawn_of(drafting))
    for name in ("traversal", "tournament", "gbv"):
        assert walk_steps(TREE_VERIFIERS[name], drafting, drawn, [0]) is None
