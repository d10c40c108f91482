"""Speculative decoding of real models (Sun et al. 2025, algorithm 3), batched.

Lanes run side by side. Each decodes request after request: a request ends with a token that
ends sequences or with its last allowed one, and the lane takes its next prompt. A lane emits a
number of tokens that is fixed beforehand; its last block is cut. So the tokens of a lossless rule
follow the target given all before them, whatever was accepted, and stopping at the end of a
sequence selects nothing.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from simverify.arrays import Floats, Ints
from simverify.drafting.method import DraftMethod
from simverify.errors import SimverifyError, UsageError
from simverify.models.transformer import Sampling, TransformerPair
from simverify.simulators.kernels.philox import ACCEPT, DRAFT, fill_tile
from simverify.simulators.run import Features
from simverify.verifiers.base import MAX_WEIGHT, Array, Verifier

if TYPE_CHECKING:
    from simverify.models.kv_cache import CachedModel, UncachedModel

Text = tuple[int, ...]


# Calls of a user's own rule: counts, and its law where it is known.


@dataclass(frozen=True)
class ExactCall:
    """The exact law of the tokens in ``scope``, compared with the target's.

    ``accepted``: E[tau]; ``uncertain``: its possible error, from paths too unlikely to be run.
    ``deviates``: whether the law differs by more than ``tolerance``, which the code's precision
    explains.
    """

    scope: str
    accepted: float
    uncertain: float
    max_abs_deviation: float
    tv: float
    tolerance: float
    deviates: bool


@dataclass(frozen=True, eq=False)
class RuleCalls:
    """All that is kept of the calls of one rule on one model; rows are not.

    ``accepted``: int64 (most+1,), how many first calls accepted 0, 1, ... tokens. ``features``: of
    the judged tokens, None where a call broke the contract before the first. ``exact``: None where
    the law cannot be written out. ``findings``: what broke the contract. ``seconds``: wall clock
    of the calls.
    """

    accepted: Ints
    features: Features | None
    exact: ExactCall | None
    findings: tuple[str, ...]
    seconds: float


# Verifiers as the decoding loop calls them: blocks drafted for them, state between calls.


class LaneVerifier(Protocol):
    """A verifier of one lane of requests; a rule with state keeps it between calls."""

    def reset(self) -> None:
        """Begin a new request."""

    def judge(self, position: int, p: Array, q: Array, x: Any, rng: Any, /) -> list[int]:
        """Return the emitted tokens of the block ``x`` that was drafted from ``position`` on."""
        ...


@dataclass(frozen=True)
class _StatelessVerifier:
    rule: Callable[..., Any]

    def reset(self) -> None:
        pass

    def judge(self, _: int, p: Array, q: Array, x: Any, rng: Any) -> list[int]:
        emitted = [int(token) for token in self.rule(p, q, x, rng)]
        accepted = emitted[:-1]
        if not emitted or len(emitted) > len(x) + 1 or accepted != list(x[: len(accepted)]):
            raise UsageError(
                f"the verifier emitted {emitted} on the draft {list(map(int, x))}: expected some "
                f"first tokens of the draft and one more; audit it (simverify audit)"
            )
        return emitted


def verifier_factory(rule: Verifier | Callable[..., Any]) -> Callable[[], LaneVerifier]:
    """Return what makes a judge for each lane.

    ``rule``: a verifier of the project, a callable under the ``verify`` contract, or a class
    with ``reset`` and ``judge`` as :class:`~simverify.verifiers.greedy.GreedyBlock` has them.
    Raises ``UsageError`` for a class without the two: such a rule makes its own drafts.
    """
    made = rule.rule if isinstance(rule, Verifier) else rule
    if not isinstance(made, type):
        return lambda: _StatelessVerifier(made)
    if not (hasattr(made, "judge") and hasattr(made, "reset")):
        raise UsageError(
            f"{made.__name__} drafts for itself: give it a method judge(position, target_probs, "
            f"draft_probs, draft_tokens, rng) -> tokens, and reset(); or let it draft: simverify "
            f"audit SPEC --contract step --target DIR"
        )
    return made


# Requests side by side: the job, a call of one lane, the place of each lane, all lanes.


@dataclass(frozen=True)
class Job:
    """The requests to decode.

    ``prompts``: token ids, one or more each. ``lanes``: requests side by side, ``lane_tokens``
    the tokens each lane emits, ``request_tokens`` the most of one request.
    """

    prompts: tuple[tuple[int, ...], ...]
    gamma: int
    lanes: int
    lane_tokens: int
    request_tokens: int
    seed: int


@dataclass(frozen=True, eq=False)
class Block:
    """One call for one lane: its rows and its outcome.

    ``p``, ``q``: float64 (gamma+1, V), target and draft rows after 0..gamma of the ``drafts``;
    the verifier gets all but the last of q. ``tau``: accepted tokens. ``emitted``: the tokens that
    count, cut where the request or lane ended; ``position``: index of the first of them in the
    lane. ``first``: whether a request begins here.
    """

    lane: int
    position: int
    first: bool
    p: Floats
    q: Floats
    drafts: tuple[int, ...]
    tau: int
    emitted: tuple[int, ...]


@dataclass
class Clock:
    """Seconds of the wall clock by phase: drafting, the target's calls, the verifier.

    ``calls`` are those of all lanes, ``rounds`` their batches. ``prompt``: reading prompts, which
    costs as much without a draft and is no part of a token's time.
    """

    prompt: float = 0.0
    draft: float = 0.0
    score: float = 0.0
    verify: float = 0.0
    tokens: int = 0
    calls: int = 0
    rounds: int = 0
    drafted: int = 0

    @property
    def seconds_per_token(self) -> float:
        """Wall clock of all phases but the prompts' over emitted tokens, of all lanes together."""
        return self.decoding / self.tokens

    @property
    def decoding(self) -> float:
        """Seconds of all phases but the prompts'."""
        return self.draft + self.score + self.verify


