"""Rao-Blackwell estimates on ngram: against plain numpy rows, the readable closed forms, and
a small model on which everything can be written out.
"""

import itertools

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.oracles import naive

from simverify.models.ngram import NgramModel, corpus_text, train_ngram
from simverify.simulators.exact.laws import Rows, compute_tree_law
from simverify.simulators.kernels.rao_blackwell import RULES, estimate, fill_target
from simverify.simulators.latency import SINGLE_SEQUENCE, Load, predicted_speedup
from simverify.simulators.run import FIRST_TRIAL, count_rows, modes_curve, rao_blackwell
from simverify.stats import stratified_bernstein
from simverify.trees import TreeShape, shape_of_levels
from simverify.verifiers import VERIFIERS

# The latency model: rows that are free cost nothing, others in proportion; by hand.


def test_one_sequence_is_the_known_formula():
    """Leviathan et al. 2023, theorem 3.8, to the last bit."""
    assert predicted_speedup(3.5, 8, 0.1) == 4.5 / (8 * 0.1 + 1)
    assert predicted_speedup(3.5, 8, 0.1, Load(64, None)) == 4.5 / (8 * 0.1 + 1)


def test_a_chain_is_a_draft():
    load = Load(8, 100)
    chain = shape_of_levels([1] * 8)
    assert predicted_speedup(2.0, 8, 0.1, load, shape=chain) == predicted_speedup(2.0, 8, 0.1, load)


@pytest.mark.parametrize(("rows", "time"), [(1, 1.0), (8, 1.0), (9, 9 * 8 / 64), (17, 17 * 8 / 64)])
def test_a_call(rows, time):
    assert Load(8, 64).call(rows) == time
    assert SINGLE_SEQUENCE.call(rows) == 1.0


def test_two_drafts_of_two_tokens():
    """Batch 4, 10 rows: the target has 20, the draft 4 and then 8; plain decoding 4."""
    shape = shape_of_levels([2, 1])
    expected = (1.5 + 1) / (0.5 * (1 + 1) + 20 / 10)
    assert predicted_speedup(1.5, 2, 0.5, Load(4, 10), shape=shape) == pytest.approx(expected)
    expected = (1.5 + 1) * 4 / 2 / (0.5 * (4 / 2 + 8 / 2) + 20 / 2)
    assert predicted_speedup(1.5, 2, 0.5, Load(4, 2), shape=shape) == pytest.approx(expected)


def test_the_draft_computes_a_row_after_nodes_that_have_children():
    """Five leaves below one node: the draft's second call has one row."""
    shape = TreeShape((-1, -1, 0, 0, 0))
    expected = 2.0 / (0.5 * (1 + 1) + 6 / 2)
    assert predicted_speedup(1.0, 2, 0.5, Load(1, 2), shape=shape) == pytest.approx(expected)


def test_more_free_rows_are_never_slower():
    shape = shape_of_levels([3, 2, 1])
    speeds = [predicted_speedup(2.0, 3, 0.1, Load(8, rows), shape=shape) for rows in (20, 60, 128)]
    assert speeds == sorted(speeds)
    assert speeds[-1] == predicted_speedup(2.0, 3, 0.1)


GAMMA = 4


@pytest.fixture(scope="module")
def model():
    return train_ngram(corpus_text()[:100_000])


@pytest.fixture(scope="module")
def rows(model):
    return count_rows(model)


def code(context):
    return np.uint64(int.from_bytes(bytes(context[-4:]), "big"))


def some_contexts(model, count):
    """Held-out text, text that leaves the seen contexts, and noise."""
    rng = np.random.default_rng(7)
    for i in range(count):
        context = model.contexts[rng.integers(len(model.contexts))].tolist()
        yield [*context, *rng.integers(256, size=i % 5).tolist()]


def test_rows_are_the_models_own(model, rows):
    p = np.empty(256)
    for context in some_contexts(model, 300):
        q = rows[1][rows[2][int(code(context)) & 0xFFFF]]
        fill_target(rows[0], q, code(context), p)
        np.testing.assert_allclose(q, model.draft(context), rtol=1e-12)
        np.testing.assert_allclose(p, model.target(context), rtol=1e-12)


