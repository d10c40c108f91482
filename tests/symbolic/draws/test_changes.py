"""Where values of a grid change: found near where a form says, and wherever it is wrong."""

import math

import numpy as np
import pytest

from simverify import exact_law
from simverify.symbolic import CannotEnumerate
from simverify.symbolic.draw import guess_point
from simverify.symbolic.forms import (
    DOUBLE_POINTS,
    DOUBLE_UNIFORM,
    GUESS_RADIUS,
    IDENTITY_FORM,
    PYTHON_UNIFORM,
    find_boundary,
    integer_machine,
)
from simverify.symbolic.integers import _machine_key, value_runs

FORMS = {
    "rising": IDENTITY_FORM.affine(17.0, -3.5),
    "falling": IDENTITY_FORM.affine(-5.0, 0.25),
    "an exponential": IDENTITY_FORM.log().affine(-3.0, 0.0),
    "noise": IDENTITY_FORM.log().affine(-1.0, 0.0).log().affine(-2.0, 0.5),
}
OFF = (0, 3, -5, 10**6, -(2**40), math.nan, math.inf)
LAST = DOUBLE_POINTS - 64  # at the end the noise is infinite


def counted(form, asked):
    """The floor of a form at each point, with a count of the points that are asked for."""

    def value(point):
        asked.append(point)
        return math.floor(form.value((point + 0.5) / DOUBLE_POINTS))

    return value


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize("name", FORMS)
def test_a_guess_that_is_off_changes_nothing(name, off):
    form, asked = FORMS[name], []
    value = counted(form, asked)
    plain = value_runs(value, 1, LAST, 4096)
    without = len(asked)
    asked.clear()
    step = form.floor()
    guess = lambda x, y: guess_point(step, (x + y) / 2, DOUBLE_POINTS) + off  # noqa: E731
    assert value_runs(value, 1, LAST, 4096, guess) == plain
    assert len(plain) > 5
    if abs(off) < GUESS_RADIUS:
        assert len(asked) < 8 * len(plain) < without / 3


@pytest.mark.parametrize("off", OFF)
def test_a_bound_is_found_from_any_guess(off):
    form = FORMS["an exponential"]
    holds = lambda point: form.value((point + 0.5) / DOUBLE_POINTS) < 1.7  # noqa: E731
    plain = find_boundary(holds, 1, LAST)
    assert find_boundary(holds, 1, LAST, guess_point(form, 1.7, DOUBLE_POINTS) + off) == plain
    # Monotone: it holds on one side alone.
    assert holds(plain[0]) != holds(plain[0] - 1) == plain[1]


def test_machines_of_one_name_do_the_same():
    """What was found for one is taken for another: not where a type or a sign differs."""

    def name(machine, other):
        return _machine_key(machine.then(IDENTITY_FORM, np.multiply, other))

    assert name(PYTHON_UNIFORM, 3) == name(PYTHON_UNIFORM, 3) is not None
    different = [name(m, x) for m in (PYTHON_UNIFORM, DOUBLE_UNIFORM)
                 for x in (3, 3.0, np.float32(3), np.float64(3), -3)]  # fmt: skip
    different += [
        name(PYTHON_UNIFORM, 0.0),
        name(PYTHON_UNIFORM, -0.0),
        name(PYTHON_UNIFORM, np.float32(0.1)),
        name(PYTHON_UNIFORM, 0.1),
    ]
    assert len(set(different)) == len(different)
    assert name(PYTHON_UNIFORM, np.ones(2)) is None
    assert name(integer_machine(0, 40, int), 3) == name(integer_machine(0, 40, int), 3) is not None
    integers = [name(integer_machine(*what), 3) for what in
                ((0, 40, int), (1, 40, int), (0, 41, int), (0, 40, np.uint8))]  # fmt: skip
    assert len(set(integers)) == len(integers)
    # What a caller counts with is not kept.
    assert name(integer_machine(0, 40, lambda k: int(k)), 3) is None


# Arrays of draws in lists, handed to numpy's functions.


DECIDED_IN_LISTS = {
    "lexsort": lambda a: int(np.lexsort((a, a))[0]),
    "block": lambda a: float(np.block([[a, a], [a, a]])[1, 2]),
    "select": lambda a: float(np.select([a > 2, a > 1], [a, -a])[2]),
    "histogramdd": lambda a: float(np.histogramdd([a, a], bins=2)[0][0, 0]),
}


@pytest.mark.parametrize("name", DECIDED_IN_LISTS)
def test_arrays_of_draws_whose_draws_are_decided_go_into_functions_in_lists(name):
    read = DECIDED_IN_LISTS[name]
    held = np.array([3.0, 1.0, 2.0])

    def program(rng):
        return read(np.stack([rng.standard_exponential(3), held])[1])

    assert exact_law(program) == {read(held): 1.0}


def test_draws_in_lists_are_refused_by_name():
    with pytest.raises(CannotEnumerate, match=r"np\.lexsort of draws"):
        exact_law(lambda rng: int(np.lexsort((rng.standard_exponential(3),))[0]))
