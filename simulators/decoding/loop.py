"""Speculative decoding of real models (Sun et al. 2025, algorithm 3), batched.

Lanes run side by side. Each decodes request after request: a request ends with a token that
ends sequences or with its last allowed one, and the lane goes on with its next prompt. A lane
emits a number of tokens fixed beforehand, its last block cut, so that the emitted tokens of a
lossless rule follow the target given all before them, whatever was accepted, and stopping at
the end of a sequence chooses nothing.
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
    from simverify.drafting.texts import Drafter
    from simverify.models.kv_cache import CachedModel, UncachedModel


# Calls of a user's own rule: its law where that can be had, and counts.


@dataclass(frozen=True)
class ExactCall:
    """The exact law of the tokens in ``scope``, against the target's.

    ``accepted``: E[tau]; ``uncertain``: by how much it may be off, for paths too light to be run.
    ``deviates``: whether the law is further from the target's than ``tolerance``, what the code's
    own precision explains.
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
    """All that is kept of the calls of one rule on one model: no rows.

    ``accepted``: int64 (most+1,), how many first calls accepted 0, 1, ... tokens; ``features`` of
    the tokens that are judged, None where a call broke the contract before there were any.
    ``exact`` is None where the law cannot be written out. ``findings``: what the code did against
    its contract. ``seconds``: of the calls, on the wall.
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
        ...

    def judge(
        self,
        position: int,
        target_probs: Array,
        draft_probs: Array,
        draft_tokens: Any,
        rng: np.random.Generator,
    ) -> list[int]:
        """Return the emitted tokens of a block that was drafted from ``position`` on."""
        ...


class _StatelessVerifier:
    def __init__(self, rule: Callable[..., Any]) -> None:
        self._rule = rule

    def reset(self) -> None:
        pass

    def judge(self, _: int, p: Array, q: Array, x: Any, rng: np.random.Generator) -> list[int]:
        emitted = [int(token) for token in self._rule(p, q, x, rng)]
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

    Raises
    ------
    UsageError
        If it is a class without the two: a rule that drafts itself cannot have its drafts
        made for it.
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


# Requests side by side: what is decoded, what a call of one lane was, and where each lane is.


@dataclass(frozen=True)
class Job:
    """What is decoded.

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
    """One call for one lane: its rows, and what came of it.

    ``p``, ``q``: float64 (gamma+1, V), target and draft rows after 0..gamma of the ``drafts``;
    the verifier is given all but the last of q. ``tau``: accepted tokens. ``emitted``: the
    tokens that count, the block cut where its request or lane ended; ``position``: index of
    the first of them in the lane. ``first``: whether a request begins here.
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

    ``calls`` counts those of all lanes, ``rounds`` the batches that they were made in.
    ``prompt``: reading prompts, which costs as much without a draft and is no part of a token.
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
        return (self.draft + self.score + self.verify) / self.tokens


@dataclass
class Lane:
    """A lane's place: its request's tokens so far, and what its models have not been fed."""

    number: int
    prompts: Sequence[Sequence[int]]
    judge: LaneVerifier | None
    next_prompt: int
    stride: int
    emitted: int = 0
    request: int = 0
    prefix: int = 0
    to_read: Sequence[int] = ()
    for_target: list[int] = field(default_factory=list)
    for_draft: list[int] = field(default_factory=list)

    def block(
        self, p: Floats, q: Floats, drafts: Ints, tau: int, emitted: tuple[int, ...]
    ) -> Block:
        """Return what a call made of ``drafts``, at the place where the lane is."""
        x = tuple(drafts.tolist())
        return Block(self.number, self.emitted, self.request == 0, p, q, x, tau, emitted)

    def begin(self) -> None:
        """Take the next prompt."""
        prompt = list(self.prompts[self.next_prompt % len(self.prompts)])
        self.next_prompt += self.stride
        self.request, self.prefix = 0, len(prompt)
        self.to_read = prompt[:-1]
        self.for_target = self.for_draft = prompt[-1:]
        if self.judge is not None:
            self.judge.reset()

    def go_on(self, blocks: Sequence[tuple[int, ...]], job: Job, eos: frozenset[int]) -> None:
        """Stand behind what calls before emitted; the models have read nothing of it."""
        text = [*self.to_read, *self.for_target]
        for emitted in blocks:
            text += emitted
            if self.advance(emitted, emitted[-1], job, eos):
                text = [*self.to_read, *self.for_target]
        self.to_read, self.for_target, self.for_draft = text[:-1], text[-1:], text[-1:]

    def advance(self, emitted: tuple[int, ...], last: int, job: Job, eos: frozenset[int]) -> bool:
        """Count what a call emitted; ``last``: the token that no model was fed.

        Returns whether the request ends there: the next one begins.
        """
        self.emitted += len(emitted)
        self.request += len(emitted)
        self.prefix += len(emitted)
        if self.request == job.request_tokens or emitted[-1] in eos:
            self.begin()
            return True
        self.for_target = self.for_draft = [last]
        return False


# Rao-Blackwell: what each rule accepts of a drafted block in expectation, before any coin.


RULES = ("token", "block", "greedy", "match")
"""First axis of :func:`block_curves`; greedy's is its first call's, the ideal coupling."""


def block_curves(block: Block) -> Floats:
    """Probabilities that a block keeps l tokens or more, float64 (4, gamma), l = 1..gamma.

    Each is Pr(tau >= l) given the first l - 1 drafts, by the rows alone: its mean over blocks
    drafted at the same prefix is the rule's own Pr(tau >= l) there. With w what the rule has
    kept of the drafts before, the sum over x of min(w p(x), q(x)) for block and greedy, of
    w min(p(x), q(x)) for token and w p(x) q(x) for match.

    References
    ----------
    Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025, algorithm 2
    and theorems 1 to 3.
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

    Lanes are independent given their prompts; the blocks of one are not. So the interval is
    of sums over blocks divided by blocks, with the delta method, at t quantiles of one degree
    of freedom less than lanes: approximate, the better the more lanes.
    """

    def __init__(self, lanes: int, quantities: int) -> None:
        self.sums = np.zeros((lanes, quantities))
        self.counts = np.zeros(lanes)

    @classmethod
    def of(cls, sums: Floats, counts: Floats) -> "LaneStatistics":
        """Return the means of sums (lanes, quantities) over ``counts`` (lanes,) blocks."""
        found = cls(*sums.shape)
        found.sums, found.counts = sums, counts
        return found

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
    before: Sequence[Sequence[tuple[int, ...]]] = (),
) -> Clock:
    """Decode ``job`` with a verifier and drafts by ``method``; hand every block to ``observe``.

    ``record`` is handed it too, with the target's and the draft's logits (gamma+1, V) of which
    its rows were made.

    Drafts of call c in lane r come from the addresses (trial r, stream DRAFT), the verifier's
    draws from a generator of their own for each lane and call: so rules see the same drafts
    as long as their texts agree, and batches change no draw.

    ``before``: what the lanes emitted in calls that are over, block by block, to go on from; for
    judges and drafters that need to know no more than the texts.
    """
    gamma, clock = job.gamma, Clock()
    lanes = [Lane(r, job.prompts, make_judge(), r, job.lanes) for r in range(job.lanes)]
    for lane in lanes:
        lane.begin()
    for lane, part in zip(lanes, before, strict=False):
        lane.go_on(part, job, pair.eos)
    lanes = [lane for lane in lanes if lane.emitted < job.lane_tokens]
    target = pair.cached(pair.target_model, len(lanes))
    draft = method.make(pair, len(lanes))
    even = gamma + gamma % 2
    uniforms = np.empty((even, job.lanes))
    call = max(map(len, before), default=0)
    while lanes:
        fill_tile(np.uint64(job.seed), 0, DRAFT, call * (even // 2), uniforms)
        numbers = [lane.number for lane in lanes]
        feed_prompts(lanes, clock, target, draft)
        start = time.perf_counter()
        q, drafts, heads = _draft_blocks(draft, lanes, gamma, uniforms[:, numbers], pair.sampling)
        drafted = time.perf_counter()
        # The row after the last draft is for who observes, and no part of decoding's time.
        heads.append(draft.extend(drafts[:, -1].tolist()))
        q = np.concatenate([q, pair.sampling.rows(heads[-1])[:, None]], axis=1)
        looked = time.perf_counter()
        logits = target.feed(
            [lane.for_target + own for lane, own in zip(lanes, drafts.tolist(), strict=True)]
        )
        rows = [pair.sampling.rows(own[-gamma - 1 :]) for own in logits]
        scored = time.perf_counter()
        outputs, blocks = [], []
        for i, lane in enumerate(lanes):
            assert lane.judge is not None
            rng = call_generator(job.seed, lane.number, call)
            outputs.append(lane.judge.judge(lane.prefix, rows[i], q[i, :-1], drafts[i], rng))
            room = min(job.lane_tokens - lane.emitted, job.request_tokens - lane.request)
            emitted = truncate_at_eos(outputs[i], room, pair.eos)
            blocks.append(lane.block(rows[i], q[i], drafts[i], len(outputs[i]) - 1, emitted))
        judged = time.perf_counter()
        clock.draft += drafted - start
        clock.score += scored - looked
        clock.verify += judged - scored
        clock.calls += len(lanes)
        clock.rounds += 1
        clock.drafted += gamma * len(lanes)
        clock.tokens += sum(len(block.emitted) for block in blocks)
        for i, block in enumerate(blocks):
            observe(block)
            if record is not None:
                record(block, logits[i][-gamma - 1 :], np.stack([head[i] for head in heads]))
        lanes = _apply_emitted(lanes, blocks, outputs, job, pair.eos, target, draft)
        call += 1
    return clock


def decode_plain(pair: TransformerPair, job: Job) -> Clock:
    """Decode ``job`` with the target alone, a token a call: what speculation is up against."""
    clock = Clock()
    lanes = [Lane(r, job.prompts, None, r, job.lanes) for r in range(job.lanes)]
    target = pair.cached(pair.target_model, job.lanes)
    for lane in lanes:
        lane.begin()
    uniforms = np.empty((2, job.lanes))
    call = 0
    while lanes:
        fill_tile(np.uint64(job.seed), 0, ACCEPT, call, uniforms)
        feed_prompts(lanes, clock, target)
        start = time.perf_counter()
        logits = target.feed([lane.for_target for lane in lanes])
        rows = pair.sampling.rows(np.stack([own[-1] for own in logits]))
        tokens = _sample_rows(rows, uniforms[0, [lane.number for lane in lanes]])
        clock.score += time.perf_counter() - start
        outputs = tokens[:, None].tolist()
        blocks = [
            lane.block(rows[i, None], rows[:0], tokens[:0], 0, tuple(outputs[i]))
            for i, lane in enumerate(lanes)
        ]
        clock.calls += len(lanes)
        clock.tokens += len(lanes)
        lanes = _apply_emitted(lanes, blocks, outputs, job, pair.eos, target)
        call += 1
    return clock


def feed_prompts(
    lanes: Sequence[Lane], clock: Clock, *models: "CachedModel | UncachedModel | Drafter"
) -> None:
    """Let the models read the prompts of requests that begin, but for the last token."""
    start = time.perf_counter()
    for i, lane in enumerate(lanes):
        for model in models:
            model.read(i, lane.to_read)
        lane.to_read = ()
    clock.prompt += time.perf_counter() - start


def _draft_blocks(
    draft: "Drafter", lanes: list[Lane], gamma: int, uniforms: Floats, sampling: Sampling
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


def call_generator(seed: int, lane: int, call: int) -> np.random.Generator:
    """Return the generator of a lane's call, which no other call shares."""
    return np.random.Generator(np.random.Philox(key=[seed, ACCEPT], counter=[0, 0, call, lane]))


