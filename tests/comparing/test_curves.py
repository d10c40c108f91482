"""Exact curves as certain enclosures, and a yardstick that no kernel can bend."""

import math
from fractions import Fraction

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.instances import random_pair

from simverify.comparing.curves import (
    MIN_STRATA,
    acceptance_curves,
    enclose_floats,
    enclose_fractions,
    enclose_sum,
    printable_fraction,
    sample_bounds,
)
from simverify.models import MarkovModel, markov
from simverify.models.base import compact, rational_markov
from simverify.models.ngram import corpus_text, train_ngram
from simverify.simulators.exact.laws import MAX_DENOMINATOR_BITS, compute_tree_law, markov_rows
from simverify.simulators.run import model_tables, simulate
from simverify.stats import acceptance_test, empirical_bernstein
from simverify.verifiers import VERIFIERS

ACCEPT_EQUALS = ("token", "block", "greedy")


def curves(model, gamma, rules=tuple(VERIFIERS)):
    chosen = {rule: VERIFIERS[rule] for rule in rules}
    return acceptance_curves(model, chosen, gamma, seed=1, threads=1)


def assert_proper(curve, gamma):
    assert ((curve.lower >= 0) & (curve.lower <= curve.upper) & (curve.upper <= 1)).all()
    assert 0 <= curve.expected_lower <= curve.expected <= curve.expected_upper <= gamma
    assert (curve.middle <= 1).all()


def equal_floats(vocab_size, seed):
    rows = np.random.default_rng(seed).dirichlet(np.ones(vocab_size), vocab_size + 1)
    rows /= rows.sum(axis=1, keepdims=True)
    return MarkovModel("equal", rows[-1], rows[:-1], rows[-1], rows[:-1])


@pytest.mark.parametrize("gamma", [1, 4, 8])
@pytest.mark.parametrize("vocab_size", [2, 3, 5, 300])
def test_a_draft_that_is_the_target_is_always_kept(vocab_size, gamma):
    models = [equal_floats(vocab_size, seed) for seed in range(6)]
    models += [markov(vocab_size, distance=0.0), markov(vocab_size, temperature=math.inf)]
    for model in models:
        for rule, curve in curves(model, gamma).items():
            assert_proper(curve, gamma)
            if rule in ACCEPT_EQUALS:
                # Certain to the last bit: one rejection in any number of blocks tells.
                assert (curve.lower == 1).all()
                assert curve.expected_lower == curve.expected_upper == gamma


@pytest.mark.parametrize("temperature", [0.0, 5e-324, 1e-320, 1e-3, 1e-2, 0.1])
@pytest.mark.parametrize(("vocab_size", "gamma"), [(2, 4), (3, 8), (5, 4), (5, 8), (64, 4)])
def test_cold_models(vocab_size, gamma, temperature):
    model = markov(vocab_size, temperature=temperature)
    for rule, curve in curves(model, gamma).items():
        assert_proper(curve, gamma)
        if temperature == 0:
            # One-hot rows: drafts are kept while the modes agree, so every level is 0 or 1.
            assert set(curve.lower) <= {0.0, 1.0}, rule
            assert (curve.lower == curve.upper).all()


def exactly(model):
    """The float rows as fractions, each divided by its sum: the law that its owner means."""

    def row(values):
        fractions = [Fraction(float(value)) for value in values]
        return [value / sum(fractions) for value in fractions]

    return rational_markov(
        "exact", row(model.target_start), list(map(row, model.target_rows)),
        row(model.draft_start), list(map(row, model.draft_rows)),
    )  # fmt: skip


def test_enclosures_hold_and_sums_alone_do_not():
    outside_sums = 0
    for seed in range(12):
        model = markov(3, distance=0.1 + 0.07 * seed, temperature=0.7 + 0.1 * seed)
        due_rows = markov_rows(exactly(model))
        for rule, curve in curves(model, 4).items():
            due = compute_tree_law(VERIFIERS[rule], due_rows, 4)
            got = compute_tree_law(VERIFIERS[rule], markov_rows(model), 4)
            for level, value in enumerate(due.curve):
                assert curve.lower[level] <= value <= curve.upper[level]
                outside_sums += Fraction(float(got.curve[level])) != value
            assert curve.expected_lower <= due.expected_accepted <= curve.expected_upper
            assert curve.expected_upper - curve.expected_lower < 1e-12
    assert outside_sums > 0


