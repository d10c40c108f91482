"""Each compiled rule emits what its readable rule does, tree by tree: the whole joint law."""

import functools
import itertools

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.instances import disjoint_pair, equal_pair, one_hot_pair, random_pair
from support.oracles.tree_laws import float_tree_law, walk_law
from support.pages.reproduction import agree

from simverify import stats
from simverify.errors import UsageError
from simverify.models.base import compact
from simverify.models.markov import markov
from simverify.models.ngram import corpus_text, train_ngram
from simverify.simulators.run import TRIALS_PER_SHARD, model_tables, simulate
from simverify.simulators.trees import compiled_rules, sample_trees, simulate_trees
from simverify.trees import SCHEMES, Drafting, TreeShape, shape_of_levels
from simverify.verifiers.base import draw, excess
from simverify.verifiers.trees import TREE_VERIFIERS
from simverify.verifiers.trees.base import normalised

MODELS = {
    "compact": compact(),
    "zeros": random_pair(3, 3),
    "four": random_pair(3, 4),
    # Rows that run out of tokens, of residual, or of both.
    "one-hot": one_hot_pair(),
    "equal": equal_pair(),
    "disjoint": disjoint_pair(),
}
BENT = TreeShape((-1, 0, 0, -1, 2))
SHAPES = [*(shape_of_levels(x) for x in ([2], [2, 1], [2, 2], [3, 1], [1, 1, 1])), BENT]
CASES = [
    *itertools.product(SHAPES, ("compact", "zeros")),
    *itertools.product((shape_of_levels([3]), BENT), ("one-hot", "equal", "disjoint")),
]
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
    # No tokens at all is a category too: a law may have one outcome, and a test needs two.
    keys = [(), *sorted({*counts, *law})]
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


def acceptance(counts, law, depth):
    """Trials that accepted l tokens or more, and the chance of it, l = 1 to ``depth``."""
    curve = np.zeros(depth)
    for tokens, mass in law.items():
        curve[: len(tokens) - 1] += mass
    return counts.tail_counts, np.clip(curve, 0, 1)


@pytest.mark.distribution
@pytest.mark.parametrize(("rule", "scheme"), CLAIMS)
@pytest.mark.thorough(by_day=10)
def test_joint_law(rule, scheme):
    # A rule that treats siblings otherwise: the control, judged on the very same counts.
    other = "match" if rule == "naive" else "naive"
    controls = 0
    for shape, model in CASES:
        drafting = Drafting(shape, SCHEMES[scheme])
        if rule not in compiled_rules(drafting):
            continue
        law = law_of(rule, model, drafting)
        counts = emitted(rule, model, drafting)
        share = ALPHA / (2 * len(CASES))
        assert not rejected(counts, law, share), (shape, model)
        tails, curve = acceptance(simulate_trees(
            tables_of(model), rule, drafting, TRIALS, seed=4, threads=1
        ), law, shape.depth)  # fmt: skip
        assert not stats.acceptance_test(tails, TRIALS, curve, curve, alpha=share).rejected
        wrong = law_of(other, model, drafting)
        if distance(law, wrong) > 0.05:
            controls += 1
            assert rejected(counts, wrong, ALPHA), (shape, model)
    assert controls


def slip(p, q, siblings, rng):
    """Recursive rejection whose residual stays that of the first rejection."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        residual = normalised(excess(p, q), p)
    return draw(residual, p, rng)


def slip_without(p, q, siblings, rng):
    """The same for siblings without replacement, whose q keeps rejected tokens."""
    residual = p
    for x in siblings:
        if q[x] > 0 and rng.random() < residual[x] / q[x]:
            return x
        residual = normalised(excess(residual, q), p)
    return draw(residual, p, rng)


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("rule", "scheme", "faulty"),
    [
        ("recursive", "iid", slip),
        ("recursive-without-replacement", "without-replacement", slip_without),
    ],
)
def test_a_faulty_rule_for_siblings_is_told_apart(rule, scheme, faulty):
    # On the compact model the residual is one token, and both slips are hidden.
    model = MODELS["four"]
    drafting = Drafting(shape_of_levels([3]), SCHEMES[scheme])
    counts = emitted(rule, "four", drafting)
    assert not rejected(counts, law_of(rule, "four", drafting), ALPHA / 2)
    assert rejected(counts, walk_law(faulty, model, drafting), ALPHA)


@pytest.mark.distribution
def test_a_walk_goes_on_below_the_first_child_that_has_the_token():
    drafting = Drafting(BENT, SCHEMES["iid"])
    counts = emitted("k-seq", "compact", drafting)
    # The shape with its two subtrees in the other order: where both children have the token,
    # that is the walk below the last of them.
    other = Drafting(TreeShape((-1, 0, -1, 2, 2)), SCHEMES["iid"])
    assert not rejected(counts, law_of("k-seq", "compact", drafting), ALPHA)
    assert rejected(counts, law_of("k-seq", "compact", other), ALPHA)


# Runs over draft trees: the same on any threads, in any shards, and on a chain as for chains.


TREE_RUNS_TRIALS = TRIALS_PER_SHARD + 77  # no multiple of a shard or of a tile
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
    whole = run(rule, TREE_RUNS_TRIALS, first_trial=1000)
    assert agree(whole, run(rule, TREE_RUNS_TRIALS, first_trial=1000, threads=3))
    cuts = [0, 1, 130, TREE_RUNS_TRIALS]
    parts = [
        run(rule, end - begin, first_trial=1000 + begin) for begin, end in itertools.pairwise(cuts)
    ]
    assert agree(whole, sum(parts[1:], parts[0]))
    assert not agree(whole, run(rule, TREE_RUNS_TRIALS, first_trial=1000, seed=8))
    assert not agree(whole, run(rule, TREE_RUNS_TRIALS, first_trial=1001))


@pytest.mark.parametrize("rule", TREE_VERIFIERS)
def test_counts_are_of_the_tokens_that_a_sample_keeps(rule):
    drafting = drafting_of(rule)
    counts = run(rule, TREE_RUNS_TRIALS)
    assert counts.trials == counts.accepted.sum() == TREE_RUNS_TRIALS
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
        simulate(TABLES, rule, 4, TREE_RUNS_TRIALS, seed=7, threads=1, **shape)
        for rule in ("block", "token")
    )
    assert agree(block, run("traversal", TREE_RUNS_TRIALS, drafting=drafting, pit_positions=0))
    for rule, chain in (("gbv", block), ("recursive", token), ("k-seq", token), ("naive", token)):
        # Their last token is drawn by another table from the same law.
        counts = run(rule, TREE_RUNS_TRIALS, drafting=drafting)
        np.testing.assert_array_equal(counts.accepted, chain.accepted)
    assert (block.accepted != token.accepted).any()


def test_children_that_are_certain_are_the_likeliest():
    """What the target draws is accepted where it is one of them, and nowhere else."""
    drafting = Drafting(shape_of_levels([2]), SCHEMES["top-k"])
    counts = run("match", TREE_RUNS_TRIALS, drafting=drafting)
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
            model_tables(train_ngram(corpus_text()[:70_000])),
            "match",
            drafting,
            1,
            seed=1,
            threads=1,
        )