def truncate_at_eos(found: list[int], room: int, eos: frozenset[int]) -> tuple[int, ...]:
    """Return the tokens up to the first that ends the sequence, ``room`` at most."""
    ends = (i + 1 for i, token in enumerate(found[:room]) if token in eos)
    return tuple(found[: next(ends, room)])


def _apply_emitted(
    lanes: list[Lane],
    blocks: list[Block],
    found: list[list[int]],
    job: Job,
    eos: frozenset[int],
    target: "CachedModel | UncachedModel",
    draft: "Drafter | None" = None,
) -> list[Lane]:
    """Count what was emitted, take back what was rejected; return the lanes that go on."""
    ended = [
        lane.advance(block.emitted, own[-1], job, eos)
        for lane, block, own in zip(lanes, blocks, found, strict=True)
    ]
    rejected = [len(block.drafts) - block.tau for block in blocks]
    target.take_back(np.where(ended, target.lengths, rejected).tolist())
    if draft is not None:
        draft.accept([range(block.tau) for block in blocks])
        draft.end(ended)
    going = [i for i, lane in enumerate(lanes) if lane.emitted < job.lane_tokens]
    if len(going) < len(lanes) and going:
        target.select(going)
        if draft is not None:
            draft.select(going)
    return [lanes[i] for i in going]


