"""What a decoding run keeps of its blocks: features of its tokens, what its rule accepted.

Features are summed up as tokens come: constant in memory.
"""

from dataclasses import dataclass

import numpy as np

from simverify.arrays import Floats, Ints
from simverify.simulators.decoding.expected import RULES, LaneMeans, curves, law_of_tau
from simverify.simulators.decoding.judges import judges
from simverify.simulators.decoding.lanes import Block, Job
from simverify.simulators.features import Features, features
from simverify.simulators.kernels.philox import PIT
from simverify.verifiers.base import Verifier

_ENTRIES = 1 << 22
"""Entries of target rows kept before they are summed up, 32 MB; draft rows are as many."""


class TokenSums:
    """Sums up the tokens of blocks, in the order in which they come.

    ``by_slot``: whether slots of a call follow the target, as they do of a rule without
    state; if not, no slot counts as one that judged a draft, and no tokens as a pair.
    ``one_draft``: whether q drafted a token a slot; the named faults are of such.
    """

    def __init__(
        self, *, gamma: int, lanes: int, seed: int, by_slot: bool = True, one_draft: bool = True
    ) -> None:
        self._gamma, self._by_slot, self._one_draft = gamma, by_slot, one_draft
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
            judged=(slots < self._gamma) & self._by_slot & self._one_draft,
            follows=follows,
        )
        self._features = found if self._features is None else self._features + found
        self._kept, self._entries = [], 0


def _uniforms(seed: int, lane: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, PIT], counter=[0, 0, 0, lane]))


@dataclass(frozen=True, eq=False)
class Decoded:
    """All that is judged of a rule's run: no rows.

    ``features``: of the emitted tokens. ``accepted``: int64 (gamma+1,), how often tau was each
    value. ``worth``: per lane, the curves of :data:`RULES` on all blocks, then tau. ``taus``
    int64 (calls,), ``laws`` float64 (calls, gamma+1): for each judged block the tau of a
    first call, and its law given the rows and the drafts.
    """

    features: Features
    accepted: Ints
    worth: LaneMeans
    taus: Ints
    laws: Floats

    @property
    def gamma(self) -> int:
        """Draft length."""
        return len(self.accepted) - 1

    @property
    def tails(self) -> Ints:
        """Blocks of which l tokens or more were kept, l = 1..gamma."""
        tails: Ints = np.cumsum(self.accepted[::-1])[::-1][1:]
        return tails


class Emitted:
    """Observer of :func:`~simverify.simulators.decoding.loop.decode`; it keeps no rows.

    Parameters
    ----------
    job
        What is decoded.
    verifier
        A verifier of :data:`RULES`. Slots of a call follow the target if it is without state;
        of one with state only absolute positions do, and its first call is made again on every
        block, by a judge of its own.
    calls
        So many first calls of each lane have their tau judged, a number to be fixed beforehand:
        lanes that accept little call more often. None: all, where the rule has no say in it.
    """

    def __init__(self, job: Job, verifier: Verifier, calls: int | None = None) -> None:
        self._rule, self._calls = verifier.name, calls
        self._first_call = judges(verifier) if verifier.contract == "step" else None
        self._tokens = TokenSums(
            gamma=job.gamma, lanes=job.lanes, seed=job.seed,
            by_slot=verifier.contract == "verify",
        )  # fmt: skip
        self._coins = [_coins(job.seed, lane) for lane in range(job.lanes)]
        self._accepted: Ints = np.zeros(job.gamma + 1, np.int64)
        self._worth = LaneMeans(job.lanes, len(RULES) * job.gamma + 1)
        self._taus: list[int] = []
        self._laws: list[Floats] = []

    def __call__(self, block: Block) -> None:
        """Count a block."""
        self._accepted[block.tau] += 1
        if self._calls is None or self._worth.counts[block.lane] < self._calls:
            self._judge(block)
        self._worth.add(block.lane, [*curves(block).ravel(), block.tau])
        self._tokens.add(block)

    def _judge(self, block: Block) -> None:
        tau = block.tau
        if self._first_call is not None:
            judge, drafts = self._first_call(), np.asarray(block.drafts)
            tau = len(judge.judge(0, block.p, block.q[:-1], drafts, self._coins[block.lane])) - 1
        self._taus.append(tau)
        self._laws.append(law_of_tau(block, self._rule))

    def complete(self, block: Block) -> None:
        """Count the tokens of ``block`` alone: a target's samples that stand for missing ones."""
        self._tokens.add(block)

    @property
    def features(self) -> Features:
        """Features of all tokens emitted so far."""
        return self._tokens.features

    @property
    def decoded(self) -> Decoded:
        """What there is so far."""
        return Decoded(
            features=self.features,
            accepted=self._accepted,
            worth=self._worth,
            taus=np.array(self._taus, np.int64),
            laws=np.array(self._laws),
        )


def _coins(seed: int, lane: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, PIT], counter=[0, 0, 1, lane]))
