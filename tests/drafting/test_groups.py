"""Groups of layers: the given example, and what holds for all."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simverify.drafting import layer_groups
from simverify.errors import UsageError


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
