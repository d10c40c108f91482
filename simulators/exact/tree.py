"""A stateless rule's whole law, from its tree law, over every drafted prefix.

For gamma up to 4 the tests find it equal to running the rule itself on every path.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from simverify.simulators.exact.rows import START, Array, Rows
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

    @property
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
        return max(abs(got - due).max() for got, due in pairs)

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
    for (last, m, b), (_, next_m, _) in pairwise(drafted):
        p, q = rows.target[last], rows.draft[last]
        children, exits = verifier.tree_step(m[:, None], b[:, None], f[:, None], p, q)
        # A call that ended earlier, at a prefix of x^l, goes on with the plain target.
        g = (children + exits + (g - f)[:, None] * p).ravel()
        f = children.ravel()
        if certain == len(accepted) - 1 and (f == next_m).all():
            certain += 1
        accepted.append(f)
        completed.append(g)
    target = [level.b for level in drafted]
    if verifier.bonus is not None:
        p, b = rows.target[drafted[-1].last], target[-1]
        completed.append((f[:, None] * verifier.bonus(p) + (g - f)[:, None] * p).ravel())
        target.append((b[:, None] * p).ravel())
    return Tree(tuple(accepted), tuple(completed), tuple(target), certain)


class _Level(NamedTuple):
    """All prefixes x^l of a level: their last token, Ms(x^l) and Mb(x^l), each (V^l,)."""

    last: Array
    m: Array
    b: Array


@lru_cache(maxsize=4)
def _drafted(rows: Rows, gamma: int) -> list[_Level]:
    """Levels 0..gamma, which all rules share."""
    one = np.ones(1, dtype=rows.target.dtype)
    levels = [_Level(np.array([START]), one, one)]
    for _ in range(gamma):
        last, m, b = levels[-1]
        q, p = rows.draft[last], rows.target[last]
        levels.append(
            _Level(
                np.tile(np.arange(rows.vocab_size), len(last)),
                (m[:, None] * q).ravel(),
                (b[:, None] * p).ravel(),
            )
        )
    return levels