# Rules that draft for themselves, on real models: lane by lane, rows of whatever prefix they ask.
#
# Lanes and requests are those of the loop above. There is no batch, as nobody knows which rows a
# rule asks for next.


Prefix = tuple[int, ...]


class ContextExceeded(UsageError):
    """A rule asked for a row that lies beyond the models' context."""


class ModelError(SimverifyError):
    """A model gave no row, for which no rule is to blame."""


class LaneStepRule(Protocol):
    """A rule of one lane of requests, under the ``step`` contract."""

    def reset(self) -> None:
        """Begin a new request."""
        ...

    def step(
        self,
        prefix: Prefix,
        target: "CachedModelRows",
        draft: "CachedModelRows",
        gamma: int,
        rng: np.random.Generator,
    ) -> Sequence[int]:
        """Return one or more tokens of the vocabulary that follow ``prefix``."""
        ...


class CachedModelRows:
    """The row of a model after any prefix, on a cache that holds one sequence.

    Of the sequence that was fed last it keeps what the next prefix begins with, takes back
    the rest and feeds what is new: prefixes may grow, jump back and branch.

    Parameters
    ----------
    pair
        Says how logits become rows, and how long a context is.
    model
        Of the pair's models, with an empty cache of one request.
    """

    def __init__(self, pair: TransformerPair, model: "CachedModel | UncachedModel") -> None:
        self._pair, self._model = pair, model
        self._fed: Prefix = ()
        self._settled = 0
        self._known: dict[Prefix, Logits] = {}

    def settle(self, prefix: Prefix) -> None:
        """Begin a call at ``prefix``: what was asked on branches beside it is forgotten."""
        # A row that a rule has seen stays the same to the last bit: top-k and top-p make much
        # of a rounding, and a token is judged by the row that it was drawn from.
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

    def _feed(self, tokens: Prefix) -> None:
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
        # Those of the prompt nobody asks for, and they are many.
        for length in range(max(common + 1, min(self._settled, len(tokens))), len(tokens) + 1):
            self._known.setdefault(tokens[:length], logits[length - common - 1].copy())

    def _check_prefix(self, tokens: Prefix) -> None:
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

    A lane has a rule of its own, which is reset where a request begins. The block of a call has
    no drafts: ``emitted`` are its tokens that count, ``p`` and ``q`` float64 (n, V) the rows of
    target and draft before each of those n, ``tau`` all its tokens less one. They follow the
    target by absolute position; a slot of a call need not, as the rule may carry state.

    Raises
    ------
    BeyondContext
        The rule looks farther ahead than the context goes.
    ModelFailed
        Memory is short, for instance.
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
                rng = call_generator(job.seed, lane, call)
                output = list(rule.step(prefix, target, draft, job.gamma, rng))
                tokens = truncate_at_eos(output, ends - len(prefix), pair.eos)
                p, q = (
                    np.stack([rows((*prefix, *tokens[:i])) for i in range(len(tokens))])
                    for rows in (target, draft)
                )
                observe(Block(lane, emitted, prefix == prompt, p, q, (), len(output) - 1, tokens))
                prefix, emitted, call = (*prefix, *tokens), emitted + len(tokens), call + 1
