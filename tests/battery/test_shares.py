"""Every test's share of the false-alarm rate, and that all of a run stay below it."""

import math

import pytest

from simverify.battery.shares import (
    callable_shares,
    context_shares,
    kernel_shares,
    output_shares,
    pit_shares,
)

RATE = 1e-6
MANY = {"transitions": 4, "positions": 1, "rare": 1}

# What splits, its weights as they must be to each other, and the names among them that are a
# quarter together, beside a half for the likelihood ratios and a quarter for the scores.
SPLITS = {
    "kernel": (
        lambda: kernel_shares(RATE, calls=False),
        {"output": 6, "lossy": 1, "acceptance": 1},
        {"ratios": 1 / 2, "scores": 1 / 4},
    ),
    "kernel, with calls": (
        lambda: kernel_shares(RATE, calls=True),
        {"output": 6, "lossy": 1, "acceptance": 1, "calls": 1},
        {"ratios": 1 / 2, "scores": 1 / 4},
    ),
    "contexts": (lambda: context_shares(RATE), {**MANY, "pairs": 0.5}, {}),
    "PITs": (
        lambda: pit_shares(RATE, cells=False),
        {"pits": 4, "descending": 0.5, "pairs": 0.5},
        {},
    ),
    "PITs and cells": (
        lambda: pit_shares(RATE, cells=True),
        {"pits": 4, "descending": 0.5, "pairs": 0.5, "coarse": 1, "fine": 1},
        {},
    ),
    "real models": (
        lambda: output_shares(RATE),
        {"pits": 4, "pairs": 1, "acceptance": 1},
        {"ratios": 1 / 2, "scores": 1 / 4},
    ),
    "callables": (
        lambda: callable_shares(RATE),
        {**MANY, "joint": 2, "independence": 3, "acceptance": 1, "optimality": 1},
        {"gate": 1 / 4, "ratios": 1 / 4, "scores": 1 / 4},
    ),
}


@pytest.mark.parametrize(("split", "weights", "battery"), SPLITS.values(), ids=SPLITS)
def test_a_split_is_whole_and_as_weighted(split, weights, battery):
    shares = split()
    assert math.fsum(shares.values()) <= RATE
    assert math.fsum(shares.values()) == pytest.approx(RATE, rel=1e-12)
    assert all(share > 0 for share in shares.values())
    first = next(iter(weights))
    for name, weight in weights.items():
        assert shares[name] / shares[first] == pytest.approx(weight / weights[first], rel=1e-12)
    for name, part in battery.items():
        assert shares[name] == pytest.approx(part * RATE, rel=1e-12)
    rest = set(shares) - set(battery)
    assert rest == set(weights)
    assert math.fsum(shares[name] for name in rest) == pytest.approx(
        RATE / 4 if battery else RATE, rel=1e-12
    )


def test_what_is_split_inside_a_share_stays_in_it():
    for calls in (False, True):
        output = kernel_shares(RATE, calls=calls)["output"]
        inside = [context_shares(output), *(pit_shares(output, cells=x) for x in (False, True))]
        for split in inside:
            assert 0.99 * output < math.fsum(split.values()) <= output
