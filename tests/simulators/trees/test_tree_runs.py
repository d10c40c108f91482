"""Runs over draft trees: the same on any threads, in any shards, and on a chain as for chains."""

import itertools

import numpy as np
import pytest
from support.pages.reproduction import agree

from simverify.errors import UsageError
from simverify.models.corpus import corpus_text
from simverify.models.markov import markov
from simverify.models.ngram import train
from simverify.simulators.run import SHARD, simulate
from simverify.simulators.tables import model_tables
from simverify.simulators.trees import compiled_rules, sample_trees, simulate_trees
from simverify.trees import SCHEMES, Drafting, TreeShape, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

TRIALS = SHARD + 77  # no multiple of a shard or of a tile
TABLES = model_tables(markov(5))
FORKED = shape_of_levels([2, 1])


def drafting_of(rule, shape=FORKED):
    """``shape``, or a chain for a rule that takes no other, by the first of the rule's schemes."""
    verifier = TREE_VERIFIERS[rule]
    return Drafting(
        shape if verifier.fits(shape) else shape_of_levels([1, 1, 1]), SCHEMES[verifier.schemes[0]]
    )


def run(rule, trials, *, drafting=None, threads=1, seed=7, **options):
    drafting = drafting or drafting_of(rule)
    shape = (drafting.shape.depth + 1, *TABLES.target.shape)
    options = {"transition_shape": shape, "pit_positions": 2, **options}
    return simulate_trees(TABLES, rule, drafting, trials, seed=seed, threads=threads, **options)


@pytest.mark.parametrize("rule", TREE_VERIFIERS)
def test_threads_and_parts_change_nothing(rule):
    whole = run(rule, TRIALS, first_trial=1000)
    assert agree(whole, run(rule, TRIALS, first_trial=1000, threads=3))
    cuts = [0, 1, 130, TRIALS]
    parts = [
        run(rule, end - begin, first_trial=1000 + begin) for begin, end in itertools.pairwise(cuts)
    ]
    assert agree(whole, sum(parts[1:], parts[0]))
    assert not agree(whole, run(rule, TRIALS, first_trial=1000, seed=8))
    assert not agree(whole, run(rule, TRIALS, first_trial=1001))


@pytest.mark.parametrize("rule", TREE_VERIFIERS)
def test_counts_are_of_the_tokens_that_a_sample_keeps(rule):
    drafting = drafting_of(rule)
    counts = run(rule, TRIALS)
    assert counts.trials == counts.accepted.sum() == TRIALS
    taus = np.arange(len(counts.accepted))
    assert counts.lengths[:, 0].tolist() == [
        (counts.accepted * (taus + 1) ** power).sum() for power in (1, 2)
    ]
    found = sample_trees(TABLES, rule, drafting, int(counts.lengths[0, 0]), seed=7)
    tokens = np.zeros_like(counts.transitions)
    np.add.at(tokens, (found.positions, found.states, found.tokens), 1)
    np.testing.assert_array_equal(counts.transitions, tokens)
    assert counts.pits.sum(axis=2).tolist() == 2 * [tokens.sum(axis=(1, 2))[:2].tolist()]
    first = sample_trees(TABLES, rule, drafting, 100, seed=7, positions=1)
    assert first.tokens.tolist() == found.tokens[found.positions == 0][:100].tolist()


def test_a_chain_is_judged_as_the_chain_kernels_do():
    """Down to each count, since they read the same draws."""
    drafting = Drafting(shape_of_levels([1] * 4), SCHEMES["iid"])
    shape = {"transition_shape": (5, *TABLES.target.shape)}
    block, token = (
        simulate(TABLES, rule, 4, TRIALS, seed=7, threads=1, **shape) for rule in ("block", "token")
    )
    assert agree(block, run("traversal", TRIALS, drafting=drafting, pit_positions=0))
    for rule, chain in (("gbv", block), ("recursive", token), ("k-seq", token), ("naive", token)):
        # Their last token is drawn by another table from the same law.
        counts = run(rule, TRIALS, drafting=drafting)
        np.testing.assert_array_equal(counts.accepted, chain.accepted)
    assert (block.accepted != token.accepted).any()


def test_children_that_are_certain_are_the_likeliest():
    """What the target draws is accepted where it is one of them, and nowhere else."""
    drafting = Drafting(shape_of_levels([2]), SCHEMES["top-k"])
    counts = run("match", TRIALS, drafting=drafting)
    likeliest = np.argsort(-TABLES.draft[5], kind="stable")[:2]
    kept = counts.transitions[0, 5][likeliest].sum()
    assert counts.accepted[1] == kept == counts.transitions[1].sum()


@pytest.mark.parametrize("rule", TREE_VERIFIERS)
def test_wide_and_deep_trees(rule):
    """More children than tokens, and more levels than any draft has."""
    wide, deep = shape_of_levels([9, 1]), TreeShape(tuple(range(-1, 99)))
    for shape in (wide, deep):
        if TREE_VERIFIERS[rule].fits(shape):
            counts = run(rule, 200, drafting=drafting_of(rule, shape))
            assert counts.accepted.sum() == 200
            assert counts.unsupported == 0


def test_every_rule_has_a_kernel():
    assert all(rule.kernel is not None for rule in TREE_VERIFIERS.values())


def test_what_has_no_kernel_is_refused_in_one_line():
    drafting = Drafting(FORKED, SCHEMES["top-k"])
    assert compiled_rules(drafting) == ("match", "fixed-tree")
    with pytest.raises(UsageError, match=r"no kernel of 'recursive' .* by top-k on 2,1 children"):
        run("recursive", 1, drafting=drafting)
    with pytest.raises(UsageError, match="Markov models"):
        simulate_trees(
            model_tables(train(corpus_text()[:70_000])), "match", drafting, 1, seed=1, threads=1
        )
