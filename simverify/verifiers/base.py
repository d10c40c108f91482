"""What a built-in verifier is: its readable rule, its tree law, its name for the kernels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""Float64 or, for exact laws, object arrays of Fractions: the formulas serve both."""

LARGEST = 1e100
"""Where weights are cut: far beyond what any run can meet, far from the end of float64."""

TreeStep = Callable[[Array, Array, Array, Array, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Verifier:
    """A verification rule of the project.

    ``rule`` follows the ``verify`` contract, or is a class with ``reset`` and ``step``.
    ``tree_step(m, b, f, p, q)`` is its closed form, one level of the tree of drafted
    prefixes x^l at a time: with m = Ms(x^l), b = Mb(x^l), f = Pr(X^l = x^l, tau >= l), each
    (..., n, 1), and the rows p, q (n, V) after x^l, it returns f of the children (..., n, V) and
    Pr(X^l = x^l, tau = l, Y = y) for l < gamma, of the same shape. So E[tau] is the sum of f
    over l >= 1.
    ``bonus`` gives the law of the extra token from the target rows (n, V); None: those rows.
    """

    name: str
    contract: Literal["verify", "step"]
    rule: Callable[..., Any]
    tree_step: TreeStep
    summary: str
    citation: str
    bonus: Callable[[Array], Array] | None = None


def draw(weights: Array, otherwise: Array, rng: Any) -> int:
    """Draw a token from nonnegative ``weights`` (V,), or from ``otherwise`` if all are zero.

    Zero residual mass can only be rounding: the target row stands in then.
    """
    total = weights.sum()
    row = weights / total if total > 0 else otherwise
    return int(rng.choice(len(row), p=row))


def bounded(ratio: Any) -> Any:
    """Return a product of ratios p/q, cut at ``LARGEST`` where it is a float.

    Rows with entries such as 1e-300 overflow it, and inf times 0 is no weight. The mean of
    Mb/Ms over drafts is 1 at most, so a weight beyond c has probability 1/c at most; and a
    debt R beyond c moves the target by no more than 1/c. Fractions are never cut.
    """
    return min(ratio, LARGEST) if isinstance(ratio, float) else ratio


def excess(p: Array, q: Array) -> Array:
    """Return max(p - q, 0), elementwise, for floats and Fractions."""
    result: Array = np.maximum(p - q, 0)
    return result
