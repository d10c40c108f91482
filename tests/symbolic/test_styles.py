# ruff: noqa: NPY002 -- these are verifiers as users write them
"""The token rule, written the way different people write it, and its law in closed form."""

import bisect
import math
import random
from itertools import accumulate
from random import choices, expovariate, uniform
from random import random as rnd

import numpy as np
import numpy.random as npr
import pytest
from numpy.random import rand
from support.oracles.token_law import INSTANCES, closed_form, distance, residual

from simverify.auditing.enumeration import enumerate_verify


def _scan(p, q, x, accept, draw):
    for i, token in enumerate(x):
        if not accept(p[i][token], q[i][token]):
            return [*x[:i], draw(residual(p[i], q[i]))]
    return [*x, draw(p[-1])]


def scalar(p, q, x, rng):
    return _scan(
        p, q, x, lambda a, b: rng.random() < min(1, a / b), lambda w: rng.choice(len(w), p=w)
    )


def complement(p, q, x, rng):
    return _scan(
        p, q, x, lambda a, b: 1 - rng.random() >= 1 - a / b, lambda w: rng.choice(len(w), p=w)
    )


def scaled(p, q, x, rng):
    return _scan(
        p, q, x, lambda a, b: rng.uniform(0, b) <= a, lambda w: int(rng.multinomial(1, w).argmax())
    )


def in_logs(p, q, x, rng):
    return _scan(
        p,
        q,
        x,
        lambda a, b: math.log(rng.random()) < math.log(a) - math.log(b) if a > 0 else False,
        lambda w: rng.choice(np.arange(len(w)), p=w),
    )


def by_exponential(p, q, x, rng):
    return _scan(
        p,
        q,
        x,
        lambda a, b: -rng.exponential() < np.log(a / b),
        lambda w: int(np.argmin(rng.exponential(size=len(w)) / w)),
    )


def vectorised(p, q, x, rng):
    n = len(x)
    ratio = p[np.arange(n), x] / q[np.arange(n), x]
    accept = rng.random(n) < ratio
    count = n if accept.all() else int(np.argmin(accept))
    row = p[n] if count == n else residual(p[count], q[count])
    return np.append(x[:count], rng.choice(len(row), p=row))


def vectorised_cumprod(p, q, x, rng):
    n = len(x)
    u = rng.random(size=(1, n))
    ratio = np.minimum(1.0, p[np.arange(n), x] / q[np.arange(n), x])[None]
    count = int(np.cumprod((u <= ratio).astype(np.int64), axis=1).sum())
    row = p[n] if count == n else residual(p[count], q[count])
    return [*x[:count], np.searchsorted(np.cumsum(row), rng.random(), side="right")]


def masked(p, q, x, rng):
    n = len(x)
    u = np.asarray(rng.random(n))
    ratio = p[np.arange(n), x] / q[np.arange(n), x]
    rejected = np.where(u > ratio, 1, 0)
    count = int(np.flatnonzero(np.append(rejected, 1))[0])
    row = p[n] if count == n else residual(p[count], q[count])
    return [*x[:count], int((np.cumsum(row) > rng.random()).argmax())]


def log_vectorised(p, q, x, rng):
    n = len(x)
    u = rng.random(n)
    with np.errstate(divide="ignore"):
        rejected = np.log(u) >= np.log(p[np.arange(n), x]) - np.log(q[np.arange(n), x])
    count = next((i for i, r in enumerate(rejected) if r), n)
    row = p[n] if count == n else residual(p[count], q[count])
    with np.errstate(divide="ignore"):
        return [*x[:count], np.argmax(np.log(row) + rng.gumbel(size=len(row)))]


def gumbel_by_hand(p, q, x, rng):
    def draw(w):
        noise = -np.log(-np.log(rng.random(len(w)) + 1e-20) + 1e-20)
        with np.errstate(divide="ignore"):
            return int((np.log(w) + noise).argmax())

    return _scan(p, q, x, lambda a, b: rng.random() * b < a, draw)


def race_of_reciprocals(p, q, x, rng):
    return _scan(
        p,
        q,
        x,
        lambda a, b: rng.random() < a / b,
        lambda w: int(np.argmax(w / rng.standard_exponential(len(w)))),
    )


def python_race(p, q, x, rng):
    def draw(w):
        best, key = None, math.inf
        for y, weight in enumerate(w):
            if weight > 0 and (e := expovariate(float(weight))) < key:
                best, key = y, e
        return best

    return _scan(p, q, x, lambda a, b: rnd() < a / b, draw)


def power_keys(p, q, x, rng):
    def draw(w):
        keys = [random.random() ** (1 / weight) if weight else 0.0 for weight in w]
        return max(range(len(w)), key=keys.__getitem__)

    return _scan(p, q, x, lambda a, b: uniform(0.0, 1.0) < a / b, draw)