def test_closed_forms_are_enclosed():
    model = markov(7)
    due_rows = markov_rows(exactly(model))
    for rule in ("token", "match", "temperature-0"):
        curve = curves(model, 6, [rule])[rule]
        assert curve.method == "closed-form"
        kept = {
            "token": lambda p, q: min(p, q),
            "match": lambda p, q: p * q,
        }
        mass = {-1: Fraction(1)}
        for level in range(6):
            reached = {}
            for last, weight in mass.items():
                p, q = due_rows.target[last], due_rows.draft[last]
                mode = int(np.argmax(model.target([last] if last >= 0 else [])))
                for x in range(7):
                    part = kept[rule](p[x], q[x]) if rule in kept else q[x] * (x == mode)
                    reached[x] = reached.get(x, 0) + weight * part
            mass = reached
            assert curve.lower[level] <= sum(mass.values()) <= curve.upper[level]


def test_fractions_are_rounded_outward():
    low, high = enclose_fractions([Fraction(1, 2), Fraction(1, 3), Fraction(2, 3), 1, 0])
    assert (low[[0, 3, 4]] == high[[0, 3, 4]]).all()
    assert low[1] < Fraction(1, 3) < high[1] == math.nextafter(low[1], 1)
    assert low[2] < Fraction(2, 3) < high[2]
    curve = curves(compact(), 3, ["block"])["block"]
    assert curve.fraction == Fraction(139, 72)
    assert curve.expected == float(curve.fraction)
    assert curve.expected_lower < curve.fraction < curve.expected_upper


def test_widening():
    low, high = enclose_floats([1.0, 0.5, 0.0], certain=1)
    assert (low[0], high[0], low[2], high[2]) == (1, 1, 0, 0)
    assert 0 < high[1] - low[1] < 1e-13
    low, high = enclose_floats([1.0000000000000002, 0.5], certain=0)
    assert low[0] < 1 == high[0]
    wide = enclose_floats([0.5], certain=0, additions=1000)
    assert wide[1][0] - wide[0][0] > 1000 * 2.0**-53
    assert enclose_sum(np.ones(3), np.ones(3)) == (3, 3)
    assert enclose_sum(np.array([1, 0.5]), np.array([1, 0.5]))[0] < 1.5


def test_a_fraction_too_long_to_print_is_left_out():
    assert printable_fraction(Fraction(1, 3)) == Fraction(1, 3)
    assert printable_fraction(Fraction(1, 3**MAX_DENOMINATOR_BITS)) is None
    assert printable_fraction(0.5) is None


def test_zeros_stay_impossible():
    for seed in range(3):
        for curve in curves(random_pair(seed, 3), 4).values():
            assert_proper(curve, 4)


@pytest.fixture(scope="module")
def ngram():
    return train_ngram(corpus_text()[:100_000])


@pytest.mark.distribution
@pytest.mark.parametrize("rule", ["token", "block", "greedy"])
def test_a_kernel_that_judges_by_wrong_tables_fails_on_ngram(ngram, rule):
    """The yardstick reads nothing that the kernel reads, so a shared mistake cannot hide."""
    curve = curves(ngram, 3, [rule])[rule]
    tables = model_tables(ngram)

    # Half of the rate for the bounds, half for the counts.
    lower, upper = sample_bounds(curve.sample, ALPHA / 6)

    def rejected(tables):
        counts = simulate(tables, rule, 3, 100_000, seed=1, threads=1)
        test = acceptance_test(counts.tail_counts, counts.trials, lower, upper, alpha=ALPHA / 2)
        return test.rejected

    assert not rejected(tables)
    assert rejected(tables._replace(ratio3=tables.ratio3 * 0.9, ratio4=tables.ratio4 * 0.9))


def test_the_interval_on_ngram_is_narrow(ngram):
    """Ten times fewer paths than blocks, and still narrower than the plain mean of tau."""
    curve = curves(ngram, 8, ["block"])["block"]
    assert curve.method == "rao-blackwell"
    assert MIN_STRATA <= curve.sample.strata < MIN_STRATA + len(ngram.contexts)
    low, high = empirical_bernstein(2.5, 7.0, 300_000, low=0, high=8, error=1e-3)
    assert curve.expected_upper - curve.expected_lower < (high - low) / 1.5
    lower, upper = sample_bounds(curve.sample, 1e-6)
    assert (lower <= curve.lower).all()
    assert (upper >= curve.upper).all()


def test_temperature_zero_on_ngram_is_exact(ngram):
    curve = curves(ngram, 4, ["temperature-0"])["temperature-0"]
    assert curve.method == "enumeration"
    assert curve.sample is None
    assert_proper(curve, 4)
    assert curve.expected_upper - curve.expected_lower < 1e-8


def test_a_model_without_laws_is_refused():
    with pytest.raises(TypeError, match="no exact distribution for object"):
        curves(object(), 2, ["token"])
