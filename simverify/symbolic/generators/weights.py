"""The weights of a choice, with numpy's own checks, and what is chosen one off the other."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

_SUM_TOLERANCE = 1.5e-8


def one_off_the_other(
    p: Any, n: int, count: int, index: Callable[[int, list[float]], int]
) -> list[int]:
    """Return ``count`` of 0..n-1 in the order drawn, each by weight off those before.

    numpy draws as many as are missing at once, keeps the first of equal ones, and draws again
    from what is left: that has the same law. ``index(n, cdf)`` draws one.
    """
    checked_cdf(p, n)
    left = np.array(p, dtype=np.float64)
    if count > n:
        raise ValueError("Cannot take a larger sample than population when replace is False")
    if np.count_nonzero(left) < count:
        raise ValueError("Fewer non-zero entries in p than size")
    chosen: list[int] = []
    for _ in range(count):
        ends = np.cumsum(left)
        chosen.append(index(n, (ends / ends[-1]).tolist()))
        left[chosen[-1]] = 0.0
    return chosen


def checked_cdf(p: Any, n: int) -> list[float]:
    """Return the running sums of ``p``, after numpy's own checks."""
    row = np.asarray(p, dtype=np.float64)
    if row.shape != (n,):
        raise ValueError("a and p must have same size")
    floats = isinstance(p, np.ndarray) and p.dtype.kind == "f"
    return _cdf_of(row.tobytes(), p.dtype if floats else None)


@lru_cache(maxsize=4096)
def _cdf_of(image: bytes, dtype: Any) -> list[float]:
    """The same for the bytes of a float64 row; code asks for the same ones on many paths."""
    row = np.frombuffer(image, dtype=np.float64)
    cdf = np.cumsum(row)
    tolerance = _SUM_TOLERANCE
    if dtype is not None:
        tolerance = max(tolerance, float(np.sqrt(np.finfo(dtype).eps)))
    if not math.isfinite(cdf[-1]):
        raise ValueError("probabilities contain NaN")
    if row.min() < 0:
        raise ValueError("probabilities are not non-negative")
    if abs(cdf[-1] - 1) > tolerance:
        raise ValueError("probabilities do not sum to 1")
    return [float(c) for c in cdf / cdf[-1]]
