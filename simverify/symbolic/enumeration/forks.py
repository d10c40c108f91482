"""Where a path forks: which branch is taken, what is left out, and how a path is left."""

from collections.abc import Sequence
from typing import NoReturn

from simverify.symbolic.draws.path import Atom, Decided
from simverify.symbolic.enumeration.numbers import Undecided
from simverify.symbolic.enumeration.paths import Path
from simverify.symbolic.errors import UNTRACKED, CannotEnumerate, Untracked
from simverify.symbolic.whose import users_line

VANISHING = 1e-18
"""Paths of less weight than this end here; their mass is counted as pruned."""

_WAY_OUT = 4_096
"""Forks in which code may come to its end by itself, on a path that is left."""

_SCATTER = 0x9E3779B1
"""Multiples of it are all over the place in their middle bits."""


class PathCut(BaseException):
    """The path's weight vanished: code that may loop for ever loops for ever on some path."""


class Forks:
    """The forks of one path.

    ``prune`` is the conditional weight below which a branch is not run; ``pruned`` is the
    mass of those branches. ``ended``: no path is run. ``cut``: the path is left, and how it ends
    does not count. ``longest``: where the first one was that was left, its end being far.
    """

    def __init__(self, prune: float) -> None:
        self.prune = prune
        self.pruned = 0.0
        self.longest = ""

    def begin_forks(self, path: Path) -> None:
        """Go along ``path`` from now on."""
        self.path = path
        self.ended = self.cut = False
        self._out = 0

    def fork(
        self,
        weights: Sequence[float],
        decided: Decided,
        draw: Atom | Undecided | None = None,
        ends: Sequence[float] = (),
    ) -> int:
        """Take a branch; weights are conditional, sum to 1 up to rounding, and may be 0.

        What decides, of which draw, between which ends: only whoever keeps a record asks.
        """
        path = self.path
        if self.ended:
            self.refuse("a draw that was kept from a path")
        if self.cut:
            return self._way_out(weights)
        if path.weight < VANISHING:
            self.cut, self.longest = True, self.longest or users_line()
            raise PathCut
        if path.is_long():
            self.cut, self.longest = True, self.longest or users_line()
            return self._way_out(weights)
        if min(weights) < self.prune:
            weights = tuple([w if w >= self.prune else 0.0 for w in weights])
        else:
            weights = tuple(weights)
        if path.position < len(path.choices):
            if path.choices[path.position][1] != weights:
                self.refuse(f"{UNTRACKED}: a repeated path went elsewhere", Untracked)
        else:
            self.pruned += max(0.0, 1.0 - sum(weights)) * float(path.weight)
        index: int = path.fork(weights)
        return index

    def refuse(self, call: str, kind: type[CannotEnumerate] = CannotEnumerate) -> NoReturn:
        """Stop: ``call`` cannot be followed."""
        raise NotImplementedError

    def _way_out(self, weights: Sequence[float]) -> int:
        """Return a branch of a path that does not count any more, any one: loops end soon so.

        An exception would leave locks taken and arrays half written, and may be swallowed.
        """
        self._out += 1
        if self._out > _WAY_OUT:
            self._out = 0
            raise PathCut
        ways = [i for i, weight in enumerate(weights) if weight > 0]
        return ways[(self._out * _SCATTER >> 16) % len(ways)]
