"""Coins in, exact out: the law of code that takes its uniforms as arguments.

Such code is a deterministic map from the cube of its coins to tokens. Where it is monotone
in each coin, so that every output fills one interval of a coin while the others are held, it
is constant on a box as soon as it is equal at the box's corners. Boxes are split where their
edges change until that is so; the boundaries are found to the last bit of a coin.
"""

import heapq
import itertools
import math
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify.auditing.exact.coins.coin_boxes import Box, Point, kronecker, moved
from simverify.auditing.exact.coins.coin_errors import Hidden, NotMonotone, ReadsMore, TooManyCalls
from simverify.symbolic.enumeration.endings import Tokens

Coins = npt.NDArray[np.float64]

MAX_CALLS = 100_000
PROBES = 8
"""Interior points tried in every box that is taken to be constant."""

SLIVER = 1 / 64
"""A split that cuts off less than this share of an edge is followed by splits in the middle:
where a boundary is not parallel to the axes, exact splits would only shave it."""


@dataclass(frozen=True)
class CoinLaw:
    """The law of what ``function`` emits when its coins are independent and uniform.

    ``probabilities`` maps tokens to probability. For coins of the grid of multiples of
    2^-bits each is short by at most ``unresolved``: the mass of boxes that the budget left
    unsettled, zero unless boundaries are not parallel to the axes. For coins of any finer grid
    each is off by at most ``error``, which includes that.

    ``cells`` counts the settled boxes, ``probes`` the interior points at which monotonicity
    was confirmed; it rests on those, not on a proof.
    """

    probabilities: dict[Tokens, float]
    error: float
    unresolved: float
    calls: int
    cells: int
    probes: int


def law_from_coins(
    function: Callable[[Coins], Tokens],
    coins: int,
    *,
    bits: int = 53,
    max_calls: int = MAX_CALLS,
    probes: int = PROBES,
    used: Callable[[], int] | None = None,
    each: Callable[[Box, Tokens], None] | None = None,
    cuts: list[int] | None = None,
) -> CoinLaw:
    """Exact law of ``function(u)`` for u uniform on [0, 1)^coins, by bisection of each coin.

    Parameters
    ----------
    function
        Deterministic; takes float64 (coins,) in [0, 1) and returns a tuple of int.
    coins
        Number of coins: at least 1. Every box costs up to 2^coins calls, 2^used where that is
        known.
    bits
        Coins are multiples of 2^-bits: 24 for code that reads them as float32.
    max_calls
        Budget of calls; what is left unsettled at its end is reported, largest boxes first.
    probes
        Interior points tried per box.
    used
        How many coins, from the first on, the last call read: the others change nothing. None:
        nobody knows, and they all may.
    each
        Is told of every box that is constant.
    cuts
        Boundaries that other laws of the code have, sorted: they are tried first, and new ones
        are added. They save calls, and change nothing else.

    Raises
    ------
    NotMonotone
        With the coin and three points that show it.
    ReadsMore
        A coin beyond ``used`` changed the tokens.
    TooManyCalls
        The budget does not reach the corners of the cube.
    ValueError
        A parameter is out of range, or two calls with the same coins differ.
    """
    _law_iv(coins, bits, max_calls, probes, known=used is not None)
    return _Search(
        function, coins, bits, max_calls, probes, used, [] if cuts is None else cuts
    ).run(each or _told)


def _told(_box: Box, _tokens: Tokens) -> None:
    """Nobody asked."""


class _Spent(Exception):
    """The budget of calls is used up."""


