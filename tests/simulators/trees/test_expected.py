"""Kernels at size: two chains of eight tokens, V = 64, against what is known exactly of them."""

import numpy as np
import pytest
from support.false_alarms import ALPHA

from simverify import stats
from simverify.models.markov import markov
from simverify.simulators.exact.recursion import linear_curve
from simverify.simulators.exact.traversal_chains import traversal_bounds
from simverify.simulators.tables import model_tables
from simverify.simulators.trees import simulate_trees
from simverify.trees import SCHEMES, Drafting, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

MODEL = markov(64)
TABLES = model_tables(MODEL)
GAMMA = 8
CHAINS = shape_of_levels([2] + [1] * (GAMMA - 1))
TRIALS = 200_000
STEPS = [(name, scheme) for name, v in TREE_VERIFIERS.items() for scheme in v.hits]


def tails(rule, scheme):
    counts = simulate_trees(
        TABLES, rule, Drafting(CHAINS, SCHEMES[scheme]), TRIALS, seed=5, threads=1
    )
    return counts.tail_counts


def rejected(tail_counts, lower, upper, alpha):
    test = stats.acceptance_test(
        tail_counts, TRIALS, np.clip(lower, 0, 1), np.clip(upper, 0, 1), alpha=alpha
    )
    return test.rejected


def curve_of(rule, scheme):
    """Pr(tau >= l) of a rule that walks down, from the closed form of its step."""
    hits = TREE_VERIFIERS[rule].hits[scheme]
    rows = zip(MODEL.target_rows, MODEL.draft_rows, strict=True)
    start = hits(MODEL.target_start, MODEL.draft_start, 2)
    return linear_curve(start, np.array([hits(p, q, 1) for p, q in rows]), GAMMA)


@pytest.mark.distribution
@pytest.mark.parametrize(("rule", "scheme"), STEPS)
def test_rules_that_walk_down(rule, scheme):
    found, curve = tails(rule, scheme), curve_of(rule, scheme)
    assert not rejected(found, curve, curve, ALPHA)
    # One draft in the place of two, which differs in the first step alone.
    hits = TREE_VERIFIERS[rule].hits[scheme]
    one = hits(MODEL.target_start, MODEL.draft_start, 1).sum()
    assert rejected(found, curve * one / curve[0], curve * one / curve[0], ALPHA)


@pytest.mark.distribution
def test_traversal():
    found, bounds = tails("traversal", "iid"), traversal_bounds(MODEL, 2, GAMMA, bins=512)
    assert bounds.width < 1e-4
    assert not rejected(found, bounds.lower, bounds.upper, ALPHA)
    recursive = curve_of("recursive", "iid")
    assert rejected(found, recursive, recursive, ALPHA)