def readable(model, rule, context, path, weights):
    """f summed over the last token, by the readable closed form on numpy rows, relative to
    the path's probability ``weights``: entry l-1 is the estimate of Pr(tau >= l).
    """
    one = np.ones((1, 1))
    m = b = f = one
    values = []
    for x, weight in zip(path, weights, strict=True):
        p, q = model.target(context)[None], model.draft(context)[None]
        children, _ = VERIFIERS[rule].tree_step(m, b, f, p, q)
        values.append(children.sum() / weight)
        m, b, f = m * q[0, x], b * p[0, x], one * children[0, x]
        context = [*context, x]
    return values


def drawn_path(model, context, u):
    """The path that ``u`` draws from greedy block's law, and the probability of each prefix."""
    one = np.ones((1, 1))
    m = b = f = one
    path, weights = [], [1.0]
    for coin in u:
        p, q = model.target(context)[None], model.draft(context)[None]
        children, _ = VERIFIERS["greedy"].tree_step(m, b, f, p, q)
        law = children[0] / children.sum()
        x = int(np.searchsorted(np.cumsum(law), coin, side="right"))
        weights.append(weights[-1] * law[x])
        m, b, f = m * q[0, x], b * p[0, x], one * children[0, x]
        path.append(x)
        context = [*context, x]
    return path, weights


@pytest.mark.parametrize("gamma", [1, 2, 5, 8])
def test_blocks_are_judged_as_the_readable_closed_forms_do(model, rows, gamma):
    rng = np.random.default_rng(3)
    out, p, sums = np.empty((len(RULES), gamma + 1)), np.empty(256), np.empty(256)
    for context in some_contexts(model, 30):
        u = rng.random(gamma)
        estimate(rows, code(context), u, p, sums, out)
        path, weights = drawn_path(model, context, u[: gamma - 1])
        for rule, got in zip(RULES, out, strict=True):
            due = readable(model, rule, context, [*path, 0], weights)
            np.testing.assert_allclose(got[:gamma], due, rtol=1e-9)
            assert got[gamma] == pytest.approx(sum(due), rel=1e-9)
        assert ((out[:, :-1] >= 0) & (out[:, :-1] <= 1 + 1e-12)).all()
        greedy = out[RULES.index("greedy"), :-1]  # the others fall on average alone
        assert (np.diff(greedy) <= 1e-12).all()


def test_a_stratum_is_a_part_of_the_first_draw(model):
    """Pairs as their definition says, from the addresses of their draws."""
    few = NgramModel(**{**vars(model), "contexts": model.contexts[[5, 9, 5, 700, 5]]})
    rows = count_rows(few)
    got = rao_blackwell(few, GAMMA, seed=2**40 + 9, threads=1)
    codes = sorted(int(code(context)) for context in few.contexts.tolist())
    pairs = []
    for n, context in enumerate(codes):
        same = codes.count(context)
        part = n - codes.index(context)
        pair = np.empty((2, len(RULES), GAMMA + 1))
        for j in range(2):
            trial = FIRST_TRIAL + 2 * n + j
            u = np.array([naive.uniform(2**40 + 9, trial, naive.DRAFT, i) for i in range(GAMMA)])
            u[0] = (part + u[0]) / same
            estimate(rows, np.uint64(context), u, np.empty(256), np.empty(256), pair[j])
        pairs.append(pair)
    pairs = np.array(pairs)
    for i, rule in enumerate(RULES):
        assert got[rule].strata == 5
        np.testing.assert_allclose(got[rule].mean, pairs[:, :, i].mean(axis=(0, 1)), rtol=1e-12)
        due = ((pairs[:, 0, i] - pairs[:, 1, i]) ** 2 / 2).mean(axis=0)
        np.testing.assert_allclose(got[rule].variance, due, atol=1e-15)


