"""Each compiled rule emits what its readable rule does, tree by tree: the whole joint law."""

import functools
import itertools

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.instances import random_pair
from support.oracles.tree_laws import float_tree_law, walk_law

from simverify import stats
from simverify.models.small import compact
from simverify.simulators.tables import model_tables
from simverify.simulators.trees import compiled_rules, sample_trees
from simverify.simulators.trees.families import FAMILIES
from simverify.trees import SCHEMES, Drafting, TreeShape, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

MODELS = {"compact": compact(), "zeros": random_pair(3, 3)}
BENT = TreeShape((-1, 0, 0, -1, 2))
SHAPES = [*(shape_of_levels(x) for x in ([2], [2, 1], [2, 2], [3, 1], [1, 1, 1])), BENT]
CLAIMS = [(name, scheme) for name, v in TREE_VERIFIERS.items() for scheme in v.schemes]
TRIALS = 20_000


@functools.cache
def tables_of(name):
    return model_tables(MODELS[name])


@functools.cache
def law_of(rule, model, drafting):
    verifier = TREE_VERIFIERS[rule]
    if verifier.one_step is not None:
        return walk_law(verifier.one_step, MODELS[model], drafting)
    return float_tree_law(verifier.rule, MODELS[model], drafting)


def emitted(rule, model, drafting, trials=TRIALS):
    """How often each tuple of tokens came out."""
    found = sample_trees(tables_of(model), rule, drafting, trials, seed=3)
    begins = np.flatnonzero(found.positions == 0)
    counts = {}
    # The last trial may be cut.
    for begin, end in itertools.pairwise(begins):
        tokens = tuple(found.tokens[begin:end].tolist())
        counts[tokens] = counts.get(tokens, 0) + 1
    return counts


def rejected(counts, law, alpha):
    """Whether the tokens are seen to leave ``law``."""
    keys = sorted({*counts, *law})
    table = np.array([[counts.get(key, 0) for key in keys]])
    row = np.array([[law.get(key, 0.0) for key in keys]])
    row /= row.sum()
    g2 = stats.transition_g2(table, row)
    if g2.df and stats.g2_test(g2, alpha=alpha / 2).rejected:
        return True
    return stats.support_violations(table, row).rejected


def distance(a, b):
    return sum(abs(a.get(key, 0) - b.get(key, 0)) for key in {*a, *b}) / 2


def test_a_walk_has_one_law_node_by_node_and_tree_by_tree():
    for rule, scheme in (("recursive", "iid"), ("greedy-draft", "without-replacement")):
        drafting, verifier = Drafting(BENT, SCHEMES[scheme]), TREE_VERIFIERS[rule]
        whole = float_tree_law(verifier.rule, MODELS["zeros"], drafting)
        assert distance(law_of(rule, "zeros", drafting), whole) < 1e-12
        assert distance(law_of("naive", "zeros", drafting), whole) > 0.01


@pytest.mark.distribution
@pytest.mark.parametrize(("rule", "scheme"), [pair for pair in CLAIMS if pair[0] in FAMILIES])
def test_joint_law(rule, scheme):
    # A rule that treats siblings otherwise: the control, judged on the very same counts.
    other = "match" if rule == "naive" else "naive"
    controls = 0
    for shape, model in itertools.product(SHAPES, MODELS):
        drafting = Drafting(shape, SCHEMES[scheme])
        if rule not in compiled_rules(drafting):
            continue
        law = law_of(rule, model, drafting)
        counts = emitted(rule, model, drafting)
        share = ALPHA / (len(SHAPES) * len(MODELS))
        assert not rejected(counts, law, share), (shape, model)
        wrong = law_of(other, model, drafting)
        if distance(law, wrong) > 0.05:
            controls += 1
            assert rejected(counts, wrong, ALPHA), (shape, model)
    assert controls