def with_choices(p, q, x, rng):
    return _scan(
        p,
        q,
        x,
        lambda a, b: random.random() < a / b,
        lambda w: choices(range(len(w)), weights=w)[0],
    )


def with_bisect(p, q, x, rng):
    def draw(w):
        return bisect.bisect(list(accumulate(w[:-1])), random.random())

    return _scan(p, q, x, lambda a, b: random.Random().random() < a / b, draw)


def inverse_loop(p, q, x, rng):
    def draw(w):
        u, total = rand(), 0.0
        for y, weight in enumerate(w):
            total += weight
            if u < total:
                return y
        return int(np.flatnonzero(w)[-1])

    return _scan(p, q, x, lambda a, b: npr.random_sample() < a / b, draw)


def subtracting(p, q, x, rng):
    def draw(w):
        left = np.random.uniform()
        for y, weight in enumerate(w):
            left -= weight
            if left < 0:
                return y
        return int(np.flatnonzero(w)[-1])

    return _scan(p, q, x, lambda a, b: np.random.rand(1)[0] < a / b, draw)


def own_generator(p, q, x, rng):
    mine = np.random.default_rng()
    return _scan(
        p, q, x, lambda a, b: mine.random() < a / b, lambda w: mine.choice(len(w), size=1, p=w)[0]
    )


MODULE_RNG = np.random.default_rng(7)
MODULE_STATE = np.random.RandomState(7)


def module_generator(p, q, x, rng):
    return _scan(
        p,
        q,
        x,
        lambda a, b: MODULE_RNG.random() < a / b,
        lambda w: MODULE_STATE.choice(len(w), p=w),
    )


def coins(p, q, x, rng):
    return _scan(
        p,
        q,
        x,
        lambda a, b: rng.binomial(1, min(1, a / b)),
        lambda w: np.flatnonzero(rng.multinomial(1, w))[0],
    )


def with_float(p, q, x, rng):
    p, q = np.asarray(p, dtype=float), q.astype(float)
    return _scan(
        p,
        q,
        x,
        lambda a, b: float(rng.random()) < float(a) / float(b) and isinstance(float("1"), float),
        lambda w: int(np.searchsorted(np.cumsum(w), float(rng.random(1)[0]))),
    )


def clipped_noise(p, q, x, rng):
    def draw(w):
        u = np.clip(rng.random(len(w)), 1e-12, 1 - 1e-12)
        with np.errstate(divide="ignore"):
            return int(np.argmax(np.log(w) - np.log(-np.log(u))))

    return _scan(p, q, x, lambda a, b: np.maximum(rng.random(), 1e-12) < a / b, draw)


STYLES = [
    scalar, complement, scaled, in_logs, by_exponential, vectorised, vectorised_cumprod, masked,
    log_vectorised, gumbel_by_hand, race_of_reciprocals, python_race, power_keys, with_choices,
    with_bisect, inverse_loop, subtracting, own_generator, module_generator, coins, clipped_noise,
    with_float,
]  # fmt: skip


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_every_style_has_the_token_rules_law(style, instance):
    p, q, drafted = INSTANCES[instance]
    law = enumerate_verify(style, p, q, drafted)
    due = closed_form(p, q, drafted)
    assert distance(law.probabilities, due) < 1e-12
    assert law.pruned < 1e-10
    assert (law.lost, law.findings, law.complete) == (0.0, (), True)
    # Negative control: the law of the next rows over is a different one.
    other = closed_form(np.roll(p, 1, axis=1), q, drafted)
    assert distance(law.probabilities, other) > 1e-2


def test_the_budget_counts_paths():
    p, q, drafted = INSTANCES["compact"]
    assert enumerate_verify(scalar, p, q, drafted).paths == len(closed_form(p, q, drafted))


def test_everything_is_put_back():
    before = (
        random.random, random.Random.__dict__.get("random"), np.random.rand, np.random.Generator,
        np.random.default_rng, math.log, MODULE_RNG, MODULE_STATE, rnd, rand,
        np.random.mtrand._rand,
    )  # fmt: skip
    p, q, drafted = INSTANCES["compact"]
    enumerate_verify(module_generator, p, q, drafted)
    after = (
        random.random, random.Random.__dict__.get("random"), np.random.rand, np.random.Generator,
        np.random.default_rng, math.log, MODULE_RNG, MODULE_STATE, rnd, rand,
        np.random.mtrand._rand,
    )  # fmt: skip
    assert all(x is y for x, y in zip(before, after, strict=True))
    assert isinstance(random.random(), float)
    assert isinstance(random.Random(3).random(), float)
