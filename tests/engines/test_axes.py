"""Axes of length 1, put in and taken out as einops does it."""

import numpy as np
import pytest

from simverify.engines.extract import rearrange

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("pattern", "before", "after"),
    [
        ("b -> b 1", (3,), (3, 1)),
        ("b -> b 1 1", (3,), (3, 1, 1)),
        ("b n 1 -> b n", (3, 2, 1), (3, 2)),
        ("b 1 d -> b d", (3, 1, 2), (3, 2)),
        ("b 1 n 1 d -> b n d", (3, 1, 2, 1, 4), (3, 2, 4)),
        ("b n d -> 1 b n 1 d", (3, 2, 4), (1, 3, 2, 1, 4)),
        ("... -> ... 1", (3, 2), (3, 2, 1)),
        ("... n 1 -> 1 ... 1 n", (3, 2, 4, 1), (1, 3, 2, 1, 4)),
    ],
)
def test_axes_of_length_one(pattern, before, after):
    given = torch.arange(int(np.prod(before))).reshape(before)
    found = rearrange(given, pattern)
    assert found.shape == after
    assert found.flatten().tolist() == given.flatten().tolist()


@pytest.mark.parametrize("pattern", ["b n -> n b", "b n -> (b n)", "b -> b n"])
def test_more_than_that_is_refused(pattern):
    with pytest.raises(ValueError, match="does more than put in and take out axes"):
        rearrange(torch.zeros(2, 2), pattern)


def test_an_axis_that_is_longer_is_refused():
    with pytest.raises(ValueError, match="axis 1 is longer than 1"):
        rearrange(torch.zeros(2, 3), "b 1 -> b")
