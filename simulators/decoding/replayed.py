"""Verifiers on blocks that were drafted before: the rows are recorded, the coins are fresh.

The blocks are those of a trace, in the form of a decoding loop. A trace whose drafts do not follow
the draft rows beside them is refused: on it right verifiers fail and wrong ones may pass.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simverify import stats
from simverify.errors import UsageError
from simverify.models.trace import Manifest, Trace
from simverify.simulators.decoding.job import DecodedBlocks, EmissionObserver
from simverify.simulators.decoding.loop import (
    RULES,
    Block,
    Job,
    lane_generator,
    verifier_factory,
)
from simverify.stats.pits import Order
from simverify.verifiers import VERIFIERS, Verifier

DRAFT_CHECK_ALPHA = 1e-9  # chance that a sound trace is refused

_DRAFT_ORDERS: tuple[Order, ...] = ("index", "descending")
_COIN_STREAM, _CHECK_STREAM = 5, 6
"""Second words of keys; a run's own streams are in ``kernels.philox``."""


def trace_blocks(trace: Trace) -> Iterator[Block]:
    """Yield the blocks of a trace as a decoding loop does; their drafts are checked."""
    blocks = (
        Block(b.lane, 0, False, b.p, b.q, b.drafts, len(b.emitted) - 1, b.emitted)
        for b in trace.blocks()
    )
    return check_drafts(blocks, trace.manifest)


