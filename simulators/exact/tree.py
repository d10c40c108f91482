"""A stateless rule's whole law, from its tree law, over every drafted prefix.

For gamma up to 4 the tests find it equal to running the rule itself on every path.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from simverify.simulators.exact.rows import Array, Rows
from simverify.verifiers.base import Verifier

MAX_LEAVES = 20_000
"""Most drafted blocks V^gamma whose tree is grown; a few seconds with Fractions."""


@dataclass(frozen=True, eq=False)
class Tree:
    """One call's law. Level l holds V^l prefixes x^l in lexicographic order.

    ``accepted[l]``: (V^l,) Pr(X^l = x^l, tau >= l), l = 0..gamma. ``completed[l]``: (V^l,)
    probability that the call's tokens, completed by the plain target, begin with x^l, and
    ``target[l]``: (V^l,) the target's own joint law of x^l. These go up to l = gamma+1 only
    where the bonus is not drawn from the target; where it is, it adds no deviation.
    ``certain``: the number of levels up to which every drafted prefix is kept.
    """

    accepted: tuple[Array, ...]
    completed: tuple[Array, ...]
    target: tuple[Array, ...]
    certain: int

    @cached_property
    def curve(self) -> list[Any]:
        """Pr(tau >= l) for l = 1..gamma."""
        return [level.sum() for level in self.accepted[1:]]

    @property
    def expected_accepted(self) -> Any:
        """E[tau]."""
        return sum(self.curve)

    @property
    def max_abs_deviation(self) -> Any:
        """Largest |Pr(output begins with x^l) - Mb(x^l)| over all prefixes."""
        pairs = zip(self.completed, self.target, strict=True)
        # To tell that fractions are equal takes a tenth of the time of subtracting them.
        return max(abs(got - due).max() if (got != due).any() else 0 for got, due in pairs)

    @property
    def total_variation(self) -> Any:
        """TV of the gamma+1 completed tokens from the target's joint law."""
        return abs(self.completed[-1] - self.target[-1]).sum() / 2


@lru_cache(maxsize=16)
def grow(verifier: Verifier, rows: Rows, gamma: int) -> Tree:
    """Law of one call from the empty prefix.

    For a rule with state only ``accepted`` counts: its output is completed by its debt, not
    by the plain target.
    """
    drafted = _drafted(rows, gamma)
    f = g = drafted[0].b
    accepted, completed = [f], [g]
    certain = 0
    for depth, ((m, b), (next_m, _)) in enumerate(pairwise(drafted)):
        p, q = _rows_after(rows, depth)
        here = _by_last(f, p)
        children, exits = verifier.tree_step(_by_last(m, p), _by_last(b, p), here, p, q)
        # A call that ended earlier, at a prefix of x^l, goes on with the plain target.
        g = (children + exits + (_by_last(g, p) - here) * p).ravel()
        f = children.ravel()
        if certain == len(accepted) - 1 and (f == next_m).all():
            certain += 1
        accepted.append(f)
        completed.append(g)
    target = [level.b for level in drafted]
    if verifier.bonus is not None:
        p, _ = _rows_after(rows, gamma)
        here = _by_last(f, p)
        completed.append((here * verifier.bonus(p) + (_by_last(g, p) - here) * p).ravel())
        target.append((_by_last(target[-1], p) * p).ravel())
    return Tree(tuple(accepted), tuple(completed), tuple(target), certain)


class _Level(NamedTuple):
    """Ms(x^l) and Mb(x^l) of all prefixes x^l of a level, each (V^l,)."""

    m: Array
    b: Array


def _rows_after(rows: Rows, depth: int) -> tuple[Array, Array]:
    """Target and draft rows (V, V) after each last token of a prefix; (1, V) at depth 0."""
    last = slice(0, -1) if depth else slice(-1, None)
    return rows.target[last], rows.draft[last]


def _by_last(level: Array, p: Array) -> Array:
    """Values of a level's prefixes (V^l,) as (..., last token, 1), to meet the rows ``p``."""
    return level.reshape(-1, len(p), 1)


@lru_cache(maxsize=4)
def _drafted(rows: Rows, gamma: int) -> list[_Level]:
    """Levels 0..gamma, which all rules share."""
    one = np.ones(1, dtype=rows.target.dtype)
    levels = [_Level(one, one)]
    for depth in range(gamma):
        m, b = levels[-1]
        p, q = _rows_after(rows, depth)
        levels.append(_Level((_by_last(m, p) * q).ravel(), (_by_last(b, p) * p).ravel()))
    return levels
