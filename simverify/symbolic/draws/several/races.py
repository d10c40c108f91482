"""Exponential races: which of several E_i / w_i comes first, decided two at a time.

The known order of the racers is kept as a forest in which a parent came before its
children. Exponentials have no memory, so given its parent a subtree's first arrival is a
fresh exponential whose rate is the subtree's total; any two subtrees under one parent are
then compared with weights in proportion to their totals. Every question about the order
(argmin, sort, top-k) is answered exactly, and an answer never changes.
"""

import math
from typing import TYPE_CHECKING, Any

from simverify.symbolic.draws.machine import RACES
from simverify.symbolic.draws.path import Decided

if TYPE_CHECKING:
    import numpy as np

    from simverify.symbolic.draws.path import Atom, DrawnPath

RATE_TOLERANCE = 1e-9


class Racer:
    """One exponential in the forest; ``flip`` if it is that of 1 - u."""

    __slots__ = ("children", "flip", "parent", "rate", "total")

    def __init__(self, rate: float, flip: bool) -> None:
        self.rate = rate
        self.total = rate
        self.flip = flip
        self.parent: Racer | None = None
        self.children: list[Racer] = []

    def line(self) -> "list[Racer]":
        """Return the racer, its parent, and so on to the root."""
        line, node = [self], self
        while node.parent is not None:
            node = node.parent
            line.append(node)
        return line

    def rescale(self, factor: float) -> None:
        """Multiply the rates of the whole subtree."""
        self.rate *= factor
        self.total *= factor
        for child in self.children:
            child.rescale(factor)

    def sample_uniform(self, rng: "np.random.Generator", arrivals: "dict[Racer, float]") -> float:
        """Draw a u that agrees with all that is known; ``arrivals`` are those drawn so far."""
        for racer in reversed(self.line()):
            if racer not in arrivals:
                start = 0.0 if racer.parent is None else arrivals[racer.parent]
                arrivals[racer] = start + rng.exponential() / racer.total
        e = arrivals[self] * self.rate
        return -math.expm1(-e) if self.flip else math.exp(-e)


def enter(source: "DrawnPath", atom: "Atom", rate: float, flip: bool) -> Racer:
    """Return the racer of ``atom``, made at its first race."""
    atom.check_epoch()
    if isinstance(racer := atom.owner, Racer):
        if racer.flip != flip:
            source.refuse("a race of u against one of 1 - u")
        return racer
    if atom.owner is not None or atom.low > 0 or atom.high < 1:
        source.refuse("a comparison of two draws, one of which was compared with a number")
    atom.owner = racer = Racer(rate, flip)
    return racer


def first_is_less(source: "DrawnPath", a: Racer, rate_a: float, b: Racer, rate_b: float) -> bool:
    """Whether E_a / rate_a < E_b / rate_b, forking if it is not known yet."""
    _same_scale(source, a, rate_a, b, rate_b)
    while True:
        line_a, line_b = a.line(), b.line()
        if a in line_b:
            return True
        if b in line_a:
            return False
        while line_a and line_b and line_a[-1] is line_b[-1]:
            line_a.pop()
            line_b.pop()
        x, y = line_a[-1], line_b[-1]
        both = x.total + y.total
        x_first = source.fork((x.total / both, y.total / both), Decided.RACE) == 0
        winner, loser = (x, y) if x_first else (y, x)
        if loser.parent is not None:
            loser.parent.children.remove(loser)
        _put_after(winner, loser)


def first_of(elements: "list[Any]", *, largest: bool) -> int | None:
    """Index of the largest or smallest of draws and numbers, by one fork with a branch for each.

    None, and nothing is decided, unless the draws are fresh, of one law, and race to come
    first, and no number can win.
    """
    draws = [(i, x) for i, x in enumerate(elements) if hasattr(x, "form")]
    numbers = [x for x in elements if not hasattr(x, "form")]
    fresh = {id(x.atom) for _, x in draws if _is_fresh(x)}
    if len(fresh) < max(2, len(draws)):
        return None
    try:
        entries = [x.form.race() for _, x in draws]
    except OverflowError:
        return None
    families = {
        (family, sense, x.form.flip)
        for (family, _, sense), (_, x) in zip(entries, draws, strict=True)
    }
    rates = [rate for _, rate, _ in entries]
    if len(families) > 1 or entries[0][2] != (-1 if largest else 1):
        return None
    if not all(0 < rate < math.inf for rate in rates):
        return None
    ranges = [x.range() for _, x in draws]
    if largest:
        beaten = all(c <= max(low for low, _ in ranges) for c in numbers)
    else:
        beaten = all(c >= min(high for _, high in ranges) for c in numbers)
    if not beaten:
        return None
    source = draws[0][1].source
    total = math.fsum(rates)
    if (
        math.fsum(x.machine.blur * r for (_, x), r in zip(draws, rates, strict=True))
        > RACES * total
    ):
        source.refuse("a race of draws that rounding swamps")
    source.slack += math.fsum(x.form.slack for _, x in draws)
    racers = [
        enter(source, x.atom, rate, x.form.flip) for (_, x), rate in zip(draws, rates, strict=True)
    ]
    won = source.fork([rate / total for rate in rates], Decided.SEVERAL)
    for loser in racers[:won] + racers[won + 1 :]:
        _put_after(racers[won], loser)
    index: int = draws[won][0]
    return index


def _is_fresh(draw: Any) -> bool:
    atom: Any = draw.atom
    return (
        atom.owner is None and (atom.low, atom.high) == (0, 1) and not draw.has_steps()
        and not hasattr(atom, "last")
    )  # fmt: skip


def _put_after(winner: Racer, loser: Racer) -> None:
    loser.parent = winner
    winner.children.append(loser)
    winner.total += loser.total


def _same_scale(source: "DrawnPath", a: Racer, rate_a: float, b: Racer, rate_b: float) -> None:
    """Bring two separate races to one time scale; within one race it must be the same."""
    scale = (rate_b / b.rate) / (rate_a / a.rate)
    if abs(scale - 1) <= RATE_TOLERANCE:
        return
    root_a, root_b = a.line()[-1], b.line()[-1]
    if root_a is root_b:
        source.refuse("noise that is raced twice with different weights")
    root_b.rescale(scale)
