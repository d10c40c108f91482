"""Compiled kernels that draw are named, with the line that calls them."""

import inspect
import warnings

import numpy as np
import pytest

from simverify.auditing.enumeration import enumerate_verify
from simverify.symbolic.bindings import compiled_calls
from simverify.symbolic.provenance import CannotEnumerate

torch = pytest.importorskip("torch")

ROWS = np.full((2, 3), 1 / 3)


def scripted(p: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(p, 1)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    scripted = torch.jit.script(scripted)


def in_torch(p, q, x, rng):
    return [int(scripted(torch.tensor(p[0])))]


def helper():
    return int(scripted(torch.ones(2)))


def in_helper(p, q, x, rng):
    return [helper()]


def in_closure(kernel):
    return lambda p, q, x, rng: [int(kernel(torch.ones(2)))]


class InMethod:
    def __call__(self, p, q, x, rng):
        return [int(scripted(torch.ones(2)))]


NAMED = {
    "TorchScript": (in_torch, in_torch, 1),
    "a helper": (in_helper, helper, 1),
    "a closure": (in_closure(scripted), in_closure, 1),
    "a method": (InMethod(), InMethod, 2),
}


@pytest.mark.parametrize("what", NAMED)
def test_the_kernel_is_named_with_its_line(what):
    rule, place, below = NAMED[what]
    with pytest.raises(CannotEnumerate, match="not tracked") as refusal:
        enumerate_verify(rule, ROWS, ROWS[:1], [0])
    assert refusal.value.call.endswith("Compiled code cannot be followed: TorchScript's scripted()")
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
        return [0 * int(scripted(torch.ones(1))) + int(rng.bytes(1)[0] < 9)]

    assert [kernel for kernel, _ in compiled_calls(rule)] == ["TorchScript's scripted()"]
    with pytest.raises(CannotEnumerate) as refusal:
        enumerate_verify(rule, ROWS, ROWS[:1], [0])
    assert refusal.value.call == "bytes() of a generator"
