"""Verifiers that take their coins as arguments: their exact law, by bisection of the cube of coins.

Such code is a deterministic map from the cube of its coins to tokens. Where it is monotone
in each coin, so that every output fills one interval of a coin while the others are held, it
is constant on a box as soon as it is equal at the box's corners. Boxes are split where their
edges change until that is so; the boundaries are found to the last bit of a coin.
"""

import heapq
import itertools
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Row
from simverify.auditing.comparison import Comparison, compare_laws
from simverify.auditing.coverage import call_monitored
from simverify.auditing.enumeration import TargetAndDraft, check_token_ids, read_tokens
from simverify.errors import SimverifyError
from simverify.symbolic import ExactLaw
from simverify.symbolic.outcomes import InvalidTokens, Tokens, describe_exception
from simverify.symbolic.provenance import CallBroken, CannotEnumerate, Finding, OutOfTime
from simverify.symbolic.watchdog import DeadlineExpired, Stopwatch, is_user_interrupt, monotonic_now

GridPoint = tuple[int, ...]  # one grid point: coin i is ``point[i]`` * 2^-bits


@dataclass(frozen=True)
class Box:
    """Coins k with low <= k <= high on the grid."""

    low: GridPoint
    high: GridPoint
    known: dict[GridPoint, Tokens]  # points tried inside it
    slivers: int = 0  # thin splits on the way here
    halvings: int = 0  # middle splits due

    def corners(self, axes: int) -> Iterator[GridPoint]:
        """Yield the corners along the first ``axes`` axes, each once, the others being low."""
        sides = [sorted({a, b}) for a, b in zip(self.low, self.high, strict=True)]
        return itertools.product(*sides[:axes], *([low] for low in self.low[axes:]))

    def cut(self, axis: int, last: int, slivers: int, halvings: int) -> "tuple[Box, Box]":
        """Split between ``last`` and ``last`` + 1 along ``axis``."""
        high = (*self.high[:axis], last, *self.high[axis + 1 :])
        low = (*self.low[:axis], last + 1, *self.low[axis + 1 :])
        left = {k: v for k, v in self.known.items() if k[axis] <= last}
        right = {k: v for k, v in self.known.items() if k[axis] > last}
        lower = Box(self.low, high, left, slivers, halvings)
        return lower, Box(low, self.high, right, slivers, halvings)

    def share(self, scale: int) -> float:
        """Return the box's part of the cube, which has ``scale`` grid points along each axis."""
        sizes = zip(self.low, self.high, strict=True)
        return math.prod((float(b - a + 1) / scale for a, b in sizes), start=1.0)


def with_coordinate(point: GridPoint, axis: int, value: int) -> GridPoint:
    """Return ``point`` with ``value`` in the place of coordinate ``axis``."""
    return (*point[:axis], value, *point[axis + 1 :])


def kronecker_point(n: int, dimensions: int) -> list[float]:
    """Point n of the R_d sequence: even in every dimension, no point repeated."""
    root = 2.0
    for _ in range(32):
        root = (1 + root) ** (1 / (dimensions + 1))
    return [(0.5 + n * root ** -(i + 1)) % 1 for i in range(dimensions)]


class HiddenRandomness(ValueError):
    """Two calls with the same coins gave different tokens."""

    def __init__(self) -> None:
        super().__init__(
            "two calls with the same coins gave different tokens: the code draws more than its "
            "coins, use the sampled tier"
        )


class UndeclaredCoins(Exception):
    """Coins that the code says it does not read change its tokens: from number ``first`` on."""

    def __init__(self, first: int, before: Tokens, after: Tokens) -> None:
        super().__init__(
            f"says that it read {first} coins, and later ones change its tokens from {before} to "
            f"{after}"
        )


