"""How much deviation the code's own arithmetic explains, and whether it does.

Rounding is no fault, and a coarse dtype is no excuse. The tolerance follows the coarsest
dtype that met a draw or a probability on the way. Above it, a deviation is a fault. Below
it, a deviation that only 16-bit arithmetic could excuse has to prove it: the code runs again
with its 16-bit types replaced by float64, and what then remains is held to float32's
tolerance. Such second runs also find the casts that no draw met, as in ``float(p32 / q32)``
or in rows that were kept in bfloat16 and are float32 by the time they are used.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simverify.symbolic import CannotEnumerate, Lift, OutOfTime
from simverify.symbolic.enumeration.paths import TooManyPaths

if TYPE_CHECKING:
    from collections.abc import Callable

    from simverify.auditing.exact.judging.comparison import Comparison

COARSE = ("float16", "bfloat16")

HIDDEN = " or ".join(COARSE)
"""The name of a 16-bit precision that no draw met: it is one of the two."""

TOLERANCE = {"float64": 1e-9, "float32": 1e-6, "float16": 2e-2, "bfloat16": 2e-2, HIDDEN: 2e-2}
"""Largest deviation that is rounding, by the coarsest precision met, finest first."""


@dataclass(frozen=True)
class Held:
    """A comparison and what it is held to.

    ``dtype``: the coarsest precision met, or found hidden. ``lifted``: the comparison is of
    the code computing in float64, where it still deviates.
    """

    comparison: "Comparison"
    tolerance: float
    dtype: str
    lifted: bool = False


def coarsest(dtypes: "set[str]") -> str:
    """Return the coarsest of the names, "float64" if there is none."""
    return max(dtypes, key=list(TOLERANCE).index, default="float64")


def deviation(comparison: "Comparison") -> float:
    """Largest deviation less what may lie in branches that were not run."""
    return comparison.max_abs_deviation - 2 * comparison.pruned - comparison.lost


def hold(compare: "Callable[[Lift | None], Comparison]", tolerance: float | None) -> Held:
    """Decide what ``compare(None)`` is held to; ``tolerance`` if that is given.

    ``compare(lift)`` compares the code that computes with its types lifted to float64.
    """
    comparison = compare(None)
    dtype, found = comparison.dtype, deviation(comparison)
    if tolerance is not None:
        return Held(comparison, tolerance, dtype)
    usual = Held(comparison, TOLERANCE[dtype], dtype)
    if dtype in COARSE:
        if TOLERANCE["float32"] < found <= TOLERANCE[dtype]:
            lifted = _lifted(compare, "half")
            if lifted is not None and deviation(lifted) > TOLERANCE["float32"]:
                return Held(lifted, TOLERANCE["float32"], dtype, lifted=True)
        return usual
    if TOLERANCE["float32"] < found <= TOLERANCE[HIDDEN]:
        lifted = _lifted(compare, "half")
        if lifted is not None and _rounds_to_single(compare, lifted):
            return Held(comparison, TOLERANCE[HIDDEN], HIDDEN)
    elif found > TOLERANCE[dtype] and _rounds_to_single(compare, comparison):
        return Held(comparison, TOLERANCE["float32"], "float32")
    return usual


def _rounds_to_single(
    compare: "Callable[[Lift | None], Comparison]", comparison: "Comparison"
) -> bool:
    """Whether rounding to float32 or float64, seen or hidden, explains the deviation."""
    left = deviation(comparison)
    if left <= TOLERANCE[comparison.dtype]:
        return True
    if left > TOLERANCE["float32"]:
        return False
    lifted = _lifted(compare, "single")
    return lifted is not None and deviation(lifted) <= TOLERANCE["float64"]


def _lifted(compare: "Callable[[Lift | None], Comparison]", lift: Lift) -> "Comparison | None":
    """Return the comparison of the lifted code; None if it does not run or is not lifted."""
    try:
        lifted = compare(lift)
    except (CannotEnumerate, OutOfTime, TooManyPaths):
        return None
    whole = lifted.complete and lifted.lost == 0
    return lifted if whole and lifted.dtype not in COARSE else None
