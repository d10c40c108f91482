"""Compiled kernels that draw are named, with the line that calls them."""

import inspect
import warnings

import numba
import numpy as np
import pytest

from simverify.auditing.enumeration import enumerate_verify
from simverify.symbolic.bindings import compiled_calls
from simverify.symbolic.provenance import CannotEnumerate

torch = pytest.importorskip("torch")

ROWS = np.full((2, 3), 1 / 3)


@numba.njit
def kernel():
    return np.random.random()  # noqa: NPY002


@numba.njit
def ratio(a, b):
    return a / b


def scripted(p: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(p, 1)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    scripted = torch.jit.script(scripted)


def in_numba(p, q, x, rng):
    return [int(kernel() < 0.5)]


def in_torch(p, q, x, rng):
    return [int(scripted(torch.tensor(p[0])))]


def helper():
    return int(kernel() < 0.5)


def in_helper(p, q, x, rng):
    return [helper()]


def in_closure(kernel):
    return lambda p, q, x, rng: [int(kernel() < 0.5)]


class InMethod:
    def __call__(self, p, q, x, rng):
        return [int(kernel() < 0.5)]


NAMED = {
    "numba": (in_numba, "numba's kernel()", in_numba, 1),
    "TorchScript": (in_torch, "TorchScript's scripted()", in_torch, 1),
    "a helper": (in_helper, "numba's kernel()", helper, 1),
    "a closure": (in_closure(kernel), "numba's kernel()", in_closure, 1),
    "a method": (InMethod(), "numba's kernel()", InMethod, 2),
}


@pytest.mark.parametrize("what", NAMED)
def test_the_kernel_is_named_with_its_line(what):
    rule, name, place, below = NAMED[what]
    with pytest.raises(CannotEnumerate, match="not tracked") as refusal:
        enumerate_verify(rule, ROWS, ROWS[:1], [0])
    assert refusal.value.call.endswith(f"Compiled code cannot be followed: {name}")
    line = inspect.getsourcelines(place)[1] + below
    assert refusal.value.where == f"{__file__}:{line}"


def test_state_without_a_kernel_blames_none():
    calls = []

    def rule(p, q, x, rng):
        calls.append(rng.random() < 0.5)
        return [len(calls) % 2]

    with pytest.raises(CannotEnumerate, match="state kept between calls") as refusal:
        enumerate_verify(rule, ROWS, ROWS[:1], [0])
    assert "Compiled" not in refusal.value.call


def test_state_that_sends_a_path_elsewhere_is_named_as_state():
    class Lenient:
        """Accepts more easily after acceptances."""

        recent = 0

        def __call__(self, p, q, x, rng):
            if rng.random() < 0.5 + 0.01 * min(self.recent, 5):
                self.recent += 1
                return [0]
            self.recent = 0
            return [1]

    with pytest.raises(CannotEnumerate, match="state kept between calls"):
        enumerate_verify(Lenient(), ROWS, ROWS[:1], [0])


def test_another_refusal_stays_as_it_is():
    def rule(p, q, x, rng):
        return [int(ratio(1.0, 2.0)) + int(rng.bytes(1)[0] < 9)]

    assert [kernel for kernel, _ in compiled_calls(rule)] == ["numba's ratio()"]
    with pytest.raises(CannotEnumerate) as refusal:
        enumerate_verify(rule, ROWS, ROWS[:1], [0])
    assert refusal.value.call == "bytes() of a generator"