@dataclass
class Lane:
    """A lane's place: its request's tokens so far, and what its models have not been fed."""

    number: int
    job: Job
    eos: frozenset[int]
    judge: Any
    next_prompt: int
    emitted: int = 0
    request: int = 0
    prefix: int = 0
    to_read: Sequence[int] = ()
    for_target: list[int] = field(default_factory=list)
    for_draft: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it has emitted all of its tokens."""
        return self.emitted >= self.job.lane_tokens

    def cut(self, output: Sequence[int]) -> Text:
        """Return the tokens of a call's ``output`` that count."""
        job = self.job
        room = min(job.lane_tokens - self.emitted, job.request_tokens - self.request)
        return truncate_at_eos(output, room, self.eos)

    def block(self, p: Floats, q: Floats, drafts: Text, output: Sequence[int]) -> Block:
        """Return the call that emitted ``output`` at the lane's place."""
        place = self.number, self.emitted, self.request == 0
        return Block(*place, p, q, drafts, len(output) - 1, self.cut(output))

    def begin(self) -> None:
        """Take the next prompt."""
        prompt = list(self.job.prompts[self.next_prompt % len(self.job.prompts)])
        self.next_prompt += self.job.lanes
        self.request, self.prefix = 0, len(prompt)
        self.to_read = prompt[:-1]
        self.for_target = self.for_draft = prompt[-1:]
        if self.judge is not None:
            self.judge.reset()

    def resume(self, blocks: Sequence[Text]) -> None:
        """Continue after earlier calls; the models have read nothing of what they emitted."""
        text = [*self.to_read, *self.for_target]
        for emitted in blocks:
            text += emitted
            if self.advance(emitted, emitted[-1]):
                text = [*self.to_read, *self.for_target]
        self.to_read, self.for_target, self.for_draft = text[:-1], text[-1:], text[-1:]

    def advance(self, emitted: Text, last: int) -> bool:
        """Count what a call emitted; ``last``: the token that no model was fed.

        Returns whether the request ends there: the next one begins.
        """
        self.emitted += len(emitted)
        self.request += len(emitted)
        self.prefix += len(emitted)
        if self.request == self.job.request_tokens or emitted[-1] in self.eos:
            self.begin()
            return True
        self.for_target = self.for_draft = [last]
        return False