class NotMonotone(Exception):
    """An output comes back along a coin: bisection cannot find where.

    Of the values ``points`` of coin ``coin``, the outer two give ``outer``, the middle ``inner``.
    """

    def __init__(
        self,
        coin: int,
        points: tuple[float, float, float],
        held: tuple[float, ...],
        outer: Tokens,
        inner: Tokens,
    ) -> None:
        low, mid, high = points
        super().__init__(
            f"coin {coin} is not monotone: {low:.17g} and {high:.17g} give {outer} but "
            f"{mid:.17g} gives {inner} (all coins {held}): use the sampled tier"
        )
        self.coin, self.points, self.held, self.outer, self.inner = coin, points, held, outer, inner


class TooManyCalls(Exception):
    """The budget ended before the first box was settled."""

    def __init__(self, budget: int, coins: int) -> None:
        super().__init__(
            f"max_calls={budget} is less than the {2**coins} corners of {coins} coins: raise it "
            "or audit a shorter draft"
        )


BISECTION_FAILURES = (NotMonotone, HiddenRandomness, UndeclaredCoins, CallBroken)
"""What stops the tier: the code as a whole, and not the size of one instance."""


class ContractBroken(CannotEnumerate):
    """Calls broke their contract so that nothing more can be asked; ``line``: what was asked."""

    def __init__(self, finding: Finding, line: str | None) -> None:
        super().__init__("code whose calls are broken", "", (finding,))
        self.line = line


def bisection_limit(error: Exception, name: str) -> CannotEnumerate:
    """Return what stopped the tier on an instance; a broken contract comes with its finding."""
    if isinstance(error, NotMonotone):
        return CannotEnumerate(f"coins: {error}")
    kind = "coins" if isinstance(error, UndeclaredCoins) else "own-randomness"
    kind = error.kind if isinstance(error, CallBroken) else kind
    finding = Finding(kind, "violation", f"{error}, on {name}")
    return ContractBroken(finding, getattr(error, "line", None))


Coins = npt.NDArray[np.float64]

MAX_CALLS = 100_000
PROBES_PER_BOX = 8  # interior points tried in every box that is taken to be constant
MIN_SPLIT_SHARE = 1 / 64
"""After a split that cuts off less of an edge come splits in the middle: exact ones would only
shave a boundary that is not parallel to the axes."""


@dataclass(frozen=True)
class CoinLaw:
    """The law of what ``function`` emits when its coins are independent and uniform."""

    probabilities: dict[Tokens, float]
    error: float  # of each for coins of any finer grid, at most; it includes ``unresolved``
    # Mass of boxes that the budget left unsettled: by so much each is short at most, for coins of
    # the grid of multiples of 2^-bits. Zero unless boundaries are not parallel to the axes.
    unresolved: float
    calls: int
    cells: int  # settled boxes
    probes: int  # interior points that confirmed monotonicity; it rests on these, not on a proof


def bisect_law(
    function: Callable[[Coins], Tokens],
    coins: int,
    *,
    bits: int = 53,
    max_calls: int = MAX_CALLS,
    probes: int = PROBES_PER_BOX,
    used: Callable[[], int] | None = None,
    each: Callable[[Box, Tokens], None] | None = None,
    cuts: list[int] | None = None,
) -> CoinLaw:
    """Exact law of ``function(u)`` for u uniform on [0, 1)^coins, by bisection of each coin.

    ``function``: deterministic; takes float64 (coins,) in [0, 1) and returns a tuple of int. Every
    box costs up to 2^coins calls, 2^used where that is known. ``bits``: coins are multiples of
    2^-bits: 24 for code that reads them as float32. ``max_calls``: what it leaves unsettled is
    reported, largest boxes first. ``probes``: interior points tried per box. ``used``: how many
    coins, from the first on, the last call read; None if nobody knows. ``each`` is told of every
    constant box. ``cuts``: sorted boundaries of other laws of the code, tried first to save calls;
    new ones are added. Raises ``NotMonotone``, ``UndeclaredCoins`` if a coin beyond ``used``
    changed the tokens, ``TooManyCalls`` if the budget does not reach the corners of the cube, and
    ``ValueError`` if a parameter is out of range, or two calls with the same coins differ.
    """
    most = MAX_COINS if used is None else MAX_REPORTED_COINS
    if not 1 <= coins <= most:
        raise ValueError(f"coins={coins}: from 1 to {most} coins can be bisected")
    if not 1 <= bits <= 53:
        raise ValueError(f"bits={bits}: from 1 to 53, 24 for float32 coins")
    if probes < 1:
        raise ValueError(f"probes={probes}: at least 1, or monotonicity goes unchecked")
    steps = [kronecker_point(n + 1, coins) for n in range(probes)]
    cuts = [] if cuts is None else cuts
    search = _BisectionSearch(function, coins, 2**bits, max_calls, steps, used, cuts)
    return search.run(each or (lambda _box, _tokens: None))


