"""What a draw meets: numbers of other types, types that it is cast to, bounds on it."""

import math
import numbers
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from simverify.symbolic.draws.values.machine import BFloat16

if TYPE_CHECKING:
    from simverify.symbolic.draws.values.forms import Form


@lru_cache(maxsize=256)
def kind_of(dtype: Any) -> tuple[Any, Any]:
    """Return the type of one number of a numpy or torch type, and what a draw meets in it."""
    name = str(dtype).removeprefix("torch.") if not isinstance(dtype, type) else ""
    if name == "bfloat16":
        return BFloat16, name
    kind = dtype if dtype is float else np.dtype(name or dtype).type
    return kind, name or np.dtype(kind)


def number(x: Any) -> float | None:
    """Read a real number of any type; None if it is something else."""
    if type(x) is float:
        return x
    # What is symbolic says that it has another type.
    if hasattr(x, "refuse") or hasattr(x, "read"):
        return None
    if isinstance(x, float | int | np.number | np.bool_ | numbers.Rational):
        return float(x)
    if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype != object:
        return float(x)
    return None


def near(form: "Form", bound: Any, points: int) -> float:
    """Return near which point of the grid a form passes a bound; no number where it is not known.

    It is meant to be the value, so a look there spares a search through the grid.
    """
    try:
        return form.threshold(float(bound))[0] * points
    except (ArithmeticError, ValueError):
        return math.nan