def check_drafts(blocks: Iterator[Block], made: Manifest) -> Iterator[Block]:
    """Yield the blocks; after the last one raise ``UsageError`` if their drafts do not follow q.

    By randomised PITs. Each lane counts with as many blocks as a lane has at least, so that what
    was accepted cannot select them.
    """
    quota = -(-made.decoding.tokens // (made.decoding.lanes * (made.gamma + 1)))
    counts = np.zeros(made.decoding.lanes, np.int64)
    bins = np.zeros((len(_DRAFT_ORDERS), stats.PIT_BINS), np.int64)
    rng = np.random.Generator(np.random.Philox(key=[made.seed, _CHECK_STREAM]))
    for block in blocks:
        counts[block.lane] += 1
        if counts[block.lane] <= quota:
            q, tokens = block.q[:-1], np.array(block.drafts)
            v = rng.random(len(tokens))
            for histogram, order in zip(bins, _DRAFT_ORDERS, strict=True):
                below, above = stats.pit_bounds(q, stats.order_key(order, q), tokens)
                u = np.minimum(below + v * (above - below), 1.0)
                place = np.minimum(u * stats.PIT_BINS, stats.PIT_BINS - 1).astype(int)
                np.add.at(histogram, place, 1)
        yield block
    for order, histogram in zip(_DRAFT_ORDERS, bins, strict=True):
        test = stats.pit_ks(
            histogram, alpha=DRAFT_CHECK_ALPHA / len(_DRAFT_ORDERS), name=f"drafts, {order} order"
        )
        if test.rejected:
            raise UsageError(
                f"trace: the {test.n:,} drafts do not follow the draft's rows beside them (ln p = "
                f"{test.log_pvalue:.0f}): no verifier can be judged on it; record drafts "
                f"and rows of the same temperature, top-k and top-p"
            )


PILOT_FRACTION = 1 / 8
"""Part of the recorded tokens whose blocks only tell how many tokens a call emits."""

PLANNED_FRACTION = 0.95

BlockRule = Callable[[Block, np.random.Generator], list[int]]


class TraceReplay:
    """A rule without state, called on one recorded block after the other.

    The tokens of a call follow the target whatever the recording rule made of the block, as the
    coins are new. A pilot fixes how many tokens are judged: from its tokens a call to 95% of what
    the other blocks will give. The pilot is the first :data:`PILOT_FRACTION` of the recording, and
    its tokens are not judged. If the blocks give less, samples of the target's row after the last
    prefix fill up.

    Parameters
    ----------
    judge
        Returns the tokens of a block: some first drafts and one more token.
    see
        Gets every block, with ``tau`` and the judged of the ``emitted`` tokens.
    complete
        Gets blocks of one sample of the target each, as many as are missing.
    lanes, tokens
        Of the recording: lanes, and tokens that were emitted in it.
    seed
        Of the coins.
    """

    def __init__(
        self,
        judge: BlockRule,
        see: Callable[[Block], None],
        complete: Callable[[Block], None],
        *,
        lanes: int,
        tokens: int,
        seed: int,
    ) -> None:
        self._judge, self._see, self._complete = judge, see, complete
        self._tokens = tokens
        # The last one is for the samples that fill up.
        self._coins = [lane_generator(seed, _COIN_STREAM, lane) for lane in range(lanes + 1)]
        self._recorded = self._emitted = self._judged = 0
        self._planned: int | None = None
        self._last: Block | None = None
        self.calls, self.seconds = 0, 0.0

    def __call__(self, block: Block) -> None:
        """Call the rule on a block."""
        start = time.perf_counter()
        tokens = self._judge(block, self._coins[block.lane])
        self.seconds += time.perf_counter() - start
        self.calls += 1
        judged = tuple(tokens[: self._count_judged(block, len(tokens))])
        self._see(replace(block, tau=len(tokens) - 1, emitted=judged))
        self._last = block

    def finish(self) -> int:
        """Fill up the tokens to the planned number and return it; all blocks are through.

        Raises ``UsageError`` if there are too few for a pilot and a run.
        """
        if not self._planned or self._last is None:
            raise UsageError(
                f"the trace holds {self.calls} blocks: too few to be judged; record more tokens"
            )
        missing, row = self._planned - self._judged, self._last.p[0]
        for token in self._coins[-1].choice(len(row), size=missing, p=row).tolist():
            self._complete(replace(self._last, emitted=(token,)))
        return self._planned

    def _count_judged(self, block: Block, emitted: int) -> int:
        """How many of a call's tokens are judged."""
        if self._planned is not None:
            count = min(emitted, self._planned - self._judged)
            self._judged += count
            return count
        self._recorded += len(block.emitted)
        self._emitted += emitted
        if self._recorded >= PILOT_FRACTION * self._tokens:
            rest = (self._tokens - self._recorded) / self._recorded
            self._planned = int(PLANNED_FRACTION * rest * self._emitted)
        return 0


# Built-in rules without state on recorded blocks: the runs that ``compare`` judges.


STATELESS_RULES = tuple(name for name in RULES if VERIFIERS[name].contract == "verify")
"""Rules that need the recorded block alone: one with state lives on tokens of its own. For rules
that are not among ``RULES``, such as temperature-0, no expectation on a block is known."""


@dataclass(frozen=True, eq=False)
class RuleReplay:
    """A rule's calls on the blocks so far, and the record of them."""

    replay: TraceReplay
    observer: EmissionObserver


def start_replays(
    rules: Sequence[Verifier], *, gamma: int, lanes: int, tokens: int, seed: int
) -> dict[str, RuleReplay]:
    """Return a run of each of ``rules``, to be called with every block of a recording."""
    job = Job((), gamma=gamma, lanes=lanes, lane_tokens=0, request_tokens=0, seed=seed)
    runs = {}
    for rule in rules:
        observer, judge = EmissionObserver(job, rule), verifier_factory(rule)().judge
        replay = TraceReplay(
            lambda block, rng, judge=judge: judge(  # type: ignore[misc]
                0, block.p, block.q[:-1], np.array(block.drafts), rng
            ),
            observer,
            observer.complete,
            lanes=lanes,
            tokens=tokens,
            seed=seed,
        )
        runs[rule.name] = RuleReplay(replay, observer)
    return runs


def finish_replays(runs: dict[str, RuleReplay]) -> dict[str, DecodedBlocks]:
    """Return the record of each run; raises ``UsageError`` where there is too little."""
    for run in runs.values():
        run.replay.finish()
    return {name: run.observer.decoded for name, run in runs.items()}
