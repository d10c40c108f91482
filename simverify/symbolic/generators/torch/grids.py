"""The grids that torch fills tensors of uniforms from, by their type.

Those of 16 bits are made in float32 and rounded; what would be the upper bound becomes the lower
(``uniform_kernel`` in aten/src/ATen/native/cpu/DistributionTemplates.h). Earlier versions drew
them from grids as coarse as the type.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from simverify.symbolic.draws.values.machine import (
    DOUBLE,
    DOUBLE_POINTS,
    SINGLE,
    SINGLE_POINTS,
    Machine,
    coarse_uniform,
    to_bfloat16,
)


def _is_fine() -> bool:
    """Whether uniforms of 16 bits come from the grid of float32, as in later versions of torch."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(64, dtype=torch.bfloat16, generator=generator).double() * 2**8
    return bool((drawn != drawn.round()).any())


COARSE: dict[torch.dtype, tuple[Callable[[Any], Any], int]] = {
    torch.float16: (np.float16, SINGLE_POINTS if _is_fine() else 2**11),
    torch.bfloat16: (to_bfloat16, SINGLE_POINTS if _is_fine() else 2**8),
}


@lru_cache(maxsize=256)
def grid_of(dtype: torch.dtype, low: float, high: float) -> tuple[Machine, int] | None:
    """Return what torch fills a tensor of a type from, and of how many points it is one.

    None where the bounds make no grid of their own: they are computed with.
    """
    kind, points = COARSE.get(dtype, (None, 0))
    if kind is not None and low < high and (points == SINGLE_POINTS or (low, high) == (0, 1)):
        return coarse_uniform(kind, points, low, high), points
    if kind is not None or (low, high) != (0, 1):
        return None
    return (DOUBLE, DOUBLE_POINTS) if dtype is torch.float64 else (SINGLE, SINGLE_POINTS)
