"""Verifiers of different build, each right and with a subtle fault: no verdict may be wrong."""

import functools
import itertools
import math
import pickle
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from support.oracles.token_law import INSTANCES, closed_form, distance, norm, residual

from simverify.auditing.enumeration import enumerate_verify
from simverify.symbolic.provenance import CannotEnumerate


def ratios(p, q, x):
    i = np.arange(len(x))
    return p[i, x] / q[i, x]


def finish(p, q, x, k, rng):
    row = p[k] if k == len(x) else residual(p[k], q[k])
    return [*x[:k], rng.choice(len(row), p=row)]


def taken_along_an_axis(p, q, x, rng, wrong):
    index = np.asarray(x)[:, None]
    ratio = np.take_along_axis(p[:-1], index, 1) / np.take_along_axis(q, index, 1)
    accepted = rng.random((len(x), 1)) < ratio
    k = len(x) if accepted.all() else int(np.argmax(~accepted))
    return finish(p, np.roll(q, 1, axis=0) if wrong else q, x, k, rng)


def chosen_by_where(p, q, x, rng, wrong):
    ratio = ratios(p, q, x)
    accepted = np.where(ratio >= 1, True, rng.random(len(x)) < ratio * (1.0001 if wrong else 1))
    return finish(p, q, x, np.where(~np.append(accepted, False))[0][0], rng)


def mask_multiplied(p, q, x, rng, wrong):
    accepted = (rng.random(len(x)) <= ratios(p, q, x)).astype(int)
    return finish(p, q, x, int(accepted.sum() if wrong else np.cumprod(accepted).sum()), rng)


def first_of_a_mask(p, q, x, rng, wrong):
    rejected = rng.uniform(0, 1, size=(len(x),)) > ratios(p, q, x)
    none = not rejected.any() and not wrong
    return finish(p, q, x, len(x) if none else int(rejected.argmax()), rng)


def accumulated(p, q, x, rng, wrong):
    with np.errstate(divide="ignore"):
        accepted = np.log(rng.random(len(x))) < np.log(ratios(p, q, x)) * (1.001 if wrong else 1)
    return finish(p, q, x, int(np.logical_and.accumulate(accepted).sum()), rng)


def summed_by_einsum(p, q, x, rng, wrong):
    hot = np.eye(p.shape[1])[x]
    ratio = np.einsum("iv,iv->i", p[:-1], hot) / np.einsum("iv,iv->i", q, hot)
    rejected = rng.random(len(x)) >= ratio * (1.001 if wrong else 1)
    return finish(p, q, x, int((np.cumsum(rejected) == 0).sum()), rng)


def comprehension(p, q, x, rng, wrong):
    uniforms = [rng.random() for _ in x]
    kept = itertools.takewhile(
        bool, [u < r for u, r in zip(uniforms, ratios(p, q, x), strict=True)]
    )
    k = len(list(kept))
    if k < len(x) and wrong:
        return [*x[:k], int((np.cumsum(residual(p[k], q[k])) <= uniforms[k]).sum())]
    return finish(p, q, x, k, rng)


def recursive(p, q, x, rng, wrong):
    def go(i):
        if i == len(x):
            return [rng.choice(p.shape[1], p=p[i])]
        if rng.random() <= p[i, x[i]] / q[i, x[i]]:
            return [x[i], *go(i + 1)]
        return [rng.choice(p.shape[1], p=p[i] if wrong else residual(p[i], q[i]))]

    return go(0)


def generated(p, q, x, rng, wrong):
    def emit():
        for i, y in enumerate(x):
            if rng.random() >= p[i][y] / q[i][y]:
                yield rng.choice(len(p[i]), p=residual(p[i], q[i]))
                return
            yield y
        yield rng.choice(len(p[-1]), p=p[-2] if wrong else p[-1])

    return list(emit())


@dataclass
class State:
    tokens: list = field(default_factory=list)
    u: object = None


def kept_in_a_dataclass(p, q, x, rng, wrong):
    state = State()
    for i, y in enumerate(x):
        state.u = rng.random()
        if state.u >= p[i][y] / q[i][y]:
            state.u = state.u if wrong else rng.random()
            return [*state.tokens, (residual(p[i], q[i]).cumsum() <= state.u).sum()]
        state.tokens.append(y)
    return [*state.tokens, rng.choice(len(p[-1]), p=p[-1])]


