"""Laws of samplers: against enumeration by hand, against draws, and where none is known."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from simverify import stats
from simverify.samplers import judge
from simverify.samplers.base import Lookup, Race, Sampler
from simverify.samplers.catalogue import SAMPLERS, installed_version
from simverify.samplers.judge import exact_law, judge_row, lookup_law, make_row, race_law

LIMITS = {"seed": 0, "alpha": 1e-6, "detect": 0.03}


@pytest.mark.parametrize("kind", judge.ROWS)
def test_rows_are_laws(kind):
    row = make_row(kind, 1_000)
    assert row.shape == (1_000,)
    assert row.min() > 0
    assert row.sum() == pytest.approx(1)


def index_of(sums):
    return lambda u: np.searchsorted(sums, u, side="right")


def test_a_large_grid_is_bisected_as_a_small_one_is_counted(monkeypatch):
    sums = np.array([0.1, 0.1, 0.35, 0.999, 1.0])
    counted = lookup_law(index_of(sums), 5, 12)
    assert counted.tolist() == [410 / 4096, 0, 1024 / 4096, 2658 / 4096, 4 / 4096]
    monkeypatch.setattr(judge, "_ENUMERATED_BITS", 0)
    assert lookup_law(index_of(sums), 5, 12).tolist() == counted.tolist()
    assert lookup_law(lambda u: np.zeros(len(u), dtype=int), 3, 53).tolist() == [1, 0, 0]
    assert lookup_law(lambda u: np.full(len(u), 2), 3, 53).tolist() == [0, 0, 1]


def first_largest(scores, place):
    """Return the law of a race by trying every outcome."""
    points = scores.shape[1]
    law = np.zeros(len(place))
    for drawn in itertools.product(range(points), repeat=len(place)):
        law[np.argmax([scores[group, k] for group, k in zip(place, drawn, strict=True)])] += 1
    return law / law.sum()


def test_a_race_is_what_all_its_outcomes_make():
    scores = np.array([[0.0, 1.0, 1.0, 3.0], [1.0, 2.0, 3.0, -np.inf]])
    place = np.array([0, 1, 0, 1])
    law = race_law(Race(("x",), lambda _row, _dtype: (scores, place)), np.full(4, 0.25), "x")
    assert law == pytest.approx(first_largest(scores, place), abs=1e-12)
    # Control: the last of equal ones is another law.
    last = first_largest(scores, place[::-1])[::-1]
    assert abs(law - last).max() > 0.05


def named(name):
    sampler = SAMPLERS[name]
    if installed_version(sampler.package) is None:
        pytest.skip(f"{sampler.package} is not installed")
    return sampler


EXACT = [
    (name, dtype)
    for name, sampler in SAMPLERS.items()
    for dtype in sampler.dtypes
    if sampler.lookup or (sampler.race and dtype in sampler.race.dtypes)
]


@pytest.mark.distribution
@pytest.mark.parametrize(("name", "dtype"), EXACT)
def test_draws_follow_the_law(name, dtype):
    sampler, row = named(name), make_row("heavy", 32)
    law = exact_law(sampler, row, dtype)
    tokens = sampler.draw(row, dtype, 200_000, 7)
    counts = np.bincount(tokens, minlength=32)

    def rejects(other):
        g2 = stats.transition_g2(counts[None], other[None] / other.sum())
        return stats.g2_test(g2, alpha=1e-9).rejected

    assert not rejects(law)
    # Control: .01 of the mass lies elsewhere.
    assert rejects(law + 0.01 * (np.arange(32) == 3))


@pytest.mark.distribution
def test_bfloat16_draws_of_jax_follow_their_law_and_not_the_row():
    sampler, row = named("jax.random.categorical"), make_row("flat", 200)
    counts = np.bincount(sampler.draw(row, "bfloat16", 100_000, 3), minlength=200)

    def rejects(law):
        return stats.g2_test(stats.transition_g2(counts[None], law[None]), alpha=1e-9).rejected

    assert not rejects(exact_law(sampler, row, "bfloat16"))
    assert rejects(row)


@pytest.mark.parametrize(("name", "dtype"), EXACT)
def test_a_sampler_that_is_known_is_judged_exactly(name, dtype):
    judged = judge_row(named(name), "heavy", dtype, 32, **LIMITS)
    assert (judged.tier, judged.same, judged.samples) == ("exact", judged.compared, 0)
    assert judged.verdict == ("PASS" if judged.tv <= 0.03 else "FAIL")


def test_draws_that_differ_from_what_is_expected_are_sampled():
    sampler = named("numpy.Generator.choice")
    other = Lookup(sampler.lookup.bits, sampler.lookup.index, lambda _d, n, _s: np.full(n, 0.5))
    judged = judge_row(replace(sampler, lookup=other), "heavy", "float64", 32, **LIMITS)
    assert judged.tier == "sampled"
    assert judged.same < judged.compared
    assert judged.verdict == "PASS"


def test_fewer_draws_are_compared_where_each_reads_the_row(monkeypatch):
    monkeypatch.setattr(judge, "MAX_COMPARED_NUMBERS", 32_000)
    sampler = named("numpy.Generator.choice")
    scanning = replace(sampler, lookup=replace(sampler.lookup, scans=True))
    compared = [
        judge_row(one, "heavy", "float64", 32, **LIMITS).compared for one in (sampler, scanning)
    ]
    assert compared == [32_000, 1_000]


def drawing(law):
    """Return a sampler that emits ``law``, whatever it is given."""

    def draw(_row, _dtype, count, seed):
        return np.random.default_rng(seed).choice(len(law), size=count, p=law)

    return Sampler("mine", "", ("float64",), "in some way", lambda row, _dtype: row, draw)


@pytest.mark.distribution
def test_a_sampler_of_another_law_fails():
    row = make_row("heavy", 32)
    assert judge_row(drawing(row), "heavy", "float64", 32, **LIMITS).verdict == "PASS"
    off = row + 0.04 * (np.arange(32) == 31)
    judged = judge_row(drawing(off / off.sum()), "heavy", "float64", 32, **LIMITS)
    assert (judged.tier, judged.verdict, judged.tv) == ("sampled", "FAIL", None)


def test_a_token_that_the_row_excludes_fails_whatever_its_share():
    row = make_row("flat", 32)
    row[5] = 0.0
    row /= row.sum()
    excluding = replace(drawing(make_row("flat", 32)), cast=lambda _row, _dtype: row)
    judged = judge_row(excluding, "flat", "float64", 32, **LIMITS)
    assert judged.verdict == "FAIL"
    assert judged.impossible > 0
    right = replace(drawing(row), cast=lambda _row, _dtype: row)
    assert judge_row(right, "flat", "float64", 32, **LIMITS).impossible is None


def test_too_few_draws_are_inconclusive(monkeypatch):
    monkeypatch.setattr(judge, "MAX_SAMPLED_NUMBERS", 32 * 1_000)
    judged = judge_row(drawing(make_row("heavy", 32)), "heavy", "float64", 32, **LIMITS)
    assert (judged.verdict, judged.samples) == ("INCONCLUSIVE", 1_000)
    assert judged.detectable > 0.03
