"""Keeps what the exact tier decides on each path: which draw, which branch, which line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from simverify.symbolic.draws.path import Atom, Decided
from simverify.symbolic.draws.several.sites import line_of
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.numbers import Undecided
from simverify.symbolic.enumeration.paths import Path
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.generators.numpy.rng import SymbolicGenerator
from simverify.symbolic.whose import users_line


@dataclass(frozen=True)
class Branch:
    """One decision on a path.

    ``draw`` numbers the random number that it depends on, from 1 in the order drawn; None
    where it depends on several. ``taken`` is one of ``ways`` branches, of conditional weight
    ``weight``. ``left`` is the interval in which a uniform then lies. ``where`` is the code's
    ``file:line``: where it decides, or where it drew the outcome, or took the winner of a race,
    that is decided when something reads it. Empty if unknown. ``steps``: how many lines of the
    path had run by then, where they are followed.
    """

    kind: Decided
    draw: int | None
    taken: int
    ways: int
    weight: float
    left: tuple[float, float] | None
    where: str
    steps: int = 0


@dataclass(frozen=True)
class Leaf:
    """The end of a path: what was emitted, its weight, how much was drawn and decided.

    ``broke``: how the call broke its contract, in words; empty where it kept it. ``steps``: the
    lines that ran, where they are followed.
    """

    tokens: Tokens
    weight: float
    draws: int
    branches: tuple[Branch, ...]
    broke: str = ""
    steps: tuple[Any, ...] = ()


class Following(Protocol):
    """Follows the lines of code that a path runs, one path at a time."""

    now: list[Any]

    def begin(self) -> None:
        """Forget the path before."""


class Recorder(Source):
    """A source that keeps what was decided on the path being run, and the ends of paths.

    ``steps``: follows the lines that run, if they are wanted.
    """

    def __init__(self, prune: float, *, seed_once: bool, steps: Following | None = None) -> None:
        self._steps = steps  # before a path is begun, as the next line does
        super().__init__(prune, seed_once=seed_once)
        self._followed = False
        self._leaves: dict[Path, Leaf] = {}

    def begin(self, path: Path, plan: "list[float | int] | None" = None) -> None:
        """Start a path; the exact tier's check of it on numbers keeps the record."""
        super().begin(path, plan)
        if self._steps is not None:
            self._steps.begin()
        if plan is None:
            self._branches: list[Branch] = []

    def fork(
        self,
        weights: Sequence[float],
        decided: Decided,
        draw: Atom | Undecided | None = None,
        ends: Sequence[float] = (),
    ) -> int:
        """Take a branch and note it."""
        number = next((i for i, drawn in enumerate(self.draws, 1) if drawn is draw), None)
        if decided is Decided.OUTCOME and draw is None:
            number = len(self.draws) + 1  # the draw that is being made
        taken = super().fork(weights, decided, draw, ends)
        if self.cut:
            return taken
        left = (ends[taken], ends[taken + 1]) if ends else None
        _, shares = self.path.choices[self.path.position - 1]
        where = line_of(self.reading) or users_line()
        ran = 0 if self._steps is None else len(self._steps.now)
        self._branches.append(
            Branch(decided, number, taken, len(shares), float(shares[taken]), left, where, ran)
        )
        return taken

    def handing(self, rng: Any) -> None:
        """Say which generator the code is about to be given.

        A plain one: the exact tier lets the code import things and then begins, or begins
        anew; what was noted before does not count.
        """
        self._followed = isinstance(rng, SymbolicGenerator)
        if not self._followed:
            self._leaves.clear()

    def end(self, tokens: Tokens, broke: str = "") -> None:
        """Note what the path being run emitted; the last run of a path counts."""
        if self._followed and self.plan is None:
            self._leaves[self.path] = Leaf(
                tokens, float(self.path.weight), len(self.draws), tuple(self._branches), broke,
                () if self._steps is None else tuple(self._steps.now),
            )  # fmt: skip

    def take(self) -> list[Leaf]:
        """Return the leaves noted so far and forget them."""
        leaves, self._leaves = list(self._leaves.values()), {}
        return leaves
