"""How the children of a node are drafted: five schemes, each with a draw and its exact law.

A scheme is part of the claim: a rule that is lossless for independent siblings is lossy for
siblings without replacement, and the other way round. Rows may be floats or fractions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.checks import pick
from simverify.symbolic.enumeration.paths import Coins, explore

Array = npt.NDArray[Any]
"""Float64, or object arrays of fractions."""

Siblings = tuple[int, ...]


@dataclass(frozen=True)
class Scheme:
    """How up to k siblings are drafted from the row q (V,) after their parent.

    ``certain(k)``: how many of k are certain, the likeliest of q; they come first. ``replaced``:
    whether the others are independent samples of q; if not, each is sampled from q off all
    before it. Where too few tokens have a probability there are fewer siblings.
    """

    name: str
    summary: str
    certain: Callable[[int], int]
    replaced: bool = False

    def fixed(self, q: Array, k: int) -> Siblings:
        """Return the tokens of q (V,) that are drafted for certain: the likeliest, ties by id."""
        count = min(self.certain(k), len(q))
        return tuple(map(int, np.argsort(-q, kind="stable")[:count])) if count else ()

    def next_row(self, q: Array, before: Siblings) -> Array | None:
        """Return the law (V,) of the next sampled sibling after ``before``; None: there is none."""
        if self.replaced:
            return q
        left = q.copy()
        left[list(before)] = 0
        total = left.sum()
        return left / total if total > 0 else None

    def draw(self, q: Array, k: int, rng: Any) -> Siblings:
        """Draw the siblings: ``rng.choice(V, p=row)`` for each that is sampled."""
        siblings = self.fixed(q, k)
        while len(siblings) < k:
            row = self.next_row(q, siblings)
            if row is None:
                break
            siblings = (*siblings, int(rng.choice(len(q), p=row)))
        return siblings

    def law(self, q: Array, k: int) -> dict[Siblings, Any]:
        """Return the probability of every tuple of siblings; exact for fractions."""
        law: dict[Siblings, Any] = {}
        for siblings, mass in explore(lambda path: self.draw(q, k, Coins(path))):
            law[siblings] = law.get(siblings, 0) + mass
        return law

    def included(self, q: Array, k: int) -> Array:
        """Return the probability (V,) of each token to be one of ``k`` siblings.

        Of m samples without replacement in some V^(m-2) steps on arrays.
        """
        fixed = self.fixed(q, k)
        samples = k - len(fixed)
        if self.replaced:
            found: Array = 1 - (1 - q) ** samples
            return found
        row = self.next_row(q, fixed)
        found = 0 * q if row is None else _included(row, samples)
        found[list(fixed)] = 1
        return found

    def forbids(self, q: Array, siblings: Siblings) -> str | None:
        """Say why these siblings cannot have been drafted from q (V,) by this scheme, or None."""
        fixed = self.fixed(q, len(siblings))
        if siblings[: len(fixed)] != fixed:
            return f"begins with {siblings[: len(fixed)]}, and the likeliest of q are {fixed}"
        if not self.replaced and len(set(siblings)) < len(siblings):
            return "has a token twice"
        absent = [x for x in siblings[len(fixed) :] if not q[x] > 0]
        if absent:
            return f"has token {absent[0]}, of which q is 0"
        return None


def _included(q: Array, samples: int) -> Array:
    """Return the probability of each token to be one of some samples of q, each off the others."""
    if samples == 0:
        return 0 * q
    if samples == 1:
        return q.copy()
    drawn = [int(x) for x in np.flatnonzero(q)]
    if len(drawn) == 1:
        return q.copy()  # there is no second one
    if samples == 2:
        # First x, then y off it: q(y) times the sum over all other x of q(x) / (1 - q(x)).
        found: Array = q + q * _others(q / _others(q))
        return found
    found = q.copy()
    for x in drawn:
        left = q.copy()
        left[x] = 0
        total = left.sum()
        if total > 0:
            found = found + q[x] * _included(left / total, samples - 1)
    return found


def _others(values: Array) -> Array:
    """Return for each of ``values`` (V,) the sum of the others, without taking it off the whole."""
    before, after = np.cumsum(values), np.cumsum(values[::-1])[::-1]
    found: Array = 0 * values
    found[1:] = before[:-1]
    found[:-1] = found[:-1] + after[1:]
    return found


SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("iid", "independent samples of q", lambda k: 0, replaced=True),
        Scheme("without-replacement", "samples of q, each off those before", lambda k: 0),
        Scheme("top-k", "the k likeliest tokens of q", lambda k: k),
        Scheme("argmax-first", "the likeliest token, then samples off those before", lambda k: 1),
        Scheme("last-sampled", "the k-1 likeliest, then one sample off them", lambda k: k - 1),
    )
}


def get_scheme(name: str) -> Scheme:
    """Return the scheme called ``name``; ``UsageError`` with the nearest name if there is none."""
    return SCHEMES[pick(name, SCHEMES, "scheme")]
