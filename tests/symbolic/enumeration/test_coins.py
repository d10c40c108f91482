"""Ways to accept a token and to draw one, each right and with a fault: no verdict may be wrong."""

import bisect
import heapq
import itertools
import math
import operator
import random
import secrets

import numba
import numpy as np
import pytest
from scipy import stats
from support.oracles.token_law import INSTANCES, closed_form, distance, residual

from simverify.auditing.enumeration import enumerate_verify
from simverify.symbolic.engine import BY_SOURCE

SYSTEM = random.SystemRandom()
STATE = np.random.RandomState(5)
jitted_ratio = numba.njit(lambda a, b: min(1.0, a / b))


def tail(a, b):
    """1 - a/b, at least 0."""
    return max(0.0, 1 - a / b)


# How each accepts with probability min(1, a/b); k is 1, or a little more.
ACCEPT = {
    "scipy": lambda a, b, k, rng: stats.bernoulli.rvs(min(1, k * a / b), random_state=rng) == 1,
    "scipy's own": lambda a, b, k, rng: stats.uniform.rvs() < k * a / b,
    "float32 uniform": lambda a, b, k, rng: rng.random(dtype=np.float32) < k * a / b,
    "cast to float32": lambda a, b, k, rng: rng.random(1).astype(np.float32)[0] < k * a / b,
    "np.float64(u)": lambda a, b, k, rng: np.float64(rng.random()) < k * a / b,
    "exp of an exponential": lambda a, b, k, rng: np.exp(-rng.standard_exponential()) < k * a / b,
    "logs": lambda a, b, k, rng: a > 0 and math.log(rng.random()) < math.log(k * a) - math.log(b),
    "log1p": lambda a, b, k, rng: np.log1p(-rng.random()) > np.log(max(1 - k * a / b, 1e-300)),
    "u q <= p": lambda a, b, k, rng: rng.random() * b <= k * a,
    "square": lambda a, b, k, rng: rng.random() ** 2 < (k * a / b) ** 2,
    "math.pow": lambda a, b, k, rng: math.pow(rng.random(), 3) < math.pow(k * a / b, 3),
    "square root": lambda a, b, k, rng: math.sqrt(rng.random()) < math.sqrt(k * a / b),
    "distance": lambda a, b, k, rng: abs(rng.random() - 0.5) < k * a / b / 2,
    "math.fabs": lambda a, b, k, rng: math.fabs(2 * rng.random() - 1) < k * a / b,
    "fsum": lambda a, b, k, rng: math.fsum([rng.random(), -k * a / b]) < 0,
    "32 bits": lambda a, b, k, rng: rng.integers(0, 2**32, dtype=np.uint32) / 2**32 < k * a / b,
    "shifted bits": lambda a, b, k, rng: (
        (rng.integers(2**64, dtype=np.uint64) >> 11) * 2.0**-53 < k * a / b
    ),
    "secrets": lambda a, b, k, rng: secrets.randbits(53) * 2.0**-53 < k * a / b,
    "system": lambda a, b, k, rng: SYSTEM.random() <= k * a / b,
    "getrandbits": lambda a, b, k, rng: random.getrandbits(60) < k * a / b * 2**60,
    "choice of two": lambda a, b, k, rng: rng.choice(
        [True, False], p=[min(1, k * a / b), 1 - min(1, k * a / b)]
    ),
    "compiled ratio": lambda a, b, k, rng: rng.random() < jitted_ratio(k * a, b),
    "np.vectorize": lambda a, b, k, rng: np.vectorize(lambda u, r: u < r)(
        rng.random(2), k * a / b
    )[1],
    "array filled": lambda a, b, k, rng: fill(np.empty(2), rng)[1] < k * a / b,
    "zeros filled": lambda a, b, k, rng: (fill(np.zeros((1, 2))[0], rng) < k * a / b)[0],
    "out=": lambda a, b, k, rng: rng.random(out=np.empty(1))[0] < k * a / b,
    "fromiter": lambda a, b, k, rng: (
        np.fromiter((rng.random() for _ in "ab"), float) < k * a / b
    ).tolist()[1],
    "np.array": lambda a, b, k, rng: np.array([rng.random()], dtype=np.float64)[0] < k * a / b,
    "recycled": lambda a, b, k, rng: recycled(rng.random(), tail(k * a, b)),
}  # fmt: skip


def fill(u, rng):
    for i in range(len(u)):
        u[i] = rng.random()
    return u


def recycled(u, t):
    """Rejects first with probability t/2, then with what is left."""
    if u < t / 2:
        return False
    u = (u - t / 2) / (1 - t / 2)
    return u >= (t / 2) / (1 - t / 2)


def alias_table(w):
    n, scaled = len(w), w * len(w)
    keep, other = np.ones(n), np.arange(n)
    small = [i for i in range(n) if scaled[i] < 1]
    large = [i for i in range(n) if scaled[i] >= 1]
    while small and large:
        i, j = small.pop(), large.pop()
        keep[i], other[i] = scaled[i], j
        scaled[j] -= 1 - scaled[i]
        (small if scaled[j] < 1 else large).append(j)
    return keep, other


def alias(w, cell, part):
    keep, other = alias_table(w)
    return cell if part < keep[cell] else int(other[cell])


def by_rejection(w, rng):
    for _ in range(5):
        y = int(rng.integers(len(w)))
        if rng.random() < w[y] / w.max():
            return y
    return int(rng.choice(len(w), p=w))


def gumbel_loop(w, rng):
    keys = {y: -math.log(-math.log(rng.random())) + math.log(m) for y, m in enumerate(w) if m > 0}
    return max(keys, key=keys.__getitem__)


