"""What the tests share: checks of arguments, the search of plans, the result of a test."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Sums = TypeVar("Sums", bound="DataclassInstance")

ROW_TOLERANCE = 1e-9  # how far the sum of a probability row may lie from 1


def check_open_unit(name: str, value: float) -> float:
    """Return ``value`` as a float; it must lie strictly between 0 and 1."""
    number = float(value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} is {value}, expected a number strictly between 0 and 1")
    return number


def check_positive_int(name: str, value: int, least: int = 1) -> int:
    """Return ``value`` as an int; it must be a whole number and at least ``least``."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise ValueError(f"{name} is {value}, expected a whole number, {least} or more")
    return int(value)


def check_positive_float(name: str, value: float) -> float:
    """Return ``value`` as a float; it must be finite and above 0."""
    number = float(value)
    if not (math.isfinite(number) and number > 0.0):
        raise ValueError(f"{name} is {value}, expected a finite number above 0")
    return number


def check_counts(name: str, values: Any, ndim: int) -> Ints:
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


def check_count_rows(name: str, values: Any, probabilities: Any) -> tuple[Ints, Floats]:
    """Return counts int64 (contexts, V) and their probabilities float64 (contexts, V).

    Every row of probabilities must be finite, non-negative and sum to 1 within 1e-9.
    """
    array = check_counts(name, values, 2)
    rows = np.asarray(probabilities, dtype=np.float64)
    if rows.shape != array.shape:
        raise ValueError(f"probabilities has shape {rows.shape}, expected {array.shape} as {name}")
    if array.shape[1] < 2:
        raise ValueError(f"{name} has {array.shape[1]} categories, expected 2 or more")
    check_probability_rows("probabilities", rows)
    return array, rows


def check_row_tolerance(value: float) -> float:
    """Return the radius of a declared ball as a float; it must lie in [0, 1)."""
    radius = float(value)
    if not 0.0 <= radius < 1.0:
        raise ValueError(
            f"ball is {value}, expected a TV distance in [0, 1): 0 for the verifier's own rows, "
            "an estimate from repeated rescoring otherwise"
        )
    return radius


def with_row_tolerance(method: str, radius: float) -> str:
    """Name the declared ball beside the method, if there is one."""
    return f"{method}; null within TV {radius:g} of the rows" if radius else method


def check_probability_rows(name: str, values: Any, ndim: int = 2) -> Floats:
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


def add_fields(first: Sums, second: Sums, **rest: Any) -> Sums:
    """Return the sum of two dataclasses, field by field; ``rest``: the fields that do not add."""
    names = {field.name for field in dataclasses.fields(first)} - rest.keys()
    sums = {name: getattr(first, name) + getattr(second, name) for name in names}
    return dataclasses.replace(first, **sums, **rest)


# The searches that tests and plans share.


_MAX_SEARCHED = 2**50


def smallest_true(holds: Callable[[int], bool], most: int, least: int = 0) -> int:
    """Return the least m in least..most with ``holds(m)``, monotone and true at ``most``."""
    low, high = least - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def smallest_n(enough: Callable[[int], bool], what: str, *, unit: str = "tokens") -> int:
    """Return the least n with ``enough(n)``, taken to be monotone.

    Raises ValueError, naming ``what`` was asked for, where 2^50 are not enough.
    """
    most = 1
    while not enough(most):
        most *= 2
        if most > _MAX_SEARCHED:
            raise ValueError(
                f"{what} is not found by {_MAX_SEARCHED:.0e} {unit}, expected a larger one"
            )
    return smallest_true(enough, most, most // 2 + 1)


# The result of every test.


Direction = Literal["above", "below"]


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """One test of one null hypothesis.

    ``name``: what was tested, in the caller's words. ``statistic``: its value; ``method`` names it
    and the law of its tail. ``log_pvalue``: natural logarithm; finite and right where ``pvalue``
    underflows to 0, -inf only for what the null hypothesis excludes. ``alpha``: share of the run's
    false-alarm rate that this test spends. ``n``: emitted tokens, or blocks for the acceptance
    test. ``df``: degrees of freedom, where the law has any. ``min_detectable``: smallest
    ``deviation`` that is rejected with probability .9 at this ``n`` and ``alpha``; inf where ``n``
    is too small to promise anything. ``level``, ``direction``: of the acceptance test alone, the
    level l of 1{tau >= l} with the smallest p-value, and the side of its bounds on which the
    observed rate lies (None when inside them).
    """

    # pytest collects classes named Test*.
    __test__: ClassVar[bool] = False

    name: str
    statistic: float
    log_pvalue: float
    alpha: float
    n: int
    df: int | None = None
    method: str
    min_detectable: float = math.inf
    deviation: str
    level: int | None = None
    direction: Direction | None = None

    @property
    def pvalue(self) -> float:
        """The p-value; 0.0 below 1e-323, where ``log_pvalue`` still tells."""
        return math.exp(self.log_pvalue)

    @property
    def rejected(self) -> bool:
        """Whether the null hypothesis is rejected at ``alpha``."""
        return self.log_pvalue < math.log(self.alpha)
