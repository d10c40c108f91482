"""Where values of a grid change: found near where a form says, and wherever it is wrong."""

import math

import numpy as np
import pytest

from simverify.symbolic.draws.operands import near
from simverify.symbolic.draws.values.forms import IDENTITY
from simverify.symbolic.draws.values.machine import (
    CLOSE,
    DOUBLE,
    DOUBLE_POINTS,
    PYTHON,
    boundary,
    integers_from,
)
from simverify.symbolic.draws.whole.runs import _name_of, changes

FORMS = {
    "rising": IDENTITY.affine(17.0, -3.5),
    "falling": IDENTITY.affine(-5.0, 0.25),
    "an exponential": IDENTITY.log().affine(-3.0, 0.0),
    "noise": IDENTITY.log().affine(-1.0, 0.0).log().affine(-2.0, 0.5),
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
    plain = changes(value, 1, LAST, 4096)
    without = len(asked)
    asked.clear()
    step = form.floor()
    guess = lambda x, y: near(step, (x + y) / 2, DOUBLE_POINTS) + off  # noqa: E731
    assert changes(value, 1, LAST, 4096, guess) == plain
    assert len(plain) > 5
    if abs(off) < CLOSE:
        assert len(asked) < 8 * len(plain) < without / 3


@pytest.mark.parametrize("off", OFF)
def test_a_bound_is_found_from_any_guess(off):
    form = FORMS["an exponential"]
    holds = lambda point: form.value((point + 0.5) / DOUBLE_POINTS) < 1.7  # noqa: E731
    plain = boundary(holds, 1, LAST)
    assert boundary(holds, 1, LAST, near(form, 1.7, DOUBLE_POINTS) + off) == plain
    # Monotone: it holds on one side alone.
    assert holds(plain[0]) != holds(plain[0] - 1) == plain[1]


def test_machines_of_one_name_do_the_same():
    """What was found for one is taken for another: not where a type or a sign differs."""

    def name(machine, other):
        return _name_of(machine.then(IDENTITY, np.multiply, other))

    assert name(PYTHON, 3) == name(PYTHON, 3) is not None
    different = [name(m, x) for m in (PYTHON, DOUBLE)
                 for x in (3, 3.0, np.float32(3), np.float64(3), -3)]  # fmt: skip
    different += [name(PYTHON, 0.0), name(PYTHON, -0.0), name(PYTHON, np.float32(0.1)),
                  name(PYTHON, 0.1)]  # fmt: skip
    assert len(set(different)) == len(different)
    assert name(PYTHON, np.ones(2)) is None
    assert name(integers_from(0, 40, int), 3) == name(integers_from(0, 40, int), 3) is not None
    integers = [name(integers_from(*what), 3) for what in
                ((0, 40, int), (1, 40, int), (0, 41, int), (0, 40, np.uint8))]  # fmt: skip
    assert len(set(integers)) == len(integers)
    # What a caller counts with is not kept.
    assert name(integers_from(0, 40, lambda k: int(k)), 3) is None
