"""The time model on invented times, against values worked out by hand."""

import dataclasses

import msgspec
import pytest

from simverify.drafting.time_model import BlockTimes, TimeModel, fit, predict
from simverify.errors import UsageError
from simverify.results import OnDevices

# Groups of 1, 3, 4, 1 and 1 layers.
TIMES = TimeModel(layers=10, layer_parallel=4, attention=1.0, mlp=2.0, rest=5.0, added=0.25)


def test_an_exact_pass():
    assert TIMES.exact_pass() == 10 * 1 + 10 * 2 + 5 == 35
    assert TIMES.plain_drafting(5) == 175


@pytest.mark.parametrize(
    ("devices", "attentions"),
    [
        (1, 1 + 3 + 4 + 1 + 1),
        (2, 1 + (2 + 0.25) + (2 + 0.25) + 1 + 1),
        (3, 1 + (1 + 0.25) + (2 + 0.25) + 1 + 1),
        (4, 1 + (1 + 0.25) + (1 + 0.25) + 1 + 1),
        (8, 1 + (1 + 0.25) + (1 + 0.25) + 1 + 1),
    ],
)
def test_a_fuzzy_pass(devices, attentions):
    assert TIMES.fuzzy_pass(devices) == attentions + 20 + 5


def test_an_iteration_has_one_exact_pass():
    assert TIMES.drafting(5, 4) == 35 + 4 * 30.5
    assert TIMES.drafting(1, 4) == 35


def test_predictions():
    one, two, four, eight = predict(TIMES, 5)
    assert one == OnDevices(devices=1, iteration=175, per_token=35, speed_up=1)
    assert two == OnDevices(
        devices=2, iteration=35 + 4 * 32.5, per_token=33, speed_up=pytest.approx(175 / 165)
    )
    assert four == OnDevices(
        devices=4, iteration=157, per_token=31.4, speed_up=pytest.approx(1.1146, abs=1e-4)
    )
    assert msgspec.structs.replace(eight, devices=4) == four


def test_groups_may_cost_more_than_they_save():
    (two,) = predict(dataclasses.replace(TIMES, added=3.0), 5, [2])
    assert two.speed_up == pytest.approx(175 / (35 + 4 * 38))
    assert two.speed_up < 1


def test_groups_of_one_save_nothing():
    alone = dataclasses.replace(TIMES, layer_parallel=1)
    assert [own.speed_up for own in predict(alone, 5)] == [1, 1, 1, 1]


@pytest.mark.parametrize(("gamma", "devices"), [(0, [1]), (5, [0]), (5, [2, -1])])
def test_what_is_no_count(gamma, devices):
    with pytest.raises(UsageError, match="expected 1 or more"):
        predict(TIMES, gamma, devices)


MEASURED = BlockTimes(
    layers=10, layer_parallel=4, attention=1.0, mlp=2.0, group=2.75, group_size=4, workers=2,
    exact_pass=33.0, fuzzy_pass=31.0,
)  # fmt: skip


def test_fit():
    fitted = fit(MEASURED)
    assert fitted == TimeModel(10, 4, 1.0, 2.0, rest=3.0, added=0.75)
    assert fitted.exact_pass() == MEASURED.exact_pass


@pytest.mark.parametrize(
    ("changed", "added"),
    [
        ({"workers": 4}, 1.75),  # one round of T(A)
        ({"workers": 3}, 0.75),  # two
        ({"group": 1.5}, 0.0),  # less than the model says
        ({"workers": 1, "group": 4.5}, 0.0),  # nothing ran at once
        ({"group_size": 1, "group": 1.2}, 0.0),
    ],
)
def test_what_a_group_adds(changed, added):
    assert fit(dataclasses.replace(MEASURED, **changed)).added == added


def test_blocks_that_take_more_than_a_pass_leave_no_rest():
    assert fit(dataclasses.replace(MEASURED, exact_pass=29.0)).rest == 0