def cached_in_a_closure(p, q, x, rng, wrong):
    @functools.cache
    def cdf(i):
        return np.cumsum(p[i] if i == len(x) else residual(p[i], q[i]))

    for i, y in enumerate(x):
        if rng.random() >= p[i][y] / q[i][y]:
            return [*x[:i], np.searchsorted(cdf(0 if wrong else i), rng.random(), "right")]
    return [*x, np.searchsorted(cdf(len(x)), rng.random(), "right")]


def one_draw_for_a_slot(p, q, x, rng, wrong):
    for i, y in enumerate(x):
        a = min(1.0, p[i][y] / q[i][y])
        rest = np.maximum(p[i] - q[i], 0)
        rest = p[i] if wrong or rest.sum() == 0 else norm(rest)
        z = rng.choice(len(rest) + 1, p=np.append((1 - a) * rest, a))
        if z < len(rest):
            return [*x[:i], z]
    return [*x, rng.choice(len(p[-1]), p=p[-1])]


def one_uniform_for_all(p, q, x, rng, wrong):
    u = rng.random()
    for i, y in enumerate(x):
        a = min(1.0, p[i][y] / q[i][y])
        if u >= a:
            cdf = np.cumsum(residual(p[i], q[i]))
            return [*x[:i], np.searchsorted(cdf, (u - a) / (1 - a), side="right")]
        u = u if wrong else u / a
    return [*x, np.searchsorted(np.cumsum(p[-1]), u, side="right")]


def by_exception(p, q, x, rng, wrong):
    tokens = []
    try:
        for y, a, b in zip(x, p, q, strict=False):
            if (u := rng.random()) > a[y] / b[y]:
                raise LookupError(a, b, u)
            tokens.append(y)
    except LookupError as rejection:
        a, b, _ = rejection.args
        row = norm(np.abs(a - b)) if wrong else residual(a, b)
        return [*tokens, rng.choice(len(a), p=row)]
    return [*tokens, rng.choice(len(p[-1]), p=p[-1])]


def matched(p, q, x, rng, wrong):
    for i, y in enumerate(x):
        match bool(rng.random() < p[i][y] / q[i][y]):
            case False:
                row = residual(p[i], q[0 if wrong else i])
                return [*x[:i], rng.choice(len(row), p=row)]
    return [*x, rng.choice(len(p[-1]), p=p[-1])]


RULES = [
    taken_along_an_axis, chosen_by_where, mask_multiplied, first_of_a_mask, accumulated,
    summed_by_einsum, comprehension, recursive, generated, kept_in_a_dataclass,
    cached_in_a_closure, one_draw_for_a_slot, one_uniform_for_all, by_exception, matched,
]  # fmt: skip


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_build_gets_its_verdict(rule, wrong):
    worst = 0.0
    for p, q, drafted in INSTANCES.values():
        law = enumerate_verify(lambda *given: rule(*given, wrong), p, q, drafted)
        worst = max(worst, distance(law.probabilities, closed_form(p, q, drafted)))
    assert worst > 1e-5 if wrong else worst < 1e-14


# -- what turns a draw into something else is named for what it is --

NAMED = {
    "the exact value of a draw (Fraction, as_integer_ratio)": lambda u: Fraction(u),
    "formatting of a draw": lambda u: f"{u:.3f}",
    "str() of a draw": lambda u: str(u),
    "hash() of a draw (in a set, as a key, in a cache)": lambda u: {u},
    "pickling of a draw": lambda u: pickle.dumps(u),
    ".hex of a draw": lambda u: u.hex(),
    ".tobytes of a draw": lambda u: np.float64(u).tobytes(),
    "complex() of a draw": lambda u: complex(u),
    "float() of a draw": lambda u: math.cos(u),
}


@pytest.mark.parametrize("what", NAMED)
def test_a_draw_made_into_something_else_is_named_with_its_line(what):
    p, q, drafted = INSTANCES["compact"]

    def rule(p, q, x, rng):
        NAMED[what](rng.random())
        return [0]

    with pytest.raises(CannotEnumerate) as refusal:
        enumerate_verify(rule, p, q, drafted)
    assert refusal.value.call == what
    assert refusal.value.where == f"{__file__}:{NAMED[what].__code__.co_firstlineno}"
