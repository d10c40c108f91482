"""Answers to a prompt that was asked before: drawn anew, or the same once more from a cache."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from simverify.arrays import Floats
from simverify.emitted.reading.requests import Request

if TYPE_CHECKING:
    from simverify.emitted.law import Law

SAME_TOKENS = 32
"""First tokens of a request that make a copy of it, if another has them all."""

_STAKE = 1e-3
"""What is bet on each request being a copy."""


class Repeats:
    """Beginnings of answers, by the prompt and the law that they were asked for.

    ``compared``: requests to a prompt that was asked before. Of those that begin as an earlier
    answer to it did, :meth:`copies` has the chance of that.
    """

    def __init__(self) -> None:
        self.compared = 0
        self._known: dict[tuple[tuple[int, ...], Law | None], dict[tuple[int, ...], Floats]] = {}
        self._copied: list[tuple[Mapping[tuple[int, ...], Floats], int]] = []

    def add(self, request: Request, p: Floats) -> None:
        """Count a request, whose tokens have the rows p, float64 (n, V)."""
        head = request.tokens[:SAME_TOKENS]
        known = self._known.setdefault((request.prompt, request.law), {})
        if known:
            self.compared += 1
            if head in known:
                self._copied.append((known, len(known)))
        known.setdefault(head, p[np.arange(len(head)), np.array(head)])

    def copies(self, ball: float) -> Iterator[float]:
        """Yield the log chance of each copy: that an answer begins as any of those before it.

        ``ball``: by how much each probability may be too small.
        """
        for known, count in self._copied:
            heads = list(known.values())[:count]
            logs = [float(np.log(np.minimum(chances + ball, 1.0)).sum()) for chances in heads]
            yield min(float(np.logaddexp.reduce(logs)), 0.0)

    @property
    def count(self) -> int:
        """Copies so far."""
        return len(self._copied)


def log_evalue(compared: int, chances: Sequence[float]) -> float:
    """Return what bets on copies come to; ``chances``: logs, of the copies among ``compared``."""
    total = (compared - len(chances)) * math.log1p(-_STAKE)
    for log_chance in chances:
        total += float(np.logaddexp(math.log1p(-_STAKE), math.log(_STAKE) - log_chance))
    return total
