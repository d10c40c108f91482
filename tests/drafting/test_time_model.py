"""The time model on invented times, against values worked out by hand."""

import dataclasses
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simverify.drafting import layer_groups
from simverify.drafting.time_model import BlockTimes, TimeModel, fit_time_model, predict_drafting
from simverify.errors import UsageError
from simverify.results import OnDevices

# Groups of layers: the given example, and what holds for all.


def test_32_layers_in_groups_of_four():
    groups = layer_groups(32, 4)
    assert groups == [
        [0], [1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19],
        [20, 21, 22, 23], [24, 25, 26, 27], [28, 29, 30], [31],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("layers", "layer_parallel", "due"),
    [
        (1, 4, [[0]]),
        (2, 4, [[0], [1]]),
        (3, 4, [[0], [1], [2]]),
        (4, 4, [[0], [1, 2], [3]]),
        (5, 1, [[0], [1], [2], [3], [4]]),
        (6, 2, [[0], [1], [2, 3], [4], [5]]),
        (7, 100, [[0], [1, 2, 3, 4, 5], [6]]),
        (np.int64(3), np.int64(1), [[0], [1], [2]]),
    ],
)
def test_small_and_odd_sizes(layers, layer_parallel, due):
    assert layer_groups(layers, layer_parallel) == due


@given(layers=st.integers(1, 200), wide=st.integers(1, 250))
def test_every_layer_once_in_order_and_groups_of_their_sizes(layers, wide):
    groups = layer_groups(layers, wide)
    assert [i for group in groups for i in group] == list(range(layers))
    assert groups[0] == [0]
    assert groups[-1] == [layers - 1]
    inner = groups[1:-1]
    assert all(1 <= len(group) <= wide for group in inner)
    assert all(group[0] % wide == 0 for group in inner[1:])
    assert all(len(group) == wide for group in inner[1:-1])


@pytest.mark.parametrize("wrong", [0, -3, 2.0, "4", None])
def test_what_is_no_count_is_refused(wrong):
    with pytest.raises(UsageError, match=r"^layer_parallel is .*: expected a whole number of 1"):
        layer_groups(8, wrong)
    with pytest.raises(UsageError, match=r"^layers is .*: expected a whole number of 1"):
        layer_groups(wrong, 2)


def test_groups_need_no_torch():
    code = (
        "import sys, simverify.drafting as d; d.layer_groups(8, 4); "
        "assert not {'torch', 'numba', 'numpy'} & {*sys.modules}; assert not hasattr(d, 'other')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
    one, two, four, eight = predict_drafting(TIMES, 5)
    assert one == OnDevices(devices=1, iteration=175, per_token=35, speed_up=1)
    assert two == OnDevices(
        devices=2, iteration=35 + 4 * 32.5, per_token=33, speed_up=pytest.approx(175 / 165)
    )
    assert four == OnDevices(
        devices=4, iteration=157, per_token=31.4, speed_up=pytest.approx(1.1146, abs=1e-4)
    )
    assert msgspec.structs.replace(eight, devices=4) == four


def test_groups_may_cost_more_than_they_save():
    (two,) = predict_drafting(dataclasses.replace(TIMES, added=3.0), 5, [2])
    assert two.speed_up == pytest.approx(175 / (35 + 4 * 38))
    assert two.speed_up < 1


def test_groups_of_one_save_nothing():
    alone = dataclasses.replace(TIMES, layer_parallel=1)
    assert [own.speed_up for own in predict_drafting(alone, 5)] == [1, 1, 1, 1]


@pytest.mark.parametrize(("gamma", "devices"), [(0, [1]), (5, [0]), (5, [2, -1])])
def test_what_is_no_count(gamma, devices):
    with pytest.raises(UsageError, match="expected 1 or more"):
        predict_drafting(TIMES, gamma, devices)


MEASURED = BlockTimes(
    layers=10, layer_parallel=4, attention=1.0, mlp=2.0, group=2.75, group_size=4, workers=2,
    exact_pass=33.0, fuzzy_pass=31.0,
)  # fmt: skip


def test_fit():
    fitted = fit_time_model(MEASURED)
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
    assert fit_time_model(dataclasses.replace(MEASURED, **changed)).added == added


def test_blocks_that_take_more_than_a_pass_leave_no_rest():
    assert fit_time_model(dataclasses.replace(MEASURED, exact_pass=29.0)).rest == 0