def shuffled_order(w, rng):
    order = rng.permutation(len(w))
    return order[min(np.searchsorted(np.cumsum(w[order]), rng.random()), len(w) - 1)]


def from_the_end(w, rng):
    u = rng.random()
    for y in range(len(w) - 1, -1, -1):
        u -= w[y]
        if u < 0:
            return y
    return int(np.flatnonzero(w)[0])


def race(w, rng):
    heap = [(rng.exponential() / m, y) for y, m in enumerate(w) if m > 0]
    heapq.heapify(heap)
    return heap[0][1]


def first_arrival(w, rng):
    with np.errstate(divide="ignore"):
        times = rng.standard_exponential(len(w)) / w
    return np.flatnonzero(times == np.minimum.reduce(times))[0]


# How each draws a token from weights w that sum to 1.
DRAW = {
    "scipy": lambda w, rng: stats.multinomial.rvs(1, w, random_state=rng).argmax(),
    "scipy's own": lambda w, rng: stats.multinomial.rvs(1, w).argmax(),
    "rv_discrete": lambda w, rng: stats.rv_discrete(values=(range(len(w)), w)).rvs(
        random_state=rng
    ),
    "digitize": lambda w, rng: np.digitize(rng.random(), np.cumsum(w)[:-1]),
    "count below": lambda w, rng: int((np.add.accumulate(w)[:-1] <= rng.random()).sum()),
    "bisect": lambda w, rng: bisect.bisect_right(
        list(itertools.accumulate(w))[:-1], random.random()
    ),
    "cum_weights": lambda w, rng: random.choices(
        range(len(w)), cum_weights=list(itertools.accumulate(w.tolist()))
    )[0],
    "system": lambda w, rng: SYSTEM.choices(range(len(w)), weights=w)[0],
    "state": lambda w, rng: STATE.multinomial(1, w).argmax(),
    "counts": lambda w, rng: max(enumerate(rng.multinomial(1, w)), key=operator.itemgetter(1))[0],
    "comprehension": lambda w, rng: (
        lambda u: [sum(w[:y]) <= u < sum(w[: y + 1]) for y in range(len(w))].index(True)
    )(rng.random() * (1 - 1e-15)),
    "masked row": lambda w, rng: np.searchsorted(
        np.cumsum(np.ma.masked_less_equal(w, 0).filled(0)), rng.random(), side="right"
    ),
    "histogram": lambda w, rng: np.flatnonzero(
        np.diff([0, *(rng.random() < np.cumsum(w)[:-1]), 1])
    )[0],
    "smallest key": lambda w, rng: min(
        np.flatnonzero(w).tolist(), key=lambda y: random.expovariate(float(w[y]))
    ),
    "argpartition": lambda w, rng: np.argpartition(
        -np.log(np.maximum(w, 1e-300)) - rng.gumbel(size=len(w)), 0
    )[0],
    "two draws of alias": lambda w, rng: alias(w, rng.integers(len(w)), rng.random()),
    "one draw of alias": lambda w, rng: (lambda v: alias(w, int(v), v - int(v)))(
        rng.random() * len(w)
    ),
    "divmod alias": lambda w, rng: (lambda d: alias(w, int(d[0]), d[1]))(
        divmod(rng.random() * len(w), 1)
    ),
    "modf alias": lambda w, rng: (lambda d: alias(w, int(d[1]), d[0]))(
        math.modf(rng.random() * len(w))
    ),
    "rejection": by_rejection,
    "gumbel loop": gumbel_loop,
    "order": shuffled_order,
    "from the end": from_the_end,
    "heap": race,
    "first arrival": first_arrival,
}  # fmt: skip


def verifier(accept, draw):
    def verify(p, q, x, rng):
        for i, y in enumerate(x):
            if not accept(p[i][y], q[i][y], rng):
                return [*x[:i], draw(residual(p[i], q[i]), rng)]
        return [*x, draw(p[-1], rng)]

    # The stand-ins for float are put where the code was written.
    verify.__wrapped__ = fill
    return verify


def deviation(rule):
    worst = 0.0
    for p, q, drafted in INSTANCES.values():
        law = enumerate_verify(rule, p, q, drafted)
        # That compiled code was followed by its source is said of right code too.
        findings = [finding for finding in law.findings if finding.kind != BY_SOURCE]
        assert (law.lost, findings, law.complete) == (0.0, [], True)
        assert law.pruned < 1e-9
        worst = max(worst, distance(law.probabilities, closed_form(p, q, drafted)))
    return worst


def scalar(a, b, rng):
    return rng.random() < a / b


def chosen(w, rng):
    return rng.choice(len(w), p=w)


@pytest.mark.parametrize("how", ACCEPT)
@pytest.mark.thorough
def test_every_way_to_accept(how):
    accept = ACCEPT[how]
    rounding = 2**-32 if how == "32 bits" else 1e-14
    assert deviation(verifier(lambda a, b, rng: accept(a, b, 1.0, rng), chosen)) < rounding
    assert deviation(verifier(lambda a, b, rng: accept(a, b, 1.0001, rng), chosen)) > 1e-5


@pytest.mark.parametrize("how", DRAW)
@pytest.mark.thorough
def test_every_way_to_draw(how):
    def tilted(w, rng):
        w = w + 1e-4 * (w > 0)
        return DRAW[how](w / w.sum(), rng)

    assert deviation(verifier(scalar, DRAW[how])) < 1e-14
    assert deviation(verifier(scalar, tilted)) > 1e-6
