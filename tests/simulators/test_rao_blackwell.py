"""Rao-Blackwell estimates: block by block in plain Python, and right on average."""

import math
from fractions import Fraction

import naive
import numpy as np
import pytest
from false_alarms import ALPHA
from instances import disjoint_pair, equal_pair, random_pair
from oracle_laws import joint, rational, sequences

from simverify.models.markov import markov
from simverify.models.small import compact, toy
from simverify.simulators.exact.rows import markov_rows
from simverify.simulators.exact.tree import grow
from simverify.simulators.kernels.call import RULES
from simverify.simulators.run import RAO_BLACKWELL_TRIALS, rao_blackwell
from simverify.simulators.tables import model_tables
from simverify.stats import empirical_bernstein
from simverify.verifiers import VERIFIERS

MODELS = {
    "toy": toy(),
    "compact": compact(),
    "equal": equal_pair(),
    "disjoint": disjoint_pair(),
    "markov-5": markov(5),
    **{f"zeros-{i}": random_pair(i, 3) for i in range(3)},
}


def estimates(pair, rule, x):
    """Pr(tau >= l) given that x_1..x_(l-1) are drafted and x_l is not known yet, l = 1..gamma.

    ``match`` and ``temperature-0`` use x_l too: their chance given the block.
    """
    values, weight = [], 1
    for i, token in enumerate(x):
        at = pair.context(x[:i])
        p, q = pair.p[at], pair.q[at]
        if rule == "match":
            weight = weight * p[token]
            values.append(weight)
        elif rule == "temperature-0":
            weight = weight * (token == p.index(max(p)))
            values.append(weight)
        elif rule == "token":
            values.append(weight * sum(map(min, p, q)))
            weight = weight * min(1, p[token] / q[token])
        else:
            values.append(sum(map(min, naive.scaled(weight, p), q)))
            weight = weight * p[token] / q[token]
            weight = min(1, weight) if rule == "block" else weight
    return values


@pytest.mark.parametrize("rule", VERIFIERS)
@pytest.mark.parametrize("name", [name for name in MODELS if name != "markov-5"])
def test_estimates_average_to_the_exact_curve(name, rule):
    """The formula itself, in fractions, over every block."""
    model = MODELS[name]
    pair = rational(model)
    total = [Fraction(0)] * 3
    for x in sequences(pair, 3):
        mass = joint(pair.q, x)
        if mass:
            total = [t + mass * e for t, e in zip(total, estimates(pair, rule, x), strict=True)]
    assert total == grow(VERIFIERS[rule], markov_rows(model), 3).curve


@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_the_blocks(name):
    """300 blocks, whose drafts the oracle finds at their addresses."""
    model = MODELS[name]
    tables = model_tables(model)
    pair = naive.Pair.of(model, tables)
    for gamma in (1, 4, 5):
        got = rao_blackwell(tables, gamma, 300, seed=2**40 + 9, threads=1)
        for rule in RULES:
            blocks = []
            for trial in range(RAO_BLACKWELL_TRIALS, RAO_BLACKWELL_TRIALS + 300):
                x: tuple[int, ...] = ()
                for i in range(gamma):
                    at = pair.context(x)
                    u = naive.uniform(2**40 + 9, trial, naive.DRAFT, i)
                    x = (*x, naive.draw_alias(pair.cut[at], pair.alias[at], u))
                values = estimates(pair, rule, x)
                blocks.append([*values, math.fsum(values)])
            assert got[rule].blocks == 300
            np.testing.assert_allclose(got[rule].mean, np.mean(blocks, axis=0), atol=1e-12)
            due = np.var(blocks, axis=0, ddof=1)
            np.testing.assert_allclose(got[rule].variance, due, atol=1e-11)


@pytest.mark.distribution
@pytest.mark.parametrize("name", ["toy", "compact", "zeros-0", "zeros-2"])
def test_means_cover_the_exact_curve_and_no_other(name):
    model, gamma = MODELS[name], 4
    samples = rao_blackwell(model_tables(model), gamma, 400_000, seed=5, threads=1)
    exact = {}
    for rule, verifier in VERIFIERS.items():
        tree = grow(verifier, markov_rows(model), gamma)
        exact[rule] = [float(value) for value in (*tree.curve, tree.expected_accepted)]
    confidence = 1 - ALPHA / (len(exact) * (gamma + 1))

    def outside(rule, curve):
        tops = [1.0] * gamma + [float(gamma)]
        sample = samples[rule]
        found = 0
        for mean, variance, top, value in zip(
            sample.mean, sample.variance, tops, curve, strict=True
        ):
            low, high = empirical_bernstein(
                float(mean), float(variance), sample.blocks, low=0, high=top, confidence=confidence
            )
            found += not low <= value <= high
        return found

    for rule, curve in exact.items():
        assert outside(rule, curve) == 0
    assert outside("block", exact["token"])
    assert outside("greedy", exact["block"])
    assert outside("match", exact["temperature-0"])


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads):
    tables = model_tables(markov(5))
    one = rao_blackwell(tables, 5, 50_001, seed=1, threads=1)
    many = rao_blackwell(tables, 5, 50_001, seed=1, threads=threads)
    other = rao_blackwell(tables, 5, 50_001, seed=2, threads=1)
    for rule, sample in one.items():
        np.testing.assert_array_equal(sample.mean, many[rule].mean)
        np.testing.assert_array_equal(sample.variance, many[rule].variance)
        assert (sample.mean != other[rule].mean).any()
