"""Coins in, exact out: the law of code that takes its uniforms as arguments.

Such code is a deterministic map from the cube of its coins to tokens. Where it is monotone
in each coin, so that every output fills one interval of a coin while the others are held, it
is constant on a box as soon as it is equal at the box's corners. Boxes are split where their
edges change until that is so; the boundaries are found to the last bit of a coin.
"""

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify.auditing.exact.coins.coin_boxes import Box, Point, kronecker, moved
from simverify.symbolic.enumeration.endings import Tokens

Coins = npt.NDArray[np.float64]

MAX_CALLS = 100_000
PROBES = 8
"""Interior points tried in every box that is taken to be constant."""

SLIVER = 1 / 64
"""A split that cuts off less than this share of an edge is followed by splits in the middle:
where a boundary is not parallel to the axes, exact splits would only shave it."""


HIDDEN = (
    "two calls with the same coins gave different tokens: the code draws more than its coins, "
    "use the sampled tier"
)


class NotMonotone(Exception):
    """An output comes back along a coin: bisection cannot find where.

    ``coin`` is the coin's index; ``points`` are three values of it in ascending order, the
    others being held at ``held``: the outer two give ``outer``, the one between ``inner``.
    """

    def __init__(
        self, coin: int, points: tuple[float, float, float], held: tuple[float, ...],
        outer: Tokens, inner: Tokens,
    ) -> None:  # fmt: skip
        low, mid, high = points
        super().__init__(
            f"coin {coin} is not monotone: {low:.17g} and {high:.17g} give {outer} but "
            f"{mid:.17g} gives {inner} (all coins {held}): use the sampled tier"
        )
        self.coin, self.points, self.held = coin, points, held
        self.outer, self.inner = outer, inner


class TooManyCalls(Exception):
    """The budget ended before the first box was settled."""

    def __init__(self, budget: int, coins: int) -> None:
        super().__init__(
            f"max_calls={budget} is less than the {2**coins} corners of {coins} coins: raise it "
            "or audit a shorter draft"
        )
        self.budget = budget


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
) -> CoinLaw:
    """Exact law of ``function(u)`` for u uniform on [0, 1)^coins, by bisection of each coin.

    Parameters
    ----------
    function
        Deterministic; takes float64 (coins,) in [0, 1) and returns a tuple of int.
    coins
        Number of coins: at least 1. Every box costs up to 2^coins calls.
    bits
        Coins are multiples of 2^-bits: 24 for code that reads them as float32.
    max_calls
        Budget of calls; what is left unsettled at its end is reported, largest boxes first.
    probes
        Interior points tried per box.

    Raises
    ------
    NotMonotone
        With the coin and three points that show it.
    TooManyCalls
        The budget does not reach the corners of the cube.
    ValueError
        A parameter is out of range, or two calls with the same coins differ.
    """
    _law_iv(coins, bits, max_calls, probes)
    return _Search(function, coins, bits, max_calls, probes).run()


class _Spent(Exception):
    """The budget of calls is used up."""


