"""What a decoding run keeps of its blocks: features of its tokens, what its rule accepted."""

import numpy as np
import numpy.typing as npt

from simverify.simulators.decoding.expected import RULES, LaneMeans, curves, law_of_tau
from simverify.simulators.decoding.judges import judges
from simverify.simulators.decoding.loop import Block, Job
from simverify.simulators.features import Features, features
from simverify.simulators.kernels.philox import PIT
from simverify.verifiers.base import Verifier

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ENTRIES = 1 << 22
"""Entries of target rows kept before they are summed up, 32 MB; draft rows are as many."""


class Emitted:
    """Observer of :func:`~simverify.simulators.decoding.loop.decode`, constant in memory.

    ``accepted``: int64 (gamma+1,), how often tau was each value. ``worth``: per lane, the
    curves of :data:`RULES` on all blocks, then tau. ``taus``, ``laws``: for each block the
    tau of a first call, and its law float64 (gamma+1,) given the rows and the drafts.

    Parameters
    ----------
    job
        What is decoded.
    verifier
        A verifier of :data:`RULES`. Slots of a call follow the target if it is without state;
        of one with state only absolute positions do: no slot counts as one that judged a
        draft, and its first call is made again on every block, by a judge of its own.
    """

    def __init__(self, job: Job, verifier: Verifier) -> None:
        self._rule = verifier.name
        self._first_call = judges(verifier) if verifier.contract == "step" else None
        by_slot = verifier.contract == "verify"
        self.accepted: Ints = np.zeros(job.gamma + 1, np.int64)
        self.worth = LaneMeans(job.lanes, len(RULES) * job.gamma + 1)
        self.taus: list[int] = []
        self.laws: list[Floats] = []
        self._by_slot, self._gamma = by_slot, job.gamma
        self._features: Features | None = None
        self._kept: list[Block] = []
        self._entries = 0
        self._uniforms = [_uniforms(job.seed, lane) for lane in range(job.lanes)]

    def __call__(self, block: Block) -> None:
        """Count a block."""
        self.accepted[block.tau] += 1
        kept = curves(block)
        tau = block.tau
        if self._first_call is not None:
            rng = self._uniforms[block.lane]
            judge, drafts = self._first_call(), np.asarray(block.drafts)
            tau = len(judge.judge(0, block.p, block.q[:-1], drafts, rng)) - 1
        self.taus.append(tau)
        self.laws.append(law_of_tau(block, self._rule))
        self.worth.add(block.lane, [*kept.ravel(), block.tau])
        self._kept.append(block)
        self._entries += block.p.size
        if self._entries >= _ENTRIES:
            self._sum_up()

    @property
    def tails(self) -> Ints:
        """Blocks of which l tokens or more were kept, l = 1..gamma."""
        tails: Ints = np.cumsum(self.accepted[::-1])[::-1][1:]
        return tails

    @property
    def features(self) -> Features:
        """Features of all tokens emitted so far."""
        self._sum_up()
        assert self._features is not None
        return self._features

    def _sum_up(self) -> None:
        if not self._kept:
            return
        lengths = [len(block.emitted) for block in self._kept]
        slots = np.concatenate([np.arange(n) for n in lengths])
        follows = np.ones(len(slots), bool)
        if not self._by_slot:
            # Which token comes next in this order depends on what was accepted.
            follows[:] = False
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
