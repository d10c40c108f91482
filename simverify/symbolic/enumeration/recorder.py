"""Keeps what the exact tier decides on each path: which draw, which branch, which line."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simverify.symbolic.draws.uniforms import Uniform
from simverify.symbolic.endings import Tokens
from simverify.symbolic.enumeration.paths import Path
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.errors import users_line
from simverify.symbolic.generators.numpy.rng import SymbolicGenerator

_KINDS = {
    "split": "a comparison with a number",
    "locate": "an outcome of a draw",
    "_outcome": "an outcome of a draw",
    "first_is_less": "a race of two draws",
}
"""What forks, by the function of the exact tier that asks for it."""


@dataclass(frozen=True)
class Branch:
    """One decision on a path.

    ``draw`` numbers the random number that it depends on, from 1 in the order drawn; None
    where it depends on several. ``taken`` is one of ``ways`` branches, of conditional weight
    ``weight``. ``left`` is the interval in which a uniform then lies. ``where`` is the code's
    ``file:line``, empty if unknown.
    """

    kind: str
    draw: int | None
    taken: int
    ways: int
    weight: float
    left: tuple[float, float] | None
    where: str


@dataclass(frozen=True)
class Leaf:
    """The end of a path: what was emitted, its weight, how much was drawn and decided.

    ``broke``: how the call broke its contract, in words; empty where it kept it.
    """

    tokens: Tokens
    weight: float
    draws: int
    branches: tuple[Branch, ...]
    broke: str = ""


class Recorder(Source):
    """A source that keeps what was decided on the path being run, and the ends of paths."""

    def __init__(self, prune: float, *, seed_once: bool) -> None:
        super().__init__(prune, seed_once=seed_once)
        self._followed = False
        self._leaves: dict[Path, Leaf] = {}

    def begin(self, path: Path, plan: "list[float | int] | None" = None) -> None:
        """Start a path; the exact tier's check of it on numbers keeps the record."""
        super().begin(path, plan)
        if plan is None:
            self._branches: list[Branch] = []

    def fork(self, weights: Sequence[float]) -> int:
        """Take a branch and note it."""
        # The enumerator names no draw when it forks: it is read off the caller's frame.
        caller = sys._getframe(1)
        name, known = caller.f_code.co_name, dict(caller.f_locals)
        drawn = known.get("self")
        number = left = None
        if isinstance(drawn, Uniform):
            number = next((i for i, d in enumerate(self.draws, 1) if d is drawn), None)
            before = drawn.low, drawn.high
        elif name == "_outcome":
            number = len(self.draws) + 1
        taken = super().fork(weights)
        if name == "split":
            bound = known["bound"]
            left = (before[0], bound) if taken == 0 else (bound, before[1])
        elif name == "locate":
            left = known["ends"][taken], known["ends"][taken + 1]
        _, shares = self.path.choices[self.path.position - 1]
        kind = _KINDS.get(name, "a comparison of several draws")
        self._branches.append(
            Branch(kind, number, taken, len(shares), float(shares[taken]), left, users_line())
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
                tokens, float(self.path.weight), len(self.draws), tuple(self._branches), broke
            )

    def take(self) -> list[Leaf]:
        """Return the leaves noted so far and forget them."""
        leaves, self._leaves = list(self._leaves.values()), {}
        return leaves
