"""What a rule for a single draft is, and how the rules of a package are found."""

import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""Float64 or, for exact laws, object arrays of Fractions: the formulas serve both."""

MAX_WEIGHT = 1e100
"""Where weights are cut: far beyond what any run can meet, far from the end of float64."""

TreeStep = Callable[[Array, Array, Array, Array, Array], tuple[Array, Array]]


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str:
        """The name."""
        ...


Rule = TypeVar("Rule", bound=Named)


@dataclass(frozen=True)
class Verifier:
    """A verification rule with all of its parts.

    ``rule`` follows the ``verify`` contract, or is a class with ``reset`` and ``step``.
    ``tree_step(m, b, f, p, q)`` is its closed form, one level of the tree of drafted
    prefixes x^l at a time: with m = Ms(x^l), b = Mb(x^l), f = Pr(X^l = x^l, tau >= l), each
    (..., n, 1), and the rows p, q (n, V) after x^l, it returns f of the children (..., n, V) and
    Pr(X^l = x^l, tau = l, Y = y) for l < gamma, of the same shape. So E[tau] is the sum of f
    over l >= 1.
    ``bonus`` gives the law of the extra token from the target rows (n, V); None: those rows.

    The other parts are for ``compare``. Each may be named as ``"module:attribute"``: it is then
    imported when it is first used, so that listing the rules imports no compiler.

    ``kernel``: the compiled rule. One of the numbers of ``simulators.kernels.chains``, or a
    ``Family`` of ``simulators.kernels.trees``, which judges a chain as a tree of one way.
    ``kept(target, draft)``: for a rule that judges each token alone, the probability (..., V)
    that a token is drafted and kept, from rows of that shape.
    ``keeps_equals``: whether it keeps every draft where the draft model is the target.
    ``bounds``: "block" or "greedy", where its Pr(tau >= l) is that rule's, which has certified
    bounds on models too large to enumerate.
    ``modes``: whether it emits the likeliest tokens of the target, and so is lossless at
    temperature 0 alone.
    """

    name: str
    contract: Literal["verify", "step"]
    rule: Callable[..., Any]
    tree_step: TreeStep
    summary: str
    citation: str
    bonus: Callable[[Array], Array] | None = None
    kernel: Any = None
    kept: str | Callable[[Array, Array], Array] | None = None
    keeps_equals: bool = False
    bounds: Literal["block", "greedy"] | None = None
    modes: bool = False


def resolve_part(value: Any) -> Any:
    """Return a part of a rule: ``value`` itself, or what it names as ``"module:attribute"``."""
    if not isinstance(value, str):
        return value
    module, _, attribute = value.partition(":")
    return getattr(import_module(module), attribute)


def declared(
    package: str, path: Iterable[str], kind: type[Rule], first: Sequence[str]
) -> dict[str, Rule]:
    """Return the rules that the files of a package declare, by name: ``first``, then the others.

    ``package``, ``path``: its ``__name__`` and its ``__path__``.
    """
    files = (info.name for info in pkgutil.iter_modules(path) if not info.ispkg)
    rules: dict[str, Rule] = {}
    for file in files:
        values = vars(import_module(f"{package}.{file}")).values()
        rules.update({rule.name: rule for rule in values if isinstance(rule, kind)})
    return {name: rules[name] for name in (*first, *sorted(rules.keys() - set(first)))}


def draw(weights: Array, otherwise: Array, rng: Any) -> int:
    """Draw a token from nonnegative ``weights`` (V,), or from ``otherwise`` if all are zero.

    Zero residual mass can only be rounding: the target row stands in then.
    """
    total = weights.sum()
    row = weights / total if total > 0 else otherwise
    return int(rng.choice(len(row), p=row))


def cap_ratio(ratio: Any) -> Any:
    """Return a product of ratios p/q, cut at ``MAX_WEIGHT`` where it is a float.

    Rows with entries such as 1e-300 overflow it, and inf times 0 is no weight. The mean of
    Mb/Ms over drafts is 1 at most, so a weight beyond c has probability 1/c at most; and a
    debt R beyond c moves the target by no more than 1/c. Fractions are never cut.
    """
    return min(ratio, MAX_WEIGHT) if isinstance(ratio, float) else ratio


def excess(p: Array, q: Array) -> Array:
    """Return max(p - q, 0), elementwise, for floats and Fractions."""
    result: Array = np.maximum(p - q, 0)
    return result
