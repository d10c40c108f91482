"""Features of the tokens that blocks emitted, summed up as they come: constant in memory."""

import numpy as np

from simverify.simulators.decoding.loop import Block
from simverify.simulators.features import Features, features
from simverify.simulators.kernels.philox import PIT

_ENTRIES = 1 << 22
"""Entries of target rows kept before they are summed up, 32 MB; draft rows are as many."""


class TokenSums:
    """Sums up the tokens of blocks, in the order in which they come.

    ``by_slot``: whether slots of a call follow the target, as they do of a rule without
    state; if not, no slot counts as one that judged a draft, and no tokens as a pair.
    """

    def __init__(self, *, gamma: int, lanes: int, seed: int, by_slot: bool = True) -> None:
        self._gamma, self._by_slot = gamma, by_slot
        self._features: Features | None = None
        self._kept: list[Block] = []
        self._entries = 0
        self._uniforms = [_uniforms(seed, lane) for lane in range(lanes)]

    def add(self, block: Block) -> None:
        """Count the tokens that ``block`` emitted; it may have emitted none."""
        if not block.emitted:
            return
        self._kept.append(block)
        self._entries += block.p.size
        if self._entries >= _ENTRIES:
            self._sum_up()

    @property
    def features(self) -> Features:
        """Features of all tokens so far, one or more."""
        self._sum_up()
        assert self._features is not None
        return self._features

    def _sum_up(self) -> None:
        if not self._kept:
            return
        lengths = [len(block.emitted) for block in self._kept]
        slots = np.concatenate([np.arange(n) for n in lengths])
        # Which token comes next in this order depends on what a rule with state accepted.
        follows = np.full(len(slots), self._by_slot)
        found = features(
            np.concatenate([b.p[:n] for b, n in zip(self._kept, lengths, strict=True)]),
            np.concatenate([b.q[:n] for b, n in zip(self._kept, lengths, strict=True)]),
            np.concatenate([b.emitted for b in self._kept]),
            np.concatenate(
                [self._uniforms[b.lane].random(n) for b, n in zip(self._kept, lengths, strict=True)]
            ),
            judged=(slots < self._gamma) & self._by_slot,
            follows=follows,
        )
        self._features = found if self._features is None else self._features + found
        self._kept, self._entries = [], 0


def _uniforms(seed: int, lane: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, PIT], counter=[0, 0, 0, lane]))
