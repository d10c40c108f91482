"""Draws that are rounded or integers keep their steps; what cannot be followed is named."""

import functools
import math
import os
import re
import secrets
import uuid

import numpy as np
import pytest
from support.oracles.token_law import INSTANCES

from simverify.auditing.enumeration import enumerate_verify
from simverify.symbolic.provenance import CannotEnumerate


def test_a_draw_can_be_indexed_as_numpy_scalars_are_and_not_iterated():
    p, q, drafted = INSTANCES["compact"]
    law = enumerate_verify(
        lambda p, q, x, rng: (rng.uniform(size=())[..., None] < [0.25]).astype(int), p, q, drafted
    )
    assert law.probabilities == {(0,): 0.75, (1,): 0.25}
    law = enumerate_verify(lambda p, q, x, rng: [*rng.uniform(size=()), 0], p, q, drafted)
    assert (law.lost, [f.kind for f in law.findings]) == (1.0, ["raises"])
    law = enumerate_verify(lambda p, q, x, rng: rng.random(), p, q, drafted)
    assert (law.lost, [f.kind for f in law.findings]) == (1.0, ["shape"])


@functools.cache
def remembered(u):
    return u


CANNOT = {
    "os.urandom": lambda rng: uuid.uuid4().int % 2,
    "secrets.token_bytes": lambda rng: secrets.token_bytes(1)[0] < 9,
    "os.fork": lambda rng: (os.fork() or os._exit(0)) < 9,
    "bytes() of a generator": lambda rng: rng.bytes(1)[0] < 9,
    "hash": lambda rng: remembered(rng.random()) < 0.5,
}


@pytest.mark.parametrize("what", CANNOT)
def test_what_cannot_be_followed_is_named(what):
    p, q, drafted = INSTANCES["compact"]
    with pytest.raises(CannotEnumerate, match=re.escape(what)) as refusal:
        enumerate_verify(lambda *given: [int(CANNOT[what](given[-1]))], p, q, drafted)
    assert refusal.value.where.startswith(f"{__file__}:")


# -- random integers are compared without a path for each --


@pytest.mark.parametrize("n", [100, 256, 4096, 10**6, 2**24])
@pytest.mark.parametrize(
    ("condition", "share"),
    [
        (lambda k, n: k < 0.3 * n, lambda n: math.ceil(0.3 * n) / n),
        (lambda k, n: k <= 7, lambda n: 8 / n),
        (lambda k, n: k < 7, lambda n: 7 / n),
        (lambda k, n: k > 7, lambda n: (n - 8) / n),
        (lambda k, n: n - 1 - k <= 7, lambda n: 8 / n),
        (lambda k, n: -k < -7, lambda n: (n - 8) / n),
        (lambda k, n: k / (n - 1) <= 0.5, lambda n: ((n - 1) // 2 + 1) / n),
        (lambda k, n: k == 12, lambda n: 1 / n),
        (lambda k, n: k != 12, lambda n: 1 - 1 / n),
        (lambda k, n: not k, lambda n: 1 / n),
    ],
)
def test_a_random_integer_counts_its_steps(n, condition, share):
    p, q, drafted = INSTANCES["compact"]
    law = enumerate_verify(
        lambda p, q, x, rng: [int(bool(condition(rng.integers(n), n)))], p, q, drafted
    )
    assert law.probabilities[(1,)] == pytest.approx(share(n), abs=1e-15)
    assert law.paths <= 3


STEPS = {
    "a uniform of 8 bits": (lambda u: np.floor(u * 256) / 256 < 0.3, 77 / 256),
    "rounded": (lambda u: round(u, 2) <= 0.3, 0.305),
    "np.round": (lambda u: np.round(u, 2) < 0.3, 0.295),
    "array rounded": (lambda u: np.round(u * np.ones(2), 2)[1] < 0.3, 0.295),
    "cells": (lambda u: (u * 1000) // 10 <= 3, 0.04),
}


@pytest.mark.parametrize("what", STEPS)
def test_a_rounded_uniform_keeps_its_steps(what):
    p, q, drafted = INSTANCES["compact"]
    function, due = STEPS[what]
    law = enumerate_verify(lambda p, q, x, rng: [int(bool(function(rng.random())))], p, q, drafted)
    assert law.probabilities[(1,)] == pytest.approx(due, abs=1e-14)
    assert law.paths == 2


def test_a_random_integer_is_an_index_too():
    p, q, drafted = INSTANCES["compact"]
    table = [0] * 60 + [1] * 40
    law = enumerate_verify(lambda p, q, x, rng: [table[99 - rng.integers(100)]], p, q, drafted)
    assert law.probabilities == pytest.approx({(0,): 0.6, (1,): 0.4})