MAX_COINS = 16  # coins that can be bisected where all of them may count
MAX_REPORTED_COINS = 64  # and where the code says how many it read


class _BudgetExhausted(Exception):
    pass


@dataclass(eq=False)
class _BisectionSearch:
    function: Callable[[Coins], Tokens]
    coins: int
    scale: int  # grid points along each axis
    max_calls: int
    steps: list[list[float]]  # points tried inside each box
    used: Callable[[], int] | None
    cuts: list[int]
    reads: dict[GridPoint, int] = field(default_factory=dict)
    calls: int = 0
    tried: int = 0

    def run(self, each: Callable[[Box, Tokens], None]) -> CoinLaw:
        top = self.scale - 1
        whole = Box((0,) * self.coins, (top,) * self.coins, {})
        if self.used is None and 2**self.coins + 1 > self.max_calls:
            raise TooManyCalls(self.max_calls, self.coins)
        if self._call(whole.low) != self._call(whole.low):
            raise HiddenRandomness
        queue = [(-1.0, 0, whole)]
        order = itertools.count(1)
        masses: dict[Tokens, list[float]] = {}
        edges: list[float] = []
        cells = 0
        while queue:
            mass, _, box = heapq.heappop(queue)
            try:
                parts, face = self._split(box)
            except _BudgetExhausted:
                heapq.heappush(queue, (mass, 0, box))
                break
            if parts:
                edges.append(face / self.scale)
                for part in parts:
                    heapq.heappush(queue, (-part.share(self.scale), next(order), part))
            else:
                masses.setdefault(box.known[box.low], []).append(-mass)
                each(box, box.known[box.low])
                cells += 1
        unresolved = math.fsum(-mass for mass, *_ in queue)
        law = {tokens: math.fsum(parts) for tokens, parts in sorted(masses.items())}
        # Each boundary lies between two grid points; nothing was tried above the last ones.
        error = math.fsum(edges) + self.coins / self.scale + unresolved
        return CoinLaw(law, error, unresolved, self.calls, cells, self.tried)

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
        thin = min(last - low + 1, high - last) < MIN_SPLIT_SHARE * (high - low + 1)
        slivers = box.slivers + thin
        face = box.share(self.scale) * self.scale / (high - low + 1)
        return box.cut(axis, last, slivers, slivers if thin else 0), face

    def _corners(self, box: Box) -> tuple[list[tuple[GridPoint, Tokens]], int]:
        """Return the corners with their tokens, and how many coins they read; the rest stay low."""
        axes = -1
        most = self.coins if self.used is None else 0
        while axes < most:
            axes = most
            corners = list(box.corners(axes))
            values = [(corner, self._at(box, corner)) for corner in corners]
            most = max(self.reads[corner] for corner in corners)
        return values, axes

    def _edge(
        self, box: Box, values: list[tuple[GridPoint, Tokens]], axes: int
    ) -> tuple[int, GridPoint]:
        """Return the longest axis with an edge that changes, and the edge's lower corner."""
        at = dict(values)
        for axis in sorted(range(axes), key=lambda i: box.low[i] - box.high[i]):
            for corner, tokens in values:
                end = with_coordinate(corner, axis, box.high[axis])
                if corner[axis] == box.low[axis] and at[end] != tokens:
                    return axis, corner
        raise AssertionError("corners differ, so an edge does")

    def _bisect(self, box: Box, axis: int, corner: GridPoint) -> int:
        """Return the last grid point along the edge that still gives its lower end's tokens."""
        low, high = corner[axis], box.high[axis]

        def same(value: int) -> bool:
            return self._at(box, with_coordinate(corner, axis, value)) == box.known[corner]

        known = self.cuts[bisect_left(self.cuts, low) : bisect_left(self.cuts, high)]
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
        insort(self.cuts, low)
        return low

    def _confirm(self, box: Box, tokens: Tokens, axes: int) -> None:
        """Try points inside a box whose corners agree; so far it is constant by assumption."""
        sizes = [b - a + 1 for a, b in zip(box.low, box.high, strict=True)]
        for steps in self.steps if max(sizes) > 2 else ():
            inside = zip(box.low, sizes, steps, strict=True)
            self._at(box, tuple(a + int(size * step) for a, size, step in inside))
            self.tried += 1
        for point, output in box.known.items():
            if output != tokens:
                self._witness(box, point, axes)

    def _witness(self, box: Box, point: GridPoint, axes: int) -> None:
        """Raise :class:`NotMonotone` for a box whose corners agree and ``point`` does not.

        Coordinates are moved to the box's sides one after another, keeping the output apart; the
        coin whose two sides both bring it back is the witness. The budget does not stop this.
        """
        tokens = box.known[box.low]
        if any(self._call(place) != box.known[place] for place in (point, box.low)):
            raise HiddenRandomness
        flat = point[:axes] + box.low[axes:]
        if self._call(flat) == tokens:
            raise UndeclaredCoins(axes, tokens, box.known[point])
        point = flat
        for axis in range(axes):
            ends = [with_coordinate(point, axis, k) for k in (box.low[axis], box.high[axis])]
            values = [self._call(end) for end in ends]
            if values == [tokens, tokens]:
                low, mid, high = (p[axis] / self.scale for p in (ends[0], point, ends[1]))
                held = tuple(k / self.scale for k in point)
                raise NotMonotone(axis, (low, mid, high), held, tokens, self._call(point))
            point = ends[0] if values[0] != tokens else ends[1]
        raise HiddenRandomness

    def _at(self, box: Box, point: GridPoint) -> Tokens:
        if point not in box.known:
            if self.calls >= self.max_calls:
                raise _BudgetExhausted
            box.known[point] = self._call(point)
        return box.known[point]

    def _call(self, point: GridPoint) -> Tokens:
        self.calls += 1
        tokens = tuple(self.function(np.array(point, dtype=np.float64) / self.scale))
        self.reads[point] = self.coins if self.used is None else self.used()
        return tokens


