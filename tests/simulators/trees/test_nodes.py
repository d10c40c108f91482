"""Which nodes are kept: counted over kernels' calls, against the law of the readable rules."""

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.instances import random_pair

from simverify import stats
from simverify.comparing.trees.rows import StateRows
from simverify.comparing.trees.whole import whole_law
from simverify.models.markov import markov
from simverify.models.small import compact
from simverify.simulators.tables import model_tables
from simverify.simulators.trees import count_nodes, simulate_trees
from simverify.trees import SCHEMES, Drafting, TreeShape, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

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
    law = whole_law(TREE_VERIFIERS[rule], drafting, StateRows.of(model))
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
