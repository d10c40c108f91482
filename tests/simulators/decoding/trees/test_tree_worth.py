"""What drawn trees let expect, against what is enumerated on models that are small."""

import numpy as np
import pytest

from simverify.comparing.trees.bounds import bounds_of
from simverify.comparing.trees.rows import StateRows
from simverify.models import get_model
from simverify.simulators.decoding.trees.worth import Drawn, TreeWorth, steps_of
from simverify.trees import SCHEMES, Drafting, TreeShape, law_of_trees, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

MODEL = get_model("compact")


def drawn_of(drafting):
    """Every tree with its probability; no node is missing on this model."""
    for tree, mass in law_of_trees(drafting, MODEL.draft):
        assert len(tree.shape) == len(drafting.shape)
        places = tuple(range(len(tree.shape)))
        yield Drawn(tree, places, tree.rows(MODEL.target), tree.rows(MODEL.draft)), float(mass)


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
    worth, exact = TreeWorth(drafting), bounds_of(drafting, MODEL, StateRows.of(MODEL))
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
        steps = steps_of(rule, drafting, drawn, emitted)
        assert sum(went for _, went in steps) == len(emitted) - 1
        off += sum(went - chance for chance, went in steps)
        variance += sum(chance * (1 - chance) for chance, _ in steps)
    assert abs(off) < 4.5 * max(variance, 1e-12) ** 0.5


def test_rules_without_a_fast_step_have_none():
    drafting = Drafting(shape_of_levels([2]), SCHEMES["iid"])
    drawn, _ = next(drawn_of(drafting))
    for name in ("traversal", "tournament", "gbv"):
        assert steps_of(TREE_VERIFIERS[name], drafting, drawn, [0]) is None