_CLOCK_INTERVAL = 16  # calls between two looks at the watch, once the time may have passed
CoinVerify = Callable[[Row, Row, npt.NDArray[np.int64], Row], Any]
"""``function(target_probs, draft_probs, draft_tokens, coins) -> tokens``: as ``verify``, with
``coins`` float64 (gamma+1,) in [0, 1), the last one for the residual or bonus token."""


def compare_coins(
    function: CoinVerify,
    model: TargetAndDraft,
    gamma: int,
    *,
    bits: int = 53,
    tolerance: float | None = None,
    max_calls: int = MAX_CALLS,
    probes: int = PROBES_PER_BOX,
    coins: int | None = None,
    seconds: float | None = None,
    expected: Callable[[Tokens], Row] | None = None,
) -> Comparison:
    """As ``comparison.compare_blocks``, for code that takes its coins as arguments.

    ``max_calls``: for all blocks together, shared evenly. ``coins``: of a call, gamma + 1 if None;
    an attribute ``used`` of the code says how many its last call read. ``Comparison.paths`` counts
    constant boxes. Raises as :func:`bisect_law`, ``OutOfTime`` after ``seconds``, and the code's
    ``CallBroken`` and ``SimverifyError``.
    """
    vocab = len(model.target(()))
    laws: list[tuple[Tokens, float, ExactLaw]] = []
    left, clock = max_calls, SearchDeadline(seconds)
    used = coin_counter(function)
    search = partial(bisect_law, bits=bits, probes=probes, used=used, cuts=[])
    for n, block in enumerate(itertools.product(range(vocab), repeat=gamma)):
        draft = np.array([model.draft(block[:i]) for i in range(gamma)])
        mass = float(np.prod(draft[np.arange(gamma), block]))
        if mass <= 0:
            continue
        target = np.array([model.target(block[:i]) for i in range(gamma + 1)])
        call = CheckedCoinCall(function, target, draft, np.array(block, dtype=np.int64), clock)
        law = search(call, coins or gamma + 1, max_calls=left // (vocab**gamma - n))
        left -= law.calls
        laws.append((block, mass, call.exact_law(law)))
    return compare_laws(laws, expected or model.target, gamma, tolerance)


def coin_counter(function: Any) -> Callable[[], int] | None:
    """Return what tells how many coins the last call read; None where the code does not say."""
    if getattr(function, "used", None) is None:
        return None
    return lambda: int(function.used)


class SearchDeadline:
    """The limit of a search: looked at now and then, for the watch itself takes time."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds, self._watch, self._calls = seconds, Stopwatch(), 0

    def tick(self) -> None:
        """Count a call; raises ``OutOfTime`` once the limit has passed."""
        self._calls += 1
        if self._seconds is None or monotonic_now() - self._watch.wall < self._seconds:
            return
        if self._calls % _CLOCK_INTERVAL == 0 and (spent := self._watch.seconds()) >= self._seconds:
            raise OutOfTime(spent, self._calls)


class CheckedCoinCall:
    """One drafted block: what the function does wrong becomes one of ``findings``, by kind.

    Unusable results are the empty tuple, which no verifier may return.
    """

    def __init__(
        self,
        function: CoinVerify,
        target: Row,
        draft: Row,
        tokens: npt.NDArray[np.int64],
        clock: SearchDeadline | None = None,
    ) -> None:
        self._function, self._clock = function, clock or SearchDeadline(None)
        self._block: tuple[Row, Row, npt.NDArray[np.int64]] = (target, draft, tokens)
        self._images = [x.tobytes() for x in self._block]
        self.findings: dict[str, Finding] = {}

    def __call__(self, coins: Row) -> Tokens:
        """Return the tokens of one call; () where they are unusable, which becomes a finding."""
        self._clock.tick()
        target, _, drafted = self._block
        given: list[Any] = [x.copy() for x in self._block]
        try:
            p, q, x = given
            tokens = read_tokens(call_monitored(self._function, p, q, x, coins.copy()))
            if len(tokens) > len(target):
                message = f"returned {len(tokens)}, gamma + 1 = {len(target)}"
                raise InvalidTokens("too-many", message)
            check_token_ids(tokens, target.shape[1])
        except InvalidTokens as error:
            self._find(error.kind, str(error))
            return ()
        except (CallBroken, DeadlineExpired, SimverifyError):
            raise
        except BaseException as error:  # the code may raise anything, SystemExit too
            if is_user_interrupt(error):
                raise
            self._find("raises", f"raised {describe_exception(error)}")
            return ()
        if any(x.tobytes() != image for x, image in zip(given, self._images, strict=True)):
            self._find("inputs-modified", "changes its arguments in place")
        if tokens[:-1] != tuple(drafted[: len(tokens) - 1].tolist()):
            self._find("not-a-prefix", f"returned {tokens} for the draft {drafted.tolist()}")
        return tokens

    def exact_law(self, law: CoinLaw) -> ExactLaw:
        """Return ``law`` in the path enumerator's form; unresolved mass counts as pruned."""
        laws, findings = dict(law.probabilities), tuple(self.findings.values())
        lost = laws.pop((), 0.0)
        return ExactLaw(laws, law.cells, law.unresolved, lost, findings)

    def _find(self, kind: str, message: str) -> None:
        self.findings.setdefault(kind, Finding(kind, "violation", message))