class _Search:
    """One search: the function, its budget and what it has given so far."""

    def __init__(
        self, function: Callable[[Coins], Tokens], coins: int, bits: int, max_calls: int,
        probes: int,
    ) -> None:  # fmt: skip
        self._function, self._coins, self._scale = function, coins, 2**bits
        self._max_calls, self._probes = max_calls, probes
        self._calls = self._tried = 0

    def run(self) -> CoinLaw:
        top = self._scale - 1
        whole = Box((0,) * self._coins, (top,) * self._coins, {})
        if 2**self._coins + 1 > self._max_calls:
            raise TooManyCalls(self._max_calls, self._coins)
        if self._call(whole.low) != self._call(whole.low):
            raise ValueError(HIDDEN)
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
                cells += 1
        unresolved = math.fsum(-mass for mass, *_ in queue)
        law = {tokens: math.fsum(parts) for tokens, parts in sorted(masses.items())}
        # Each boundary lies between two grid points; nothing was tried above the last ones.
        error = math.fsum(edges) + self._coins / self._scale + unresolved
        return CoinLaw(law, error, unresolved, self._calls, cells, self._tried)

    def _split(self, box: Box) -> tuple[tuple[Box, ...], float]:
        """Cut ``box`` where an edge changes; () if it is constant. Also the cut's area."""
        values = [(corner, self._at(box, corner)) for corner in box.corners()]
        if all(tokens == values[0][1] for _, tokens in values):
            self._confirm(box, values[0][1])
            return (), 0.0
        axis, corner = self._edge(box, values)
        low, high = box.low[axis], box.high[axis]
        if box.halvings and high - low > 1:
            return box.cut(axis, (low + high) // 2, box.slivers, box.halvings - 1), 0.0
        last = self._bisect(box, axis, corner)
        thin = min(last - low + 1, high - last) < SLIVER * (high - low + 1)
        slivers = box.slivers + thin
        face = box.share(self._scale) * self._scale / (high - low + 1)
        return box.cut(axis, last, slivers, slivers if thin else 0), face

    def _edge(self, box: Box, values: list[tuple[Point, Tokens]]) -> tuple[int, Point]:
        """Return the longest axis with an edge that changes, and the edge's lower corner."""
        at = dict(values)
        lengths = [b - a for a, b in zip(box.low, box.high, strict=True)]
        for axis in sorted(range(self._coins), key=lambda i: -lengths[i]):
            for corner, tokens in values:
                if corner[axis] != box.low[axis]:
                    continue
                if at[moved(corner, axis, box.high[axis])] != tokens:
                    return axis, corner
        raise AssertionError("corners differ, so an edge does")

    def _bisect(self, box: Box, axis: int, corner: Point) -> int:
        """Return the last grid point along the edge that still gives its lower end's tokens."""
        low, high = corner[axis], box.high[axis]
        while high - low > 1:
            mid = (low + high) // 2
            same = self._at(box, moved(corner, axis, mid)) == box.known[corner]
            low, high = (mid, high) if same else (low, mid)
        return low

    def _confirm(self, box: Box, tokens: Tokens) -> None:
        """Try points inside a box whose corners agree; so far it is constant by assumption."""
        sizes = [b - a + 1 for a, b in zip(box.low, box.high, strict=True)]
        for n in range(self._probes if max(sizes) > 2 else 0):
            steps = kronecker(n + 1, self._coins)
            inside = zip(box.low, sizes, steps, strict=True)
            self._at(box, tuple(a + int(size * step) for a, size, step in inside))
            self._tried += 1
        for point, found in box.known.items():
            if found != tokens:
                self._witness(box, point)

    def _witness(self, box: Box, point: Point) -> None:
        """Raise :class:`NotMonotone` for a box whose corners agree and ``point`` does not.

        Coordinates are moved to the box's sides one after another, keeping the output apart;
        at a corner that is impossible, so one coin's two sides must both bring it back: it is
        the witness. The budget does not stop this.
        """
        tokens = box.known[box.low]
        if any(self._call(place) != box.known[place] for place in (point, box.low)):
            raise ValueError(HIDDEN)
        for axis in range(self._coins):
            ends = [moved(point, axis, k) for k in (box.low[axis], box.high[axis])]
            values = [self._call(end) for end in ends]
            if values == [tokens, tokens]:
                low, mid, high = (p[axis] / self._scale for p in (ends[0], point, ends[1]))
                held = tuple(k / self._scale for k in point)
                raise NotMonotone(axis, (low, mid, high), held, tokens, self._call(point))
            point = ends[0] if values[0] != tokens else ends[1]
        raise ValueError(HIDDEN)

    def _at(self, box: Box, point: Point) -> Tokens:
        if point not in box.known:
            if self._calls >= self._max_calls:
                raise _Spent
            box.known[point] = self._call(point)
        return box.known[point]

    def _call(self, point: Point) -> Tokens:
        self._calls += 1
        return tuple(self._function(np.array(point, dtype=np.float64) / self._scale))


def _law_iv(coins: int, bits: int, max_calls: int, probes: int) -> None:
    if not 1 <= coins <= 16:
        raise ValueError(f"coins={coins}: from 1 to 16 coins can be bisected")
    if not 1 <= bits <= 53:
        raise ValueError(f"bits={bits}: from 1 to 53, 24 for float32 coins")
    if probes < 1:
        raise ValueError(f"probes={probes}: at least 1, or monotonicity goes unchecked")
