"""Where single values have a probability, what happens at the 0 of a grid happens that often."""

import math

import numpy as np
import pytest

from simverify import exact_law

torch = pytest.importorskip("torch")


def raising(function):
    def outcome(rng):
        try:
            return function(rng) > 0
        except (ValueError, ZeroDivisionError):
            return "raises"

    return outcome


RAISES = {
    "log of an integer": (lambda rng: math.log(rng.integers(0, 1000)) + 1, 1 / 1000),
    "log of a part": (lambda rng: 9 - math.log(rng.integers(0, 1000) / 1000), 1 / 1000),
    "log at the other end": (lambda rng: 1 + math.log(999 - rng.integers(0, 1000)), 1 / 1000),
    "log of a floor": (lambda rng: math.log(math.floor(rng.random() * 40)) + 1, 1 / 40),
    "log of a randbelow": (lambda rng: math.log(int(rng.random() * 5000)) + 1, 1 / 5000),
}


@pytest.mark.parametrize("what", RAISES)
def test_an_operation_raises_as_often_as_its_draw_is_0(what):
    function, due = RAISES[what]
    assert exact_law(raising(function)) == pytest.approx({"raises": due, True: 1 - due})


INFINITE = {
    "log of integers": (lambda rng: np.isinf(np.log(rng.integers(0, 100, size=1)))[0], 1 / 100),
    "log of a floor": (lambda rng: np.isinf(np.log(np.floor(rng.random() * 40))), 1 / 40),
    "not finite": (lambda rng: not np.isfinite(1 / np.float64(rng.integers(0, 100))), 1 / 100),
    "math": (lambda rng: math.isinf(1 / np.float64(rng.integers(0, 100))), 1 / 100),
    "torch, float16": (
        lambda rng: torch.isinf(torch.log(torch.rand(1, dtype=torch.half)))[0].item(),
        1 / 4096,
    ),
    "a double": (lambda rng: np.isinf(np.log(rng.random())), 0.0),
    "finite in any case": (lambda rng: np.isinf(rng.integers(0, 100) / 100), 0.0),
}


@pytest.mark.parametrize("what", INFINITE)
def test_a_draw_is_infinite_as_often_as_it_is(what):
    function, due = INFINITE[what]
    law = exact_law(lambda rng: bool(function(rng)))
    assert float(law.get(True, 0)) == pytest.approx(due, rel=1e-3)


def test_infinity_times_a_draw_is_no_number_where_the_draw_is_0():
    nan = exact_law(lambda rng: bool(np.isnan(rng.integers(0, 100) * np.inf)))
    assert nan == pytest.approx({False: 0.99, True: 0.01})
