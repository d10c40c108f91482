"""Verifiers on blocks that were drafted before: the rows are given, the coins are fresh.

The blocks are those of a trace, handed out as a decoding loop does. A trace whose drafts do not
follow the draft rows beside them is refused: on it right verifiers fail and wrong ones may pass.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simverify import stats
from simverify.errors import UsageError
from simverify.models.trace import Manifest, Trace
from simverify.simulators.decoding.job import DecodedRun, EmissionObserver
from simverify.simulators.decoding.loop import RULES, Block, Job, verifier_factory
from simverify.stats.pits import Order
from simverify.verifiers import VERIFIERS, Verifier

DRAFT_CHECK_ALPHA = 1e-9
"""Chance that a sound trace is refused."""

_DRAFT_ORDERS: tuple[Order, ...] = ("index", "descending")
_CHECK_STREAM = 6
"""Second word of the key; verifiers' coins on a trace have 5."""


def trace_blocks(trace: Trace) -> Iterator[Block]:
    """Yield the blocks of a trace as a decoding loop hands them out; its drafts are checked."""
    blocks = (
        Block(
            lane=own.lane,
            position=0,
            first=False,
            p=own.p,
            q=own.q,
            drafts=own.drafts,
            tau=len(own.emitted) - 1,
            emitted=own.emitted,
        )
        for own in trace.blocks()
    )
    return check_drafts(blocks, trace.manifest)


def check_drafts(blocks: Iterator[Block], made: Manifest) -> Iterator[Block]:
    """Yield the blocks; after the last one raise ``UsageError`` if their drafts do not follow q.

    By randomised PITs. As many blocks of each lane count as a lane has at the least, so that
    what was accepted has no say in it.
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
            for place, order in enumerate(_DRAFT_ORDERS):
                below, above = stats.pit_bounds(q, stats.order_key(order, q), tokens)
                u = np.minimum(below + v * (above - below), 1.0)
                np.add.at(
                    bins[place], np.minimum(u * stats.PIT_BINS, stats.PIT_BINS - 1).astype(int), 1
                )
        yield block
    for order, histogram in zip(_DRAFT_ORDERS, bins, strict=True):
        test = stats.pit_ks(
            histogram, alpha=DRAFT_CHECK_ALPHA / len(_DRAFT_ORDERS), name=f"drafts, {order} order"
        )
        if test.rejected:
            raise UsageError(
                f"trace: the {test.n:,} drafts do not follow the draft's rows beside them (ln p = "
                f"{test.log_pvalue:.0f}): nothing on it can be said of a verifier; record drafts "
                f"and rows of the same temperature, top-k and top-p"
            )


_COIN_STREAM = 5
"""Key of these coins; a run's own streams are in ``kernels.philox``."""

PILOT_FRACTION = 1 / 8
"""Part of the recorded tokens whose blocks only say how many tokens a call emits."""

PLANNED_FRACTION = 0.95

BlockRule = Callable[[Block, np.random.Generator], list[int]]


class TraceReplay:
    """A rule without state, called on one recorded block after the other.

    What a call emits follows the target whatever the rule that recorded the block had made of
    it, as its coins are its own. How many tokens are judged is fixed by a pilot, the first
    :data:`PILOT_FRACTION` of the recording, whose tokens are not judged: from its tokens a call to
    95% of what the other blocks will give. If they give less, samples of the target's row after the
    last prefix make up for it.

    Parameters
    ----------
    judge
        Returns the tokens of a block: some first drafts and one more token.
    see
        Is given every block, with ``tau`` and the judged of the ``emitted`` tokens.
    complete
        Is given blocks of a target's sample each, as many as are missing.
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
        self._tokens, self._seed = tokens, seed
        self._coins = [_replay_coins(seed, lane) for lane in range(lanes)]
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
        judged = tuple(tokens[: self._due(block, len(tokens))])
        self._see(replace(block, tau=len(tokens) - 1, emitted=judged))
        self._last = block

    def finish(self) -> int:
        """Complete the tokens to the planned number and return it; all blocks are through.

        Raises ``UsageError`` if there are too few for a pilot and a run.
        """
        if not self._planned or self._last is None:
            raise UsageError(
                f"the trace holds {self.calls} blocks: too few to be judged; record more tokens"
            )
        missing, block = self._planned - self._judged, self._last
        rng = _replay_coins(self._seed, len(self._coins))
        for token in rng.choice(len(block.p[0]), size=missing, p=block.p[0]).tolist():
            self._complete(replace(block, emitted=(token,)))
        return self._planned

    def _due(self, block: Block, found: int) -> int:
        """How many of a call's tokens are judged."""
        if self._planned is not None:
            count = min(found, self._planned - self._judged)
            self._judged += count
            return count
        self._recorded += len(block.emitted)
        self._emitted += found
        if self._recorded >= PILOT_FRACTION * self._tokens:
            rest = (self._tokens - self._recorded) / self._recorded
            self._planned = int(PLANNED_FRACTION * rest * self._emitted)
        return 0


def _replay_coins(seed: int, lane: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, _COIN_STREAM], counter=[0, 0, 0, lane]))


# Built-in rules without state on recorded blocks: the runs that ``compare`` judges.


STATELESS_RULES = tuple(name for name in RULES if VERIFIERS[name].contract == "verify")
"""Rules that a recorded block is all of: one with state lives on tokens of its own. Of one that is
not among ``RULES``, such as temperature-0, nothing is known to expect of a block."""


@dataclass(frozen=True, eq=False)
class RuleReplay:
    """A rule's calls on the blocks so far, and what is kept of them."""

    replayed: TraceReplay
    kept: EmissionObserver


def start_replays(
    rules: Sequence[Verifier], *, gamma: int, lanes: int, tokens: int, seed: int
) -> dict[str, RuleReplay]:
    """Return a run of each of ``rules``, to be called with every block of a recording."""
    job = Job((), gamma=gamma, lanes=lanes, lane_tokens=0, request_tokens=0, seed=seed)
    runs = {}
    for rule in rules:
        emitted = EmissionObserver(job, rule)
        replayed = TraceReplay(
            _block_rule(rule), emitted, emitted.complete, lanes=lanes, tokens=tokens, seed=seed
        )
        runs[rule.name] = RuleReplay(replayed, emitted)
    return runs


def finish_replays(runs: dict[str, RuleReplay]) -> dict[str, DecodedRun]:
    """Return what is judged of each run; raises ``UsageError`` where there is too little."""
    for run in runs.values():
        run.replayed.finish()
    return {name: run.kept.decoded for name, run in runs.items()}


def _block_rule(rule: Verifier) -> BlockRule:
    judge = verifier_factory(rule)()

    def call(block: Block, rng: np.random.Generator) -> list[int]:
        return judge.judge(0, block.p, block.q[:-1], np.array(block.drafts), rng)

    return call
