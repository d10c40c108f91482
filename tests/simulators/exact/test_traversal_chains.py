"""Traversal on chains as a mixture of block's curves, against all of its trees and coins."""

import numpy as np
import pytest
from support.instances import random_pair
from support.oracles.tree_laws import float_tree_law

from simverify.models.small import compact, toy
from simverify.simulators.exact.traversal_chains import traversal_bounds
from simverify.trees import SCHEMES, Drafting, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS


def curve_of(rule, model, levels):
    drafting = Drafting(shape_of_levels(levels), SCHEMES["iid"])
    curve = np.zeros(len(levels))
    for tokens, mass in float_tree_law(TREE_VERIFIERS[rule].rule, model, drafting).items():
        curve[: len(tokens) - 1] += mass
    return curve


@pytest.mark.parametrize("levels", [[1, 1], [2, 1], [3, 1], [2, 1, 1]])
@pytest.mark.parametrize("model", [toy(), compact(), random_pair(3, 3)], ids=lambda m: m.name)
@pytest.mark.thorough
def test_curve(model, levels):
    bounds = traversal_bounds(model, levels[0], len(levels))
    exact = curve_of("traversal", model, levels)
    assert (bounds.lower <= exact + 1e-14).all()
    assert (bounds.upper >= exact - 1e-14).all()
    assert bounds.width < 1e-10
    if len(levels) < 3 and model.name == "compact":
        other = curve_of("recursive", model, levels)
        assert np.abs(other - bounds.lower).max() > 0.01


def test_fractions():
    """Two children of the root, and one chain, which is block's."""
    assert traversal_bounds(toy(), 2, 1).expected_lower == pytest.approx(7 / 9)
    assert traversal_bounds(compact(), 1, 3).expected_lower == pytest.approx(139 / 72)
