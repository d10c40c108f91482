"""A uniform: the draw that forks a path when it is compared."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from simverify.symbolic.draws.forms import IDENTITY
from simverify.symbolic.draws.scalars import Draw

if TYPE_CHECKING:
    from simverify.symbolic.draws.path import DrawnPath


class Uniform(Draw):
    """A uniform on [0, 1), known by now to lie in [low, high).

    ``owner`` is the race or product that it takes part in, once one was decided.
    """

    __slots__ = ("_source", "high", "low", "owner")

    single = True

    def __init__(self, source: "DrawnPath") -> None:
        self._source = source
        self.low = 0.0
        self.high = 1.0
        self.owner: Any = None
        self.atom = self
        self.form = IDENTITY

    @property
    def source(self) -> "DrawnPath":
        """The path's randomness."""
        return self._source

    def is_below(self, bound: float, *, closed: bool = False) -> bool:
        """Whether the uniform is below a number (at it: an event of probability zero)."""
        if self.low < bound < self.high:
            return self.split(bound)
        return bound >= self.high  # False for NaN

    def split(self, bound: float) -> bool:
        """Fork on a bound strictly inside the interval; true if below."""
        if self.owner is not None:
            self._refuse("a draw compared with a number after it was compared with a draw")
        share = (bound - self.low) / (self.high - self.low)
        below = self._source.fork((share, 1 - share)) == 0
        if below:
            self.high = bound
        else:
            self.low = bound
        return below

    def locate(self, cuts: "list[float]") -> int:
        """Return how many of the ascending ``cuts`` it has passed; one fork for all."""
        ends = [self.low, *(min(max(c, self.low), self.high) for c in cuts), self.high]
        weights = [(b - a) / (self.high - self.low) for a, b in pairwise(ends)]
        if sum(w > 0 for w in weights) > 1:
            if self.owner is not None:
                self._refuse("a draw compared with a number after it was compared with a draw")
            cell = self._source.fork(weights)
            self.low, self.high = ends[cell], ends[cell + 1]
            return cell
        return max(range(len(weights)), key=weights.__getitem__)
