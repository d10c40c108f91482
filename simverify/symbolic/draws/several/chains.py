"""Products of independent uniforms, compared with numbers one factor after another.

Write each factor as exp(-E). The k-th partial product is exp(-S_k), S_k = E_1 + .. + E_k,
and given all earlier comparisons S_k has density exp(-s) g(s) with g piecewise polynomial,
so a comparison of ``u1 * u2 * .. * uk`` with a number has an exact weight.
"""

import math
from typing import NoReturn

from simverify.symbolic.draws.path import Atom, Decided, DrawnPath

Coefficients = tuple[float, ...]
"""A polynomial, constant first."""

Piece = tuple[float, float, Coefficients]
"""``g`` on [start, end)."""


class Chain:
    """A partial product v = previous * last, v = exp(-S) in (0, 1); acts as an atom.

    ``low`` and ``high`` bound v. A comparison that splits it owns its factors: they can no
    longer be split alone, because they are no longer independent.
    """

    single = False
    points = 0

    __slots__ = ("_high", "_low", "_pieces", "last", "owner", "previous", "source")

    def __init__(self, source: DrawnPath, previous: Atom, last: Atom) -> None:
        self.source = source
        self.previous = previous
        self.last = last
        self.owner: object | None = None
        self._pieces: list[Piece] | None = None
        self._low = 0.0
        self._high = 1.0

    @property
    def low(self) -> float:
        """Lower bound of the product."""
        return self._low

    @property
    def high(self) -> float:
        """Upper bound of the product."""
        return min(self._high, self.previous.high)

    def factors(self) -> list[Atom]:
        """Return the uniforms in the product, in order."""
        before = self.previous.factors() if isinstance(self.previous, Chain) else [self.previous]
        return [*before, self.last]

    def split(self, bound: float) -> bool:
        """Whether the product is below ``bound``, strictly inside (low, high)."""
        if self.owner is not None:
            self.source.refuse("a product of draws that was compared after a longer one")
        pieces = self._density()
        cut = -math.log(bound)
        beyond, within = _mass(pieces, cut, math.inf), _mass(pieces, 0.0, cut)
        total = beyond + within
        shares = beyond / total, within / total
        below = self.source.fork(shares, Decided.BOUND) == 0
        keep = (cut, math.inf) if below else (0.0, cut)
        self._pieces = _restrict(pieces, *keep, beyond if below else within)
        if below:
            self._high = bound
        else:
            self._low = bound
        self.source.products.append((self, bound, below))
        return below

    def check_epoch(self) -> None:
        """Refuse a product of draws of an earlier path."""
        self.last.check_epoch()

    def span(self) -> NoReturn:
        """Refuse: a product lies on no grid."""
        self.source.refuse("the rounding of a product or sum of draws")

    def locate(self, cuts: list[float]) -> NoReturn:
        """Refuse: a product is compared with one number at a time."""
        self.source.refuse("the integer part of a product of draws")

    def _density(self) -> list[Piece]:
        if self._pieces is None:
            for link in (self.previous, self.last):
                if link.owner is not None:
                    self.source.refuse("a product of draws that were already used together")
            if self.last.low > 0 or self.last.high < 1:
                self.source.refuse("a product with a draw that was compared before")
            self._pieces = _cumulate(_pieces_of(self.previous))
            self.previous.owner = self
            self.last.owner = self
        return self._pieces


def _pieces_of(link: Atom) -> list[Piece]:
    if isinstance(link, Chain):
        return link._density()
    end = math.inf if link.low <= 0 else -math.log(link.low)
    return [(-math.log(link.high), end, (1 / (link.high - link.low),))]


def _cumulate(pieces: list[Piece]) -> list[Piece]:
    """Add a fresh exponential: the new g at s is the integral of the old one up to s."""
    out: list[Piece] = []
    total = 0.0
    for start, end, g in pieces:
        if out and out[-1][1] < start:
            out.append((out[-1][1], start, (total,)))
        integral = (0.0, *(c / (i + 1) for i, c in enumerate(g)))
        integral = (total - _at(integral, start), *integral[1:])
        out.append((start, end, integral))
        if end < math.inf:
            total = _at(integral, end)
    if out[-1][1] < math.inf:
        out.append((out[-1][1], math.inf, (total,)))
    return out


def _restrict(pieces: list[Piece], low: float, high: float, mass: float) -> list[Piece]:
    return [
        (max(start, low), min(end, high), tuple(c / mass for c in g))
        for start, end, g in pieces
        if max(start, low) < min(end, high)
    ]


def _mass(pieces: list[Piece], low: float, high: float) -> float:
    return math.fsum(
        _tail(g, max(start, low)) - _tail(g, min(end, high))
        for start, end, g in pieces
        if max(start, low) < min(end, high)
    )


def _tail(g: Coefficients, s: float) -> float:
    """Integral of exp(-t) g(t) from s to infinity: exp(-s) times g + g' + g'' + ..."""
    if s == math.inf:
        return 0.0
    total = 0.0
    while g:
        total += _at(g, s)
        g = tuple(i * c for i, c in enumerate(g))[1:]
    return math.exp(-s) * total


def _at(g: Coefficients, s: float) -> float:
    value = 0.0
    for c in reversed(g):
        value = value * s + c
    return value