class LaneBatch:
    """The lanes that are not done, with their models and the clock of all calls.

    ``before``: what the lanes emitted in earlier calls, block by block; they continue from there.
    Without ``method`` nothing is drafted.
    """

    def __init__(
        self,
        pair: TransformerPair,
        job: Job,
        make_judge: Callable[[], Any] = lambda: None,
        method: DraftMethod | None = None,
        before: Sequence[Sequence[Text]] = (),
    ) -> None:
        self.job, self.clock, self.call = job, Clock(), max(map(len, before), default=0)
        lanes = [Lane(r, job, pair.eos, make_judge(), r) for r in range(job.lanes)]
        for lane in lanes:
            lane.begin()
        for lane, blocks in zip(lanes, before, strict=False):
            lane.resume(blocks)
        self.lanes = [lane for lane in lanes if not lane.done]
        self.target = pair.cached(pair.target_model, len(self.lanes))
        self.draft: Any = None if method is None else method.make(pair, len(self.lanes))

    def read_prompts(self) -> None:
        """Let the models read the prompts of new requests, but for the last token."""
        start = time.perf_counter()
        for i, lane in enumerate(self.lanes):
            self.target.read(i, lane.to_read)
            if self.draft is not None:
                self.draft.read(i, lane.to_read)
            lane.to_read = ()
        self.clock.prompt += time.perf_counter() - start

    def advance(
        self,
        blocks: Sequence[Block],
        outputs: Sequence[Sequence[int]],
        kept: Sequence[Sequence[int]] = (),
        rejected: Any = 0,
    ) -> None:
        """Count what a call of each lane emitted, and go on with the lanes that are not done.

        ``outputs``: all tokens of each call. ``kept``: the numbers of each lane's accepted drafts.
        ``rejected``: how many of the last tokens that the target was fed are taken back.
        """
        clock, lanes = self.clock, self.lanes
        clock.calls += len(lanes)
        clock.rounds += 1
        clock.drafted += self.job.gamma * len(lanes) * (self.draft is not None)
        clock.tokens += sum(len(block.emitted) for block in blocks)
        ended = [
            lane.advance(block.emitted, output[-1])
            for lane, block, output in zip(lanes, blocks, outputs, strict=True)
        ]
        self.target.take_back(np.where(ended, self.target.lengths, rejected).tolist())
        if self.draft is not None:
            self.draft.accept(kept)
            self.draft.end(ended)
        going = [i for i, lane in enumerate(lanes) if not lane.done]
        if len(going) < len(lanes) and going:
            self.target.select(going)
            if self.draft is not None:
                self.draft.select(going)
        self.lanes = [lanes[i] for i in going]
        self.call += 1


# Rao-Blackwell: what each rule accepts of a drafted block in expectation, before any coin.


RULES = ("token", "block", "greedy", "match")
"""First axis of :func:`block_curves`; greedy's is its first call's, the ideal coupling."""