class _Search:
    """One search: the function, its budget and what it has given so far."""

    def __init__(
        self, function: Callable[[Coins], Tokens], coins: int, bits: int, max_calls: int,
        probes: int, used: Callable[[], int] | None, cuts: list[int],
    ) -> None:  # fmt: skip
        self._function, self._coins, self._scale = function, coins, 2**bits
        self._max_calls = max_calls
        self._steps = [kronecker(n + 1, coins) for n in range(probes)]
        self._used = used or (lambda: coins)
        self._known = used is not None
        self._reads: dict[Point, int] = {}
        self._cuts = cuts
        self._calls = self._tried = 0

    def run(self, each: Callable[[Box, Tokens], None]) -> CoinLaw:
        top = self._scale - 1
        whole = Box((0,) * self._coins, (top,) * self._coins, {})
        if not self._known and 2**self._coins + 1 > self._max_calls:
            raise TooManyCalls(self._max_calls, self._coins)
        if self._call(whole.low) != self._call(whole.low):
            raise Hidden
        queue = [(-1.0, 0, whole)]
        order = itertools.count(1)
        masses: dict[Tokens, list[float]] = {}
        edges: list[float] = []
        cells = 0
        while queue:
            mass, _, box = heapq.heappop(queue)
            try:
                parts, face = self._split(box)
            except _Spent:
                heapq.heappush(queue, (mass, 0, box))
                break
            if parts:
                edges.append(face / self._scale)
                for part in parts:
                    heapq.heappush(queue, (-part.share(self._scale), next(order), part))
            else:
                masses.setdefault(box.known[box.low], []).append(-mass)
                each(box, box.known[box.low])
                cells += 1
        unresolved = math.fsum(-mass for mass, *_ in queue)
        law = {tokens: math.fsum(parts) for tokens, parts in sorted(masses.items())}
        # Each boundary lies between two grid points; nothing was tried above the last ones.
        error = math.fsum(edges) + self._coins / self._scale + unresolved
        return CoinLaw(law, error, unresolved, self._calls, cells, self._tried)

    def _split(self, box: Box) -> tuple[tuple[Box, ...], float]:
        """Cut ``box`` where an edge changes; () if it is constant. Also the cut's area."""
        values, axes = self._corners(box)
        if all(tokens == values[0][1] for _, tokens in values):
            self._confirm(box, values[0][1], axes)
            return (), 0.0
        axis, corner = self._edge(box, values, axes)
        low, high = box.low[axis], box.high[axis]
        if box.halvings and high - low > 1:
            return box.cut(axis, (low + high) // 2, box.slivers, box.halvings - 1), 0.0
        last = self._bisect(box, axis, corner)
        thin = min(last - low + 1, high - last) < SLIVER * (high - low + 1)
        slivers = box.slivers + thin
        face = box.share(self._scale) * self._scale / (high - low + 1)
        return box.cut(axis, last, slivers, slivers if thin else 0), face

    def _corners(self, box: Box) -> tuple[list[tuple[Point, Tokens]], int]:
        """Return the corners with their tokens, and the number of coins that any of them read.

        Those behind are held at their low ends: they change nothing.
        """
        axes = -1
        most = 0 if self._known else self._coins
        while axes < most:
            axes = most
            corners = list(box.corners(axes))
            values = [(corner, self._at(box, corner)) for corner in corners]
            most = max(self._reads[corner] for corner in corners)
        return values, axes

    def _edge(self, box: Box, values: list[tuple[Point, Tokens]], axes: int) -> tuple[int, Point]:
        """Return the longest axis with an edge that changes, and the edge's lower corner."""
        at = dict(values)
        lengths = [b - a for a, b in zip(box.low, box.high, strict=True)]
        for axis in sorted(range(axes), key=lambda i: -lengths[i]):
            for corner, tokens in values:
                if corner[axis] != box.low[axis]:
                    continue
                if at[moved(corner, axis, box.high[axis])] != tokens:
                    return axis, corner
        raise AssertionError("corners differ, so an edge does")

    def _bisect(self, box: Box, axis: int, corner: Point) -> int:
        """Return the last grid point along the edge that still gives its lower end's tokens."""
        low, high = corner[axis], box.high[axis]

        def same(value: int) -> bool:
            return self._at(box, moved(corner, axis, value)) == box.known[corner]

        known = self._cuts[bisect_left(self._cuts, low) : bisect_left(self._cuts, high)]
        while known and high - low > 1:
            # What was found in another box is as likely here: half of all calls are saved.
            middle = len(known) // 2
            cut = known[middle]
            if cut > low and not same(cut):
                high, known = cut, known[:middle]
            elif cut + 1 < high and same(cut + 1):
                low, known = cut + 1, known[middle + 1 :]
            else:
                return cut
        while high - low > 1:
            mid = (low + high) // 2
            low, high = (mid, high) if same(mid) else (low, mid)
        insort(self._cuts, low)
        return low

    def _confirm(self, box: Box, tokens: Tokens, axes: int) -> None:
        """Try points inside a box whose corners agree; so far it is constant by assumption."""
        sizes = [b - a + 1 for a, b in zip(box.low, box.high, strict=True)]
        for steps in self._steps if max(sizes) > 2 else ():
            inside = zip(box.low, sizes, steps, strict=True)
            self._at(box, tuple(a + int(size * step) for a, size, step in inside))
            self._tried += 1
        for point, found in box.known.items():
            if found != tokens:
                self._witness(box, point, axes)

    def _witness(self, box: Box, point: Point, axes: int) -> None:
        """Raise :class:`NotMonotone` for a box whose corners agree and ``point`` does not.

        Coordinates are moved to the box's sides one after another, keeping the output apart;
        at a corner that is impossible, so one coin's two sides must both bring it back: it is
        the witness. The budget does not stop this.
        """
        tokens = box.known[box.low]
        if any(self._call(place) != box.known[place] for place in (point, box.low)):
            raise Hidden
        flat = point[:axes] + box.low[axes:]
        if self._call(flat) == tokens:
            raise ReadsMore(axes, tokens, box.known[point])
        point = flat
        for axis in range(axes):
            ends = [moved(point, axis, k) for k in (box.low[axis], box.high[axis])]
            values = [self._call(end) for end in ends]
            if values == [tokens, tokens]:
                low, mid, high = (p[axis] / self._scale for p in (ends[0], point, ends[1]))
                held = tuple(k / self._scale for k in point)
                raise NotMonotone(axis, (low, mid, high), held, tokens, self._call(point))
            point = ends[0] if values[0] != tokens else ends[1]
        raise Hidden

    def _at(self, box: Box, point: Point) -> Tokens:
        if point not in box.known:
            if self._calls >= self._max_calls:
                raise _Spent
            box.known[point] = self._call(point)
        return box.known[point]

    def _call(self, point: Point) -> Tokens:
        self._calls += 1
        tokens = tuple(self._function(np.array(point, dtype=np.float64) / self._scale))
        self._reads[point] = self._used()
        return tokens


MOST_COINS = 16
"""Coins that can be bisected where all of them may count."""

MOST_KNOWN = 64
"""And where the code says how many it read."""


def _law_iv(coins: int, bits: int, max_calls: int, probes: int, *, known: bool) -> None:
    most = MOST_KNOWN if known else MOST_COINS
    if not 1 <= coins <= most:
        raise ValueError(f"coins={coins}: from 1 to {most} coins can be bisected")
    if not 1 <= bits <= 53:
        raise ValueError(f"bits={bits}: from 1 to 53, 24 for float32 coins")
    if probes < 1:
        raise ValueError(f"probes={probes}: at least 1, or monotonicity goes unchecked")
