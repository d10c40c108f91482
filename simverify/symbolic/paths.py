"""Every path of a random computation, by depth-first re-execution.

A computation asks a :class:`Path` to ``fork`` whenever chance decides; :func:`explore` runs
it once per path and yields each result with its exact weight. Weights may be floats or
:class:`fractions.Fraction`; nothing is rounded here.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
Weight = Fraction | float
Choice = tuple[int, Sequence[Weight]]
"""A branch that was taken, by its index, and the conditional weights of all."""


class TooManyPaths(Exception):
    """The computation has more paths than the budget allows."""

    def __init__(self, budget: int) -> None:
        super().__init__(f"more than {budget} paths: raise the budget or shrink the instance")
        self.budget = budget


class Path:
    """The choices of one execution: a prefix that is replayed, then first branches.

    ``given``: so many of them are a condition, and weigh nothing. ``turns``: how often behind the
    prefix there was more than one way; each time begins another path at least. ``most``: with more
    turns it is too long to be followed now. A computation may ask :meth:`is_long` and come to an
    end as it likes: what it returns then does not count.
    """

    def __init__(
        self, prefix: Sequence[Choice] = (), given: int = 0, most: int | None = None
    ) -> None:
        self.choices = list(prefix)
        self.position = 0
        self.weight: Weight = 1
        self.given = given
        self.turns = 0
        self.most = most
        self.left = False

    def fork(self, weights: Sequence[Weight]) -> int:
        """Take one of ``len(weights)`` branches with these conditional weights (sum 1).

        Branches of weight zero are never taken. Returns the branch's index.
        """
        if self.position == len(self.choices):
            first = next(i for i, weight in enumerate(weights) if weight > 0)
            self.choices.append((first, weights))
            self.turns += sum(weight > 0 for weight in weights) > 1
        index, weights = self.choices[self.position]
        self.position += 1
        if self.position > self.given:
            self.weight = self.weight * weights[index]
        return index

    def is_long(self) -> bool:
        """Whether there were too many turns; whoever asks leaves the path then."""
        self.left = self.left or (self.most is not None and self.turns > self.most)
        return self.left


def explore(
    run: Callable[[Path], T], *, most: int | None = None, since: Sequence[Choice] = ()
) -> Iterator[tuple[T, Weight]]:
    """Yield ``(result, weight)`` for every path of ``run``; the weights sum to 1.

    ``run`` must depend on chance through its :class:`Path` alone. ``since``: only paths that
    begin with these choices, with their weights on that condition. Raises
    :class:`TooManyPaths` before path ``most + 1`` is run, and where a path turned oftener than
    that: then there are more of them.
    """
    prefix: list[Choice] | None = list(since)
    count = 0
    while prefix is not None:
        if most is not None and count >= most:
            raise TooManyPaths(most)
        path = Path(prefix, len(since), most)
        result = run(path)
        if path.left and most is not None:
            raise TooManyPaths(most)
        count += 1
        yield result, path.weight
        prefix = _next_prefix(path.choices[: path.position], len(since))


_RESUM_INTERVAL = 16
"""After so many paths what is left is added up."""

_ENDING_SHARE = 4
"""Once enough was run, this part of the paths is run beyond it, as they may end there."""

_LONG_PATH_CHOICES = 128
"""A path that turned so often waits, and goes on to twice its length once nothing weighs more."""

_MAX_PATH_CHOICES = 2**14
"""A path of so many choices is not gone on with: each of them is another path's beginning."""