def block_curves(block: Block) -> Floats:
    """Probabilities that a block keeps l tokens or more, float64 (4, gamma), l = 1..gamma.

    Each is Pr(tau >= l) given the first l - 1 drafts, by the rows alone: its mean over blocks
    drafted at the same prefix is the rule's own Pr(tau >= l) there. With w what the rule has
    kept of the drafts before, it is the sum over x of min(w p(x), q(x)) for block and greedy, of
    w min(p(x), q(x)) for token and of w p(x) q(x) for match (Sun et al., "Block Verification
    Accelerates Speculative Decoding", ICLR 2025, algorithm 2 and theorems 1 to 3).
    """
    probabilities = np.empty((len(RULES), len(block.drafts)))
    token = whole = free = match = 1.0
    for i, x in enumerate(block.drafts):
        p, q = block.p[i], block.q[i]
        probabilities[:, i] = (
            token * np.minimum(p, q).sum(),
            np.minimum(whole * p, q).sum(),
            np.minimum(free * p, q).sum(),
            # Not `p @ q`: the threads of numpy's BLAS wait for each other longer than a sum takes.
            match * np.einsum("i,i", p, q),
        )
        ratio = p[x] / q[x]
        token *= min(ratio, 1.0)
        whole = min(whole * ratio, 1.0)
        free = min(free * ratio, MAX_WEIGHT)
        match *= p[x]
    return probabilities


def law_of_tau(block: Block, rule: str) -> Floats:
    """Probability of tau = 0..gamma given the rows and the drafts, float64 (gamma+1,).

    For a first call of ``rule``, one of :data:`RULES`: the coins alone are left to chance.
    """
    if rule in ("token", "match"):
        survival = [1.0]
        for i, token in enumerate(block.drafts):
            p, q = block.p[i][token], block.q[i][token]
            survival.append(survival[-1] * (p if rule == "match" else min(p / q, 1.0)))
        return -np.diff([*survival, 0.0])
    thresholds, weight = [], 1.0
    for i, token in enumerate(block.drafts):
        weight = weight * block.p[i][token] / block.q[i][token]
        weight = min(weight, 1.0 if rule == "block" else MAX_WEIGHT)
        if i + 1 == len(block.drafts):
            thresholds.append(min(weight, 1.0))
            continue
        gain = weight * block.p[i + 1] - block.q[i + 1]
        residual = float(np.maximum(gain, 0.0).sum())
        room = residual + 1.0 - weight if rule == "block" else float(np.maximum(-gain, 0.0).sum())
        thresholds.append(min(residual / room, 1.0) if room > 0.0 else 1.0)
    # The scan never stops early: tau is the last threshold that its coin stays below.
    h = np.array([1.0, *thresholds])
    missed = np.append(np.cumprod(1.0 - h[::-1])[::-1][1:], 1.0)
    law: Floats = h * missed
    return law


@dataclass(frozen=True)
class Interval:
    """A mean over lanes and its two-sided interval, by Student's t over lanes."""

    mean: float
    low: float
    high: float


class LaneStatistics:
    """Means per block of some quantities, and intervals from the spread between lanes.

    Lanes are independent given their prompts; the blocks of one lane are not. So an interval is
    that of sums over blocks divided by blocks (delta method), at t quantiles of one degree of
    freedom less than lanes: an approximation that improves with lanes.
    """

    def __init__(self, lanes: int, quantities: int) -> None:
        self.sums = np.zeros((lanes, quantities))
        self.counts = np.zeros(lanes)

    @classmethod
    def of(cls, sums: Floats, counts: Floats) -> "LaneStatistics":
        """Return the means of sums (lanes, quantities) over ``counts`` (lanes,) blocks."""
        statistics = cls(*sums.shape)
        statistics.sums, statistics.counts = sums, counts
        return statistics

    def add(self, lane: int, values: npt.ArrayLike) -> None:
        """Count one block."""
        self.sums[lane] += values
        self.counts[lane] += 1

    @property
    def blocks(self) -> int:
        """Blocks counted."""
        return int(self.counts.sum())

    @property
    def means(self) -> Floats:
        """Mean of each quantity over all blocks, float64 (quantities,)."""
        means: Floats = self.sums.sum(axis=0) / self.counts.sum()
        return means

    def interval(self, weights: npt.ArrayLike, confidence: float) -> Interval:
        """Interval of a weighted sum of the quantities' means, such as a difference."""
        sums = self.sums @ np.asarray(weights, dtype=np.float64)
        mean = float(sums.sum() / self.counts.sum())
        lanes = len(sums)
        off = (sums - mean * self.counts) / self.counts.mean()
        spread = float(np.sqrt((off**2).sum() / (lanes * (lanes - 1))))
        half = float(special.stdtrit(lanes - 1, (1.0 + confidence) / 2.0)) * spread
        return Interval(mean, mean - half, mean + half)


