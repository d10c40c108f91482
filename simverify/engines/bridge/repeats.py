"""Whether code is a function of what it is given: calls that are made again, now and later."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.engines.bridge.protocol import Request
from simverify.symbolic.errors import CallBroken

ALWAYS = 32
"""First calls that are all repeated; of the later ones every ``EVERY``-th."""

EVERY = 16
LATER = 64
"""So often one more call is kept, and repeated as many calls later."""

_TIMES = 12
"""Repeats before one of two faults is named: random tokens are hardly the same so often."""

Tokens = list[int]


@dataclass
class Repeats:
    """Repeats some of the calls of ``ask``, and says what they show.

    ``others(request, coins)``: the tokens of the same call with other numbers behind so many
    coins, those that it is said to have read. ``more``: what it means if they are not the same.
    """

    ask: Callable[[Request], Tokens]
    others: Callable[[Request, int], Tokens]
    more: str
    calls: int = 0
    kept: tuple[Request, Tokens] | None = None

    def after(self, request: Request, tokens: Tokens, coins: int) -> None:
        """Look at one more call; raises :class:`CallBroken` for what is no function of it."""
        self.calls += 1
        if self.calls <= ALWAYS or self.calls % EVERY == 0:
            self._now(request, tokens, coins)
        if self.calls % LATER == 0:
            if self.kept is not None:
                self.compare(*self.kept, self.ask(self.kept[0]))
            self.kept = (request, tokens)

    def _now(self, request: Request, tokens: Tokens, coins: int) -> None:
        again = self.others(request, coins)
        if again == tokens:
            return
        # Both again: is it the other numbers, or is it nothing that was given?
        for _ in range(_TIMES):
            self.compare(request, tokens, self.ask(request))
            self.compare(request, again, self.others(request, coins))
        raise CallBroken(
            "coins", self.more.format(coins=coins, tokens=tokens, again=again), request.text()
        )

    @staticmethod
    def compare(request: Request, tokens: Tokens, again: Tokens) -> None:
        """Raise :class:`CallBroken` where the same call gave other tokens."""
        if again != tokens:
            raise CallBroken(
                "own-randomness",
                f"returned {tokens}, and {again} when it was asked the same again: it draws random "
                "numbers of its own, or keeps something between calls; its coins are to decide "
                "all",
                request.text(),
            )


def moved(coins: Any, first: int, bits: int) -> Any:
    """Return ``coins`` with others on the grid of 2^-``bits`` from number ``first`` on."""
    changed = coins.copy()
    scale = float(2**bits)
    changed[first:] = np.floor((coins[first:] + 0.382) % 1.0 * scale) / scale
    return changed