def two_token_model(model):
    """``model`` at gamma = 2 as a tree of explicit rows: exact curves of every rule."""
    contexts = model.contexts.tolist()
    curves = {rule: np.zeros(2) for rule in VERIFIERS}
    for context in contexts:
        rows = Rows(
            np.array([model.target([*context, x]) for x in range(256)] + [model.target(context)]),
            np.array([model.draft([*context, x]) for x in range(256)] + [model.draft(context)]),
        )
        for rule, verifier in VERIFIERS.items():
            curves[rule] += np.array(compute_tree_law(verifier, rows, 2).curve) / len(contexts)
    return curves


@pytest.fixture(scope="module")
def small(model):
    some = np.linspace(0, len(model.contexts) - 1, 12).astype(int)
    return NgramModel(**{**vars(model), "contexts": model.contexts[some]})


@pytest.fixture(scope="module")
def exact(small):
    return two_token_model(small)


@pytest.mark.thorough
def test_temperature_zero_is_exact(small, exact):
    np.testing.assert_allclose(modes_curve(small, 2), exact["temperature-0"], rtol=1e-12)
    for gamma in (1, 3):
        due = np.zeros(gamma)
        for context in small.contexts.tolist():
            kept = 1.0
            for i in range(gamma):
                mode = int(np.argmax(small.target(context)))
                kept *= small.draft(context)[mode]
                due[i] += kept / len(small.contexts)
                context.append(mode)
        np.testing.assert_allclose(modes_curve(small, gamma), due, rtol=1e-12)


def interval(sample, entry, most, error):
    return stratified_bernstein(
        sample.mean[entry], sample.variance[entry], sample.strata,
        low=0, high=most, error=error,
    )  # fmt: skip


@pytest.mark.distribution
@pytest.mark.thorough
def test_means_cover_the_exact_curve_and_no_other(small, exact):
    samples = rao_blackwell(small, 2, seed=5, threads=1, rounds=4000)
    error = ALPHA / (3 * len(RULES))

    def outside(rule, curve):
        values = [*curve, sum(curve)]
        bounds = [interval(samples[rule], i, (1, 1, 2)[i], error) for i in range(3)]
        return sum(not low <= v <= high for v, (low, high) in zip(values, bounds, strict=True))

    for rule in RULES:
        assert outside(rule, exact[rule]) == 0
    for rule, wrong in (("block", "token"), ("greedy", "block"), ("match", "temperature-0")):
        assert outside(rule, exact[wrong]) > 0
    # Level 1 has no draw left in it.
    assert samples["token"].variance[0] < 1e-20


def test_every_context_counts_once(model):
    """Level 1 takes no draw, so it is the mean over all contexts, whatever the seed."""
    few = NgramModel(**{**vars(model), "contexts": model.contexts[::50]})
    due = [np.minimum(few.target(c), few.draft(c)).sum() for c in few.contexts.tolist()]
    for seed in (0, 1):
        sample = rao_blackwell(few, 3, seed=seed, threads=1)["token"]
        assert sample.mean[0] == pytest.approx(np.mean(due), rel=1e-12)


def test_threads_change_nothing(model):
    one = rao_blackwell(model, 5, seed=1, threads=1, rounds=2)
    other = rao_blackwell(model, 5, seed=2, threads=1, rounds=2)
    for threads in (2, 3):
        many = rao_blackwell(model, 5, seed=1, threads=threads, rounds=2)
        for rule, sample in one.items():
            np.testing.assert_array_equal(sample.mean, many[rule].mean)
            np.testing.assert_array_equal(sample.variance, many[rule].variance)
            assert (sample.mean[1:] != other[rule].mean[1:]).any()


def test_no_rule_exceeds_greedy_block_on_any_path(model, rows):
    out, p, sums = np.empty((len(RULES), GAMMA + 1)), np.empty(256), np.empty(256)
    rng = np.random.default_rng(4)
    order = [RULES.index(rule) for rule in ("match", "token", "block", "greedy")]
    for context in some_contexts(model, 200):
        estimate(rows, code(context), rng.random(GAMMA), p, sums, out)
        for lower, upper in itertools.pairwise(order):
            assert (out[lower] <= out[upper] * (1 + 1e-12)).all()
