"""What a draw asks of the path that it is drawn on, and what a decision is made of.

Draws know no more of the run around them: :class:`~simverify.symbolic.enumeration.source.Source`
is such a path, and builds on the draws.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, NoReturn, Protocol

from simverify.symbolic.draws.several.sites import Site, Sites
from simverify.symbolic.errors import CannotEnumerate


class Decided(Enum):
    """What a fork of the path decides, in the words that a replay shows."""

    BOUND = "a comparison with a number"
    OUTCOME = "an outcome of a draw"
    RACE = "a race of two draws"
    SEVERAL = "a comparison of several draws"


class DrawnPath(Protocol):
    """Where draws are decided. ``products`` are the decided ones, with bound and side.

    ``sites``: where in the code results wait until they are read. ``reading``: the place of the
    one that is being read.
    ``signs_zeros``: whether the path forks on the sign of a draw times 0.
    ``widest``: the most values of an integer that was followed value by value, and where.
    """

    epoch: int
    slack: float
    at_once: bool
    postponed: bool
    signs_zeros: bool
    sites: Sites
    reading: Site
    refuses_many: bool
    refuses_arrays: bool
    widest: tuple[int, str]
    products: list[Any]

    def fork(
        self,
        weights: Sequence[float],
        decided: Decided,
        draw: "Atom | None" = None,
        ends: Sequence[float] = (),
    ) -> int:
        """Take a branch; weights are conditional.

        ``decided``: by what. ``draw``: the one draw that it depends on; branch i then leaves it
        between ``ends[i]`` and ``ends[i + 1]``, if those are given.
        """

    def chain(self, previous: Any, last: Any) -> Any:
        """Return the product of two atoms."""

    def meet(self, dtype: Any) -> None:
        """Note a precision that meets a draw."""

    def refuse(self, call: str, kind: type[CannotEnumerate] = CannotEnumerate) -> NoReturn:
        """Stop: ``call`` cannot be followed."""


class Atom(Protocol):
    """A uniform, or a product of uniforms, known by now to lie in [low, high).

    ``owner`` is the race or product that it takes part in, once one was decided.
    """

    owner: Any
    points: int
    """A uniform is one of so many multiples of their inverse."""

    def check_epoch(self) -> None:
        """Refuse a draw of an earlier path."""

    def span(self) -> tuple[int, int]:
        """First and last point that are left."""

    @property
    def single(self) -> bool:
        """Whether it is one uniform."""

    @property
    def source(self) -> DrawnPath:
        """The path it is drawn on."""

    @property
    def low(self) -> float:
        """Lower bound."""

    @property
    def high(self) -> float:
        """Upper bound."""

    def split(self, bound: float) -> bool:
        """Fork on a bound strictly inside; true if below."""

    def locate(self, cuts: list[float]) -> int:
        """Return how many of the ascending ``cuts`` it has passed; one fork for all."""
