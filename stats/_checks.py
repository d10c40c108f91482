"""The checks that several tests share; each error is one line: got, expected, what to do."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROW_TOLERANCE = 1e-9
"""How far the sum of a probability row may lie from 1."""


def open_unit(name: str, value: float) -> float:
    """Return ``value`` as a float; it must lie strictly between 0 and 1."""
    number = float(value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} is {value}, expected a number strictly between 0 and 1")
    return number


def positive_int(name: str, value: int, least: int = 1) -> int:
    """Return ``value`` as an int; it must be a whole number and at least ``least``."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise ValueError(f"{name} is {value}, expected a whole number, {least} or more")
    return int(value)


def positive_float(name: str, value: float) -> float:
    """Return ``value`` as a float; it must be finite and above 0."""
    number = float(value)
    if not (math.isfinite(number) and number > 0.0):
        raise ValueError(f"{name} is {value}, expected a finite number above 0")
    return number


def counts(name: str, values: Any, ndim: int) -> Ints:
    """Return ``values`` as int64 with ``ndim`` axes; integers, none negative."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} has dtype {array.dtype}, expected integers: pass raw counts")
    if array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}, expected {ndim} axes")
    if array.size and array.min() < 0:
        where = tuple(int(i) for i in np.unravel_index(int(array.argmin()), array.shape))
        raise ValueError(f"{name}{list(where)} is {array.min()}, expected no negative count")
    return array.astype(np.int64, copy=False)


def count_rows(name: str, values: Any, probabilities: Any) -> tuple[Ints, Floats]:
    """Return counts int64 (contexts, V) and their probabilities float64 (contexts, V).

    Every row of probabilities must be finite, non-negative and sum to 1 within 1e-9.
    """
    array = counts(name, values, 2)
    rows = np.asarray(probabilities, dtype=np.float64)
    if rows.shape != array.shape:
        raise ValueError(f"probabilities has shape {rows.shape}, expected {array.shape} as {name}")
    if array.shape[1] < 2:
        raise ValueError(f"{name} has {array.shape[1]} categories, expected 2 or more")
    probability_rows("probabilities", rows)
    return array, rows


def tv_ball(value: float) -> float:
    """Return the radius of a declared ball as a float; it must lie in [0, 1)."""
    radius = float(value)
    if not 0.0 <= radius < 1.0:
        raise ValueError(
            f"ball is {value}, expected a TV distance in [0, 1): 0 for the verifier's own rows, "
            "an estimate from repeated rescoring otherwise"
        )
    return radius


def in_ball(method: str, radius: float) -> str:
    """Name the declared ball beside the method, if there is one."""
    return f"{method}; null within TV {radius:g} of the rows" if radius else method


def probability_rows(name: str, values: Any, ndim: int = 2) -> Floats:
    """Return rows float64 (..., V), each finite, non-negative and of sum 1 within 1e-9."""
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != ndim or ndim == 0 or rows.shape[-1] < 2:
        axes = max(ndim, 1)
        raise ValueError(f"{name} has shape {rows.shape}, expected {axes} axes, V = 2 or more")
    flat = rows.reshape(-1, rows.shape[-1])
    if not (flat >= 0.0).all():
        bad = int(np.argmin((flat >= 0.0).all(axis=1)))
        raise ValueError(f"{name} row {bad} has a negative or NaN entry, expected neither")
    sums = flat.sum(axis=1)
    near = np.abs(sums - 1.0) <= ROW_TOLERANCE
    if not near.all():
        bad = int(np.argmin(near))
        raise ValueError(
            f"{name} row {bad} sums to {sums[bad]:.12g}, expected 1 within {ROW_TOLERANCE:g}: "
            "normalise in float64"
        )
    return rows
