"""Speculative decoding of real models (Sun et al. 2025, algorithm 3), batched.

Lanes run side by side. Each decodes request after request: a request ends with a token that
ends sequences or with its last allowed one, and the lane goes on with its next prompt. A lane
emits a number of tokens fixed beforehand, its last block cut, so that the emitted tokens of a
lossless rule follow the target given all before them, whatever was accepted, and stopping at
the end of a sequence chooses nothing.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.drafting.method import DraftMethod
from simverify.models.real.sampling import Sampling
from simverify.models.real.transformer import TransformerPair
from simverify.simulators.decoding.judges import Judge
from simverify.simulators.decoding.lanes import Block, Clock, Job, Lane
from simverify.simulators.kernels.philox import ACCEPT, DRAFT, fill_tile

if TYPE_CHECKING:  # they need torch, and blocks of a trace do not
    from simverify.drafting.drafter import Drafter
    from simverify.models.real.kv_cache import CachedModel
    from simverify.models.real.whole_model import WholeModel

Logits = npt.NDArray[np.float32]
PLAIN = DraftMethod()


def decode(
    pair: TransformerPair,
    job: Job,
    make_judge: Callable[[], Judge],
    observe: Callable[[Block], None] = lambda block: None,
    record: Callable[[Block, Logits, Logits], None] | None = None,
    method: DraftMethod = PLAIN,
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
    for lane, own in zip(lanes, before, strict=False):
        lane.go_on(own, job, pair.eos)
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
        begun = time.perf_counter()
        q, drafts, heads = _draft(draft, lanes, gamma, uniforms[:, numbers], pair.sampling)
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
        found, blocks = [], []
        for i, lane in enumerate(lanes):
            assert lane.judge is not None
            rng = call_generator(job.seed, lane.number, call)
            found.append(lane.judge.judge(lane.prefix, rows[i], q[i, :-1], drafts[i], rng))
            room = min(job.lane_tokens - lane.emitted, job.request_tokens - lane.request)
            emitted = cut(found[i], room, pair.eos)
            blocks.append(lane.block(rows[i], q[i], drafts[i], len(found[i]) - 1, emitted))
        judged = time.perf_counter()
        clock.draft += drafted - begun
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
        lanes = _settle(lanes, blocks, found, job, pair.eos, target, draft)
        call += 1
    return clock


def plain(pair: TransformerPair, job: Job) -> Clock:
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
        begun = time.perf_counter()
        logits = target.feed([lane.for_target for lane in lanes])
        rows = pair.sampling.rows(np.stack([own[-1] for own in logits]))
        tokens = _draw(rows, uniforms[0, [lane.number for lane in lanes]])
        clock.score += time.perf_counter() - begun
        found = tokens[:, None].tolist()
        blocks = [
            lane.block(rows[i, None], rows[:0], tokens[:0], 0, tuple(found[i]))
            for i, lane in enumerate(lanes)
        ]
        clock.calls += len(lanes)
        clock.tokens += len(lanes)
        lanes = _settle(lanes, blocks, found, job, pair.eos, target)
        call += 1
    return clock


def feed_prompts(
    lanes: Sequence[Lane], clock: Clock, *models: "CachedModel | WholeModel | Drafter"
) -> None:
    """Let the models read the prompts of requests that begin, but for the last token."""
    begun = time.perf_counter()
    for i, lane in enumerate(lanes):
        for model in models:
            model.read(i, lane.to_read)
        lane.to_read = ()
    clock.prompt += time.perf_counter() - begun


def _draft(
    draft: "Drafter", lanes: list[Lane], gamma: int, uniforms: Floats, sampling: Sampling
) -> tuple[Floats, Ints, list[Logits]]:
    """Draft gamma tokens for each lane: rows (lanes, gamma, V), tokens (lanes, gamma), logits."""
    heads = [draft.begin([lane.for_draft for lane in lanes])]
    tokens = np.empty((len(lanes), gamma), np.int64)
    rows = []
    for i in range(gamma):
        rows.append(sampling.rows(heads[i]))
        tokens[:, i] = _draw(rows[i], uniforms[i])
        if i + 1 < gamma:
            heads.append(draft.extend(tokens[:, i].tolist()))
    return np.stack(rows, axis=1), tokens, heads


def _draw(rows: Floats, uniforms: Floats) -> Ints:
    """Inverse CDF: the first token at which the running sum passes u times the whole sum."""
    sums = np.cumsum(rows, axis=1)
    tokens: Ints = (sums <= uniforms[:, None] * sums[:, -1:]).sum(axis=1)
    return tokens


def call_generator(seed: int, lane: int, call: int) -> np.random.Generator:
    """Return the generator of a lane's call, which no other call shares."""
    return np.random.Generator(np.random.Philox(key=[seed, ACCEPT], counter=[0, 0, call, lane]))


def cut(found: list[int], room: int, eos: frozenset[int]) -> tuple[int, ...]:
    """Return the tokens up to the first that ends the sequence, ``room`` at most."""
    ends = (i + 1 for i, token in enumerate(found[:room]) if token in eos)
    return tuple(found[: next(ends, room)])


def _settle(
    lanes: list[Lane],
    blocks: list[Block],
    found: list[list[int]],
    job: Job,
    eos: frozenset[int],
    target: "CachedModel | WholeModel",
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