class HeaviestFirst(Generic[T]):
    """The paths of a computation that may have no end: what weighs most is run first.

    ``rest`` is the mass of all that was not run yet: whatever it does there, no probability
    is off by more. Iterate as over :func:`explore`; it ends when ``rest`` is ``enough`` or less
    and a quarter more paths have not come to an end either, or after ``most`` paths. A long path
    waits in its turn, and one that is longer still is left out: in a loop that seldom ends
    the first path would have no end, and much of what it weighs.
    """

    def __init__(
        self,
        run: Callable[[Path], T],
        *,
        enough: float,
        most: int | None = None,
        since: Sequence[Choice] = (),
    ) -> None:
        self.rest = 1.0
        self._run, self._enough, self._most = run, enough, most
        self._since = tuple(since)

    def __iter__(self) -> Iterator[tuple[T, Weight]]:
        given, count = len(self._since), 0
        begin: _PathPrefix | None = None
        for choice in self._since:
            begin = _PathPrefix(begin, choice)
        # The number keeps equal weights in the order in which they were met.
        waiting: list[tuple[float, int, _PathPrefix | None]] = [(-1.0, 0, begin)]
        numbers = itertools.count(1)
        most = math.inf if self._most is None else self._most
        near, left_out = False, 0.0
        while waiting and count < most:
            if not near and self.rest <= self._enough:
                # Paths that are many, but not endless, end soon: then nothing is left out.
                near, most = True, min(most, count + count // _ENDING_SHARE)
                continue
            mass, _, begin = heapq.heappop(waiting)
            prefix = _choices_of(begin)
            path = Path(prefix, given, max(_LONG_PATH_CHOICES, len(prefix)))
            result = self._run(path)
            count += 1
            if not path.left:
                yield result, path.weight
            weight = -mass
            for index, weights in path.choices[len(prefix) : path.position]:
                for later in range(index + 1, len(weights)):
                    if weights[later] > 0:
                        other = _PathPrefix(begin, (later, weights))
                        share = weight * float(weights[later])
                        heapq.heappush(waiting, (-share, next(numbers), other))
                begin = _PathPrefix(begin, (index, weights))
                weight *= float(weights[index])
            if path.left and path.position < _MAX_PATH_CHOICES:
                heapq.heappush(waiting, (-weight, next(numbers), begin))
            elif path.left:
                left_out += weight
            if count % _RESUM_INTERVAL == 0:
                self.rest = left_out + math.fsum(-mass for mass, *_ in waiting)
        self.rest = left_out + math.fsum(-mass for mass, *_ in waiting)


class _PathPrefix(NamedTuple):
    """The beginning of a path, which shares its choices but the last with others."""

    before: "_PathPrefix | None"
    choice: Choice


def _choices_of(begun: _PathPrefix | None) -> list[Choice]:
    choices = []
    while begun is not None:
        choices.append(begun.choice)
        begun = begun.before
    return choices[::-1]


def _next_prefix(choices: list[Choice], given: int) -> list[Choice] | None:
    while len(choices) > given:
        index, weights = choices.pop()
        for later in range(index + 1, len(weights)):
            if weights[later] > 0:
                return [*choices, (later, weights)]
    return None


class ForkedGenerator:
    """The draws of ``numpy.random.Generator`` that the project's own rules use, forked.

    ``random()`` returns a uniform that may be compared with numbers; ``choice(n, p=...)``
    forks once per outcome. Exact for Fractions. The audit's enumerator follows far more.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def random(self) -> "ForkedUniform":
        """Return a symbolic uniform on [0, 1)."""
        return ForkedUniform(self._path)

    def choice(self, n: int, p: Sequence[Weight]) -> int:
        """Return an outcome in 0..n-1 with weights ``p``."""
        if len(p) != n:
            raise ValueError(f"choice({n}) got {len(p)} weights")
        return self._path.fork(list(p))


class ForkedUniform:
    """A uniform known to lie in [low, high); a comparison inside forks and narrows it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._low: Weight = 0
        self._high: Weight = 1

    def __lt__(self, bound: Weight) -> bool:
        if bound <= self._low:
            return False
        if bound >= self._high:
            return True
        share = (bound - self._low) / (self._high - self._low)
        below = self._path.fork((share, 1 - share)) == 0
        if below:
            self._high = bound
        else:
            self._low = bound
        return below

    # On a continuous draw, <= and < differ on an event of probability zero.
    __le__ = __lt__

    def __gt__(self, bound: Weight) -> bool:
        return not self < bound

    __ge__ = __gt__