Logits = npt.NDArray[np.float32]
PLAIN_DRAFTING = DraftMethod()


def decode(
    pair: TransformerPair,
    job: Job,
    make_judge: Callable[[], LaneVerifier],
    observe: Callable[[Block], None] = lambda block: None,
    record: Callable[[Block, Logits, Logits], None] | None = None,
    method: DraftMethod = PLAIN_DRAFTING,
    before: Sequence[Sequence[Text]] = (),
) -> Clock:
    """Decode ``job`` with a verifier and drafts by ``method``; hand every block to ``observe``.

    ``record`` gets each block with the target's and the draft's logits (gamma+1, V) behind its
    rows. ``before``: what the lanes emitted in earlier calls, block by block, to continue from;
    for judges and drafters that need to know no more than the texts.

    Drafts of call c in lane r come from the addresses (trial r, stream DRAFT), the verifier's
    draws from a generator of their own for each lane and call. So rules see the same drafts as
    long as their texts agree, and batches change no draw.
    """
    gamma, batch = job.gamma, LaneBatch(pair, job, make_judge, method, before)
    draft, clock = batch.draft, batch.clock
    even = gamma + gamma % 2
    uniforms = np.empty((even, job.lanes))
    while lanes := batch.lanes:
        fill_tile(np.uint64(job.seed), 0, DRAFT, batch.call * (even // 2), uniforms)
        numbers = [lane.number for lane in lanes]
        batch.read_prompts()
        start = time.perf_counter()
        q, drafts, heads = _draft_blocks(draft, lanes, gamma, uniforms[:, numbers], pair.sampling)
        drafted = time.perf_counter()
        # The row after the last draft is for observers, and no part of decoding's time.
        heads.append(draft.extend(drafts[:, -1].tolist()))
        q = np.concatenate([q, pair.sampling.rows(heads[-1])[:, None]], axis=1)
        read = time.perf_counter()
        logits = batch.target.feed(
            [lane.for_target + tokens for lane, tokens in zip(lanes, drafts.tolist(), strict=True)]
        )
        rows = [pair.sampling.rows(lane_logits[-gamma - 1 :]) for lane_logits in logits]
        scored = time.perf_counter()
        outputs = [
            lane.judge.judge(
                lane.prefix,
                rows[i],
                q[i, :-1],
                drafts[i],
                lane_generator(job.seed, ACCEPT, lane.number, batch.call),
            )
            for i, lane in enumerate(lanes)
        ]
        judged = time.perf_counter()
        blocks = [
            lane.block(rows[i], q[i], tuple(drafts[i].tolist()), outputs[i])
            for i, lane in enumerate(lanes)
        ]
        clock.draft += drafted - start
        clock.score += scored - read
        clock.verify += judged - scored
        for i, block in enumerate(blocks):
            observe(block)
            if record is not None:
                record(block, logits[i][-gamma - 1 :], np.stack([head[i] for head in heads]))
        taus = [block.tau for block in blocks]
        batch.advance(blocks, outputs, [range(tau) for tau in taus], [gamma - tau for tau in taus])
    return clock


def decode_plain(pair: TransformerPair, job: Job) -> Clock:
    """Decode ``job`` with the target alone, a token a call: what speculation is up against."""
    batch = LaneBatch(pair, job)
    uniforms = np.empty((2, job.lanes))
    while lanes := batch.lanes:
        fill_tile(np.uint64(job.seed), 0, ACCEPT, batch.call, uniforms)
        batch.read_prompts()
        start = time.perf_counter()
        logits = batch.target.feed([lane.for_target for lane in lanes])
        rows = pair.sampling.rows(np.stack([lane_logits[-1] for lane_logits in logits]))
        tokens = _sample_rows(rows, uniforms[0, [lane.number for lane in lanes]])
        batch.clock.score += time.perf_counter() - start
        outputs = tokens[:, None].tolist()
        blocks = [
            lane.block(rows[i, None], rows[:0], (), outputs[i]) for i, lane in enumerate(lanes)
        ]
        batch.advance(blocks, outputs)
    return batch.clock


def _draft_blocks(
    draft: Any, lanes: list[Lane], gamma: int, uniforms: Floats, sampling: Sampling
) -> tuple[Floats, Ints, list[Logits]]:
    """Draft gamma tokens for each lane: rows (lanes, gamma, V), tokens (lanes, gamma), logits."""
    heads = [draft.begin([lane.for_draft for lane in lanes])]
    tokens = np.empty((len(lanes), gamma), np.int64)
    rows = []
    for i in range(gamma):
        rows.append(sampling.rows(heads[i]))
        tokens[:, i] = _sample_rows(rows[i], uniforms[i])
        if i + 1 < gamma:
            heads.append(draft.extend(tokens[:, i].tolist()))
    return np.stack(rows, axis=1), tokens, heads


def _sample_rows(rows: Floats, uniforms: Floats) -> Ints:
    """Inverse CDF: the first token at which the running sum passes u times the whole sum."""
    sums = np.cumsum(rows, axis=1)
    tokens: Ints = (sums <= uniforms[:, None] * sums[:, -1:]).sum(axis=1)
    return tokens


def lane_generator(seed: int, stream: int, lane: int, call: int = 0) -> np.random.Generator:
    """Return the generator of a lane's call in a stream of draws; no other call shares it."""
    return np.random.Generator(np.random.Philox(key=[seed, stream], counter=[0, 0, call, lane]))


def truncate_at_eos(tokens: Sequence[int], room: int, eos: frozenset[int]) -> Text:
    """Return the tokens up to the first that ends the sequence, ``room`` at most."""
    ends = (i + 1 for i, token in enumerate(tokens[:room]) if token in eos)
    return tuple(tokens[: next(ends, room)])


# Rules that draft for themselves, on real models: lane by lane, with the row after any prefix.
#
# Lanes and requests are those of the loop above. There is no batch, as the next rows of a
# rule are not known.


class ContextExceeded(UsageError):
    """A rule asked for a row beyond the models' context."""


class ModelError(SimverifyError):
    """A model gave no row; no rule is to blame."""


class LaneStepRule(Protocol):
    """A rule of one lane of requests, under the ``step`` contract."""

    def reset(self) -> None:
        """Begin a new request."""

    def step(self, prefix: Text, target: Any, draft: Any, gamma: int, rng: Any, /) -> Sequence[int]:
        """Return one or more tokens of the vocabulary that follow ``prefix``.

        ``target`` and ``draft`` are :class:`CachedModelRows`.
        """
        ...


class CachedModelRows:
    """The row of a model after any prefix, on a cache that holds one sequence.

    It keeps the beginning that the last sequence and the next prefix share, takes back the rest
    and feeds what is new: prefixes may grow, jump back and branch. ``model``: one of the pair's,
    with an empty cache of one request.
    """

    def __init__(self, pair: TransformerPair, model: "CachedModel | UncachedModel") -> None:
        self._pair, self._model = pair, model
        self._fed: Text = ()
        self._settled = 0
        self._known: dict[Text, Logits] = {}

    def settle(self, prefix: Text) -> None:
        """Begin a call at ``prefix``, and forget the rows of branches beside it."""
        # A row that a rule has seen stays the same to the last bit: a rounding can change much
        # under top-k and top-p, and a token is judged by the row that it was drawn from.
        self._known = {
            known: row for known, row in self._known.items() if prefix[: len(known)] == known
        }
        self._settled = len(prefix)

    def __call__(self, prefix: Sequence[int]) -> Floats:
        """Return a fresh float64 row (V,) that sums to 1; ``prefix``: one token or more."""
        tokens = tuple(int(token) for token in prefix)
        if tokens not in self._known:
            self._feed(tokens)
        return self._pair.sampling.rows(self._known[tokens])

    def _feed(self, tokens: Text) -> None:
        self._check_prefix(tokens)
        common = 0
        for fed, token in zip(self._fed, tokens[:-1], strict=False):
            if fed != token:
                break
            common += 1
        try:
            if common < len(self._fed):
                self._model.take_back([len(self._fed) - common])
            self._fed = tokens
            (logits,) = self._model.feed([tokens[common:]])
        except (SimverifyError, RuntimeError, MemoryError) as error:  # as where memory is short
            line = " ".join(str(error).split())[:200]
            raise ModelError(f"a model fails after {len(tokens)} tokens: {line}") from error
        # Nobody asks for those of the prompt, and they are many.
        for length in range(max(common + 1, min(self._settled, len(tokens))), len(tokens) + 1):
            self._known.setdefault(tokens[:length], logits[length - common - 1].copy())

    def _check_prefix(self, tokens: Text) -> None:
        if not tokens:
            raise ValueError("prefix is empty: a causal model needs one token or more")
        if len(tokens) > self._pair.context:
            raise ContextExceeded(
                f"the rule asks for the row after {len(tokens)} tokens, and the context holds "
                f"{self._pair.context}: gamma + 1 tokens beyond its own prefix are sure to fit; "
                f"raise --gamma, or take shorter prompts"
            )
        vocab_size = self._pair.vocab_size
        wrong = next((token for token in tokens if not 0 <= token < vocab_size), None)
        if wrong is not None:
            raise ValueError(f"prefix holds token {wrong}, vocabulary 0..{vocab_size - 1}")


def decode_steps(
    pair: TransformerPair,
    job: Job,
    make_rule: Callable[[], LaneStepRule],
    observe: Callable[[Block], None],
) -> None:
    """Decode ``job`` with a rule that drafts for itself; hand every call to ``observe``.

    Each lane has a rule of its own, which is reset where a request begins. The block of a call has
    no drafts: ``emitted`` are its tokens that count, ``p`` and ``q`` float64 (n, V) the rows of
    target and draft before each of those n, ``tau`` one less than all its tokens. Tokens follow
    the target by absolute position; a slot of a call need not, as the rule may carry state.

    Raises :class:`ContextExceeded` for a rule that looks beyond the context, :class:`ModelError`
    where a model fails, as when memory is short.
    """
    target = CachedModelRows(pair, pair.cached(pair.target_model, 1))
    draft = CachedModelRows(pair, pair.cached(pair.draft_model, 1))
    for lane in range(job.lanes):
        rule, emitted, call = make_rule(), 0, 0
        numbers = itertools.count(lane, job.lanes)
        while emitted < job.lane_tokens:
            prompt = prefix = job.prompts[next(numbers) % len(job.prompts)]
            ends = len(prompt) + min(job.request_tokens, job.lane_tokens - emitted)
            rule.reset()
            while len(prefix) < ends and not (prefix[len(prompt) :] and prefix[-1] in pair.eos):
                target.settle(prefix)
                draft.settle(prefix)
                rng = lane_generator(job.seed, ACCEPT, lane, call)
                output = list(rule.step(prefix, target, draft, job.gamma, rng))
                tokens = truncate_at_eos(output, ends - len(prefix), pair.eos)
                p, q = (
                    np.stack([rows((*prefix, *tokens[:i])) for i in range(len(tokens))])
                    for rows in (target, draft)
                )
                observe(Block(lane, emitted, prefix == prompt, p, q, (), len(output) - 1, tokens))
                prefix, emitted, call = (*prefix, *tokens), emitted + len(tokens), call + 1
