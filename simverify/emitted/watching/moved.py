"""What rounding may come to: measured on the first tokens of a life, and kept for the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simverify.emitted.judging.rounding import TOKENS, tried_rounding
from simverify.emitted.rescoring import LOGIT_MARGIN, Scored, distances
from simverify.models.real.transformer import TransformerPair

LEAST_BALL = 1e-6
"""A ball below which nobody's float32 logits stay."""

_KINDS = ("greedy", "sampled")


@dataclass
class Moved:
    """What rounding moved rows by, on the first ``TOKENS`` tokens of requests of each kind.

    Greedy requests, whose rows move where two logits are level and nowhere else, and others: a log
    may begin with one kind alone, and its first line may be short. ``tokens``: how many were looked
    at, by kind; ``sums``: by kind and name of an order, of how far the rows' CDFs moved in it.
    ``shift``: by how much a token's log-probability moved at most, of all tokens of a life.
    """

    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    sums: dict[str, dict[str, float]] = field(default_factory=lambda: {k: {} for k in _KINDS})
    shift: float = 0.0

    def balls(self, names: Sequence[str], kind: str | None = None) -> dict[str, float]:
        """Return the ball of each order for requests of a kind; None: of sampled ones, if any."""
        kind = kind or ("sampled" if self.tokens["sampled"] else "greedy")
        seen = max(self.tokens[kind], 1)
        return {name: max(self.sums[kind].get(name, 0.0) / seen, LEAST_BALL) for name in names}

    @property
    def margin(self) -> float:
        """How far two logits may be off from each other: twice the rounding seen, or more."""
        return max(LOGIT_MARGIN, 2.0 * self.shift)

    def see(self, scored: Scored) -> None:
        """Note how far the two scorings of a request lie apart."""
        self.shift = max(self.shift, float(scored.shift.max()))

    def measure(
        self, scored: Sequence[Scored], pair: TransformerPair, names: Sequence[str], proxy: bool
    ) -> bool:
        """Measure on requests of a kind of which too few tokens were looked at; say if any was.

        In float32 it is what the two scorings differ by, in a coarser precision what that moves.
        """
        coarse = str(pair.target_model.dtype) != "torch.float32"
        found = False
        for kind in _KINDS:
            own = [one for one in scored if kind_of(one) == kind]
            if not own or self.tokens[kind] >= TOKENS:
                continue
            found = True
            reach: Mapping[str, float] = {}
            if coarse:
                rounding = tried_rounding([one.request for one in own], pair, proxy)
                reach, self.shift = rounding.reach, max(self.shift, rounding.shift)
            off = np.concatenate([distances(one.p, one.p_again) for one in own])
            self.tokens[kind] += len(off)
            for name in names:
                mean = max(reach.get(f"PIT in {name} order", 0.0), float(off.mean()))
                self.sums[kind][name] = self.sums[kind].get(name, 0.0) + mean * len(off)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"tokens": self.tokens, "sums": self.sums, "shift": self.shift}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], names: Sequence[str]) -> "Moved":
        """Return what :meth:`as_dict` gave; raises ``KeyError`` or ``ValueError`` if it is none."""
        found = cls(shift=float(value["shift"]))
        for kind in _KINDS:
            n, sums = value["tokens"][kind], value["sums"][kind]
            if type(n) is not int or n < 0:
                raise ValueError(f"{n} tokens")
            found.tokens[kind] = n
            found.sums[kind] = {name: float(sums[name]) for name in names if n}
        return found


def kind_of(scored: Scored) -> str:
    """Return whether a request is greedy: each of its rows has one token alone."""
    return "greedy" if (scored.p.max(axis=1) == 1.0).all() else "sampled"
