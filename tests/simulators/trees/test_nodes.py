"""Which nodes are kept: counted over kernels' calls, against the law of the readable rules."""

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.instances import random_pair

from simverify import stats
from simverify.comparing.trees import StateRows, enumerate_law
from simverify.models.base import compact
from simverify.models.markov import markov
from simverify.simulators.exact.bounds import traversal_bounds
from simverify.simulators.exact.laws import linear_curve
from simverify.simulators.run import model_tables
from simverify.simulators.trees import count_nodes, simulate_trees
from simverify.trees import SCHEMES, Drafting, TreeShape, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

# Kernels at size: two chains of eight tokens, V = 64, against what is known exactly of them.


MODEL = markov(64)
TABLES = model_tables(MODEL)
GAMMA = 8
EXPECTED_CHAINS = shape_of_levels([2] + [1] * (GAMMA - 1))
EXPECTED_TRIALS = 200_000
STEPS = [(name, scheme) for name, v in TREE_VERIFIERS.items() for scheme in v.hits]


def tails(rule, scheme):
    counts = simulate_trees(
        TABLES, rule, Drafting(EXPECTED_CHAINS, SCHEMES[scheme]), EXPECTED_TRIALS, seed=5, threads=1
    )
    return counts.tail_counts


def rejected_expected(tail_counts, lower, upper, alpha):
    test = stats.acceptance_test(
        tail_counts, EXPECTED_TRIALS, np.clip(lower, 0, 1), np.clip(upper, 0, 1), alpha=alpha
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
    assert not rejected_expected(found, curve, curve, ALPHA)
    # One draft in the place of two, which differs in the first step alone.
    hits = TREE_VERIFIERS[rule].hits[scheme]
    one = hits(MODEL.target_start, MODEL.draft_start, 1).sum()
    assert rejected_expected(found, curve * one / curve[0], curve * one / curve[0], ALPHA)


@pytest.mark.distribution
def test_traversal():
    found, bounds = tails("traversal", "iid"), traversal_bounds(MODEL, 2, GAMMA, bins=512)
    assert bounds.width < 1e-4
    assert not rejected_expected(found, bounds.lower, bounds.upper, ALPHA)
    recursive = curve_of("recursive", "iid")
    assert rejected_expected(found, recursive, recursive, ALPHA)


TRIALS = 30_000
# A way is looked for below the second sibling where the first, its equal, has no children.
BENT = TreeShape((-1, -1, 1, 1))
CHAINS = TreeShape((-1, -1, 0, 1))
CHAIN = shape_of_levels([1, 1, 1])


def drafting_of(rule, scheme):
    shape = next(s for s in (BENT, CHAINS, CHAIN) if TREE_VERIFIERS[rule].fits(s))
    return Drafting(shape, SCHEMES[scheme])


def ends(shape, kept, calls):
    """How many calls ended at the root, and at each node."""
    below = np.zeros(len(shape))
    for node, parent in enumerate(shape.parents):
        if parent >= 0:
            below[parent] += kept[node]
    roots = sum(kept[node] for node, parent in enumerate(shape.parents) if parent < 0)
    return np.array([calls - roots, *(np.array(kept) - below)])


def rejected(counts, law):
    """Whether counts of ends are seen to leave ``law``."""
    table, row = counts[None].astype(np.int64), law[None] / law.sum()
    found = stats.g2_test(stats.transition_g2(table, row), alpha=ALPHA / 2)
    return found.rejected or stats.support_violations(table, row).rejected


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("rule", "scheme"), [(r, s) for r in TREE_VERIFIERS for s in TREE_VERIFIERS[r].schemes[:2]]
)
def test_nodes_are_kept_as_often_as_the_readable_rule_keeps_them(rule, scheme):
    drafting = drafting_of(rule, scheme)
    model = compact() if rule in ("traversal", "gbv") else random_pair(3, 3)
    kept = count_nodes(model_tables(model), rule, drafting, TRIALS, seed=11)
    law = enumerate_law(TREE_VERIFIERS[rule], drafting, StateRows.of(model))
    shape = drafting.shape
    observed = ends(shape, kept, TRIALS)
    expected = np.maximum(ends(shape, np.array(law.nodes, float), 1.0), 0.0)
    assert not rejected(observed, expected)
    # Equal siblings counted for the later one, or levels alone, would not do.
    if shape != CHAIN:
        other = expected.copy()
        first, last = shape.children[-1][0] + 1, shape.children[-1][-1] + 1
        other[[first, last]] = other[[last, first]]
        assert rejected(observed, other)


@pytest.mark.parametrize("rule", TREE_VERIFIERS)
def test_nodes_add_up_to_the_levels_that_are_counted(rule):
    tables = model_tables(markov(5))
    drafting = drafting_of(rule, TREE_VERIFIERS[rule].schemes[0])
    kept = count_nodes(tables, rule, drafting, 20_000, seed=3)
    counts = simulate_trees(tables, rule, drafting, 20_000, seed=3, threads=2)
    depths = np.array(drafting.shape.depths)
    levels = range(1, drafting.shape.depth + 1)
    assert [kept[depths == level].sum() for level in levels] == counts.tail_counts.tolist()
    assert kept.tolist() != count_nodes(tables, rule, drafting, 20_000, seed=4).tolist()
