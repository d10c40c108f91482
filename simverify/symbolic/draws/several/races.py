"""Exponential races: which of several E_i / w_i comes first, decided two at a time.

The known order of the racers is kept as a forest in which a parent came before its
children. Exponentials have no memory, so given its parent a subtree's first arrival is a
fresh exponential whose rate is the subtree's total; any two subtrees under one parent are
then compared with weights in proportion to their totals. Every question about the order
(argmin, sort, top-k) is answered exactly, and an answer never changes.

Where the same exponentials are raced again with other weights, what the forest knows becomes
inequalities between them, and the rest is computed from those (:mod:`.noise`).
"""

import math
from typing import TYPE_CHECKING, Any, cast

from simverify.symbolic.draws.path import Decided
from simverify.symbolic.draws.several.noise import After, Noise, TooManyPieces
from simverify.symbolic.draws.values.machine import RACES
from simverify.symbolic.errors import TooLarge

if TYPE_CHECKING:
    import numpy as np

    from simverify.symbolic.draws.path import Atom, DrawnPath

RATE_TOLERANCE = 1e-9


class Racer:
    """One exponential in the forest; ``flip`` if it is that of 1 - u.

    ``noise``: what is known of it, once it was raced with other weights; it then has left the
    forest.
    """

    __slots__ = ("children", "flip", "noise", "parent", "rate", "total")

    def __init__(self, rate: float, flip: bool) -> None:
        self.rate = rate
        self.total = rate
        self.flip = flip
        self.parent: Racer | None = None
        self.children: list[Racer] = []
        self.noise: Noise | None = None

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
        if self.noise is not None:
            if self not in arrivals:
                arrivals.update(cast("dict[Racer, float]", self.noise.sample(rng)))
            return self._uniform(arrivals[self])
        for racer in reversed(self.line()):
            if racer not in arrivals:
                start = 0.0 if racer.parent is None else arrivals[racer.parent]
                arrivals[racer] = start + rng.exponential() / racer.total
        return self._uniform(arrivals[self] * self.rate)

    def known(self) -> "list[After]":
        """Return what is known of it and of all that were compared with it."""
        if self.noise is not None:
            return self.noise.known
        found, waiting = [], [self.line()[-1]]
        while waiting:
            early = waiting.pop()
            waiting += early.children
            found += [After(early, late, late.rate / early.rate) for late in early.children]
        return found

    def _uniform(self, e: float) -> float:
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
    if not _same_scale(a, rate_a, b, rate_b):
        return _first_of_noise(source, [a, b], [rate_a, rate_b]) == 0
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

    None, and nothing is decided, unless the draws are of one law, and race to come first, and
    no number can win; they are fresh, or some were raced before, with other weights.
    """
    draws = [(i, x) for i, x in enumerate(elements) if hasattr(x, "form")]
    numbers = [x for x in elements if not hasattr(x, "form")]
    apart = {id(x.atom) for _, x in draws if _can_race(x)}
    if len(apart) < max(2, len(draws)):
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
    raced = any(x.atom.owner is not None for _, x in draws)
    if raced and _is_of_one_scale([x.atom.owner for _, x in draws], rates):
        return None  # two at a time: much of the order may be known
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
    if raced:
        won = _first_of_noise(source, racers, rates)
    else:
        won = source.fork([rate / total for rate in rates], Decided.SEVERAL)
        for loser in racers[:won] + racers[won + 1 :]:
            _put_after(racers[won], loser)
    index: int = draws[won][0]
    return index


def _can_race(draw: Any) -> bool:
    """Whether nothing is known of a draw but how it came out in races."""
    atom: Any = draw.atom
    return (
        isinstance(atom.owner, Racer | None) and (atom.low, atom.high) == (0, 1)
        and not draw.has_steps() and not hasattr(atom, "last")
    )  # fmt: skip


def _is_of_one_scale(racers: list[Racer | None], rates: list[float]) -> bool:
    """Whether those that are in one race already are raced with the weights of that race."""
    scales: dict[Racer, float] = {}
    for racer, rate in zip(racers, rates, strict=True):
        if racer is None:
            continue
        if racer.noise is not None:
            return False
        scale = scales.setdefault(racer.line()[-1], rate / racer.rate)
        if abs(rate / racer.rate / scale - 1) > RATE_TOLERANCE:
            return False
    return True


def _put_after(winner: Racer, loser: Racer) -> None:
    loser.parent = winner
    winner.children.append(loser)
    winner.total += loser.total


def _same_scale(a: Racer, rate_a: float, b: Racer, rate_b: float) -> bool:
    """Bring two separate races to one time scale; within one race it may be another: false."""
    if a.noise is not None or b.noise is not None:
        return False
    scale = (rate_b / b.rate) / (rate_a / a.rate)
    if abs(scale - 1) <= RATE_TOLERANCE:
        return True
    root_a, root_b = a.line()[-1], b.line()[-1]
    if root_a is root_b:
        return False
    root_b.rescale(scale)
    return True


def _first_of_noise(source: "DrawnPath", racers: list[Racer], rates: list[float]) -> int:
    """Return which of E_i / rate_i comes first, where other races were decided among them."""
    known = list(dict.fromkeys(after for racer in racers for after in racer.known()))
    noise = Noise(known)
    options = [
        [After(x, y, s / r) for y, s in zip(racers, rates, strict=True) if y is not x]
        for x, r in zip(racers, rates, strict=True)
    ]
    try:
        masses = noise.masses(options)
    except TooManyPieces:
        source.refuse("noise that is raced many times with different weights", TooLarge)
    if not (total := math.fsum(masses)):
        source.refuse("noise whose races rounding cannot tell apart")
    won = source.fork([mass / total for mass in masses], Decided.SEVERAL)
    noise.learn(options[won])
    for after in noise.known:
        for racer in (after.early, after.late):
            cast("Racer", racer).noise = noise
    return won
