"""What a decoding run of real models is asked for, what it keeps, and what its document says."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.base import MarkovModel, Model
from simverify.models.ngram import TARGET_LENGTH, NgramModel
from simverify.models.transformer import TransformerPair
from simverify.results import Decoding, Drafter
from simverify.simulators.decoding.loop import (
    RULES,
    Block,
    Job,
    LaneStatistics,
    block_curves,
    law_of_tau,
    verifier_factory,
)
from simverify.simulators.kernels.philox import PIT
from simverify.simulators.run import Features, features
from simverify.verifiers.base import Verifier

# What a decoding run keeps of its blocks: features of its tokens, what its rule accepted.
#
# Features are summed up as tokens come: constant in memory.


_MAX_ENTRIES = 1 << 22
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
        if self._entries >= _MAX_ENTRIES:
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
        batch = features(
            np.concatenate([b.p[:n] for b, n in zip(self._kept, lengths, strict=True)]),
            np.concatenate([b.q[:n] for b, n in zip(self._kept, lengths, strict=True)]),
            np.concatenate([b.emitted for b in self._kept]),
            np.concatenate(
                [self._uniforms[b.lane].random(n) for b, n in zip(self._kept, lengths, strict=True)]
            ),
            judged=(slots < self._gamma) & self._by_slot & self._one_draft,
            follows=follows,
        )
        self._features = batch if self._features is None else self._features + batch
        self._kept, self._entries = [], 0


def _uniforms(seed: int, lane: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, PIT], counter=[0, 0, 0, lane]))


@dataclass(frozen=True, eq=False)
class DecodedRun:
    """All that is judged of a rule's run: no rows.

    ``features``: of the emitted tokens. ``accepted``: int64 (gamma+1,), how often tau was each
    value. ``worth``: per lane, the curves of :data:`RULES` on all blocks, then tau. ``taus``
    int64 (calls,), ``laws`` float64 (calls, gamma+1): for each judged block the tau of a
    first call, and its law given the rows and the drafts.
    """

    features: Features
    accepted: Ints
    worth: LaneStatistics
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


class EmissionObserver:
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
        self._first_call = verifier_factory(verifier) if verifier.contract == "step" else None
        self._tokens = TokenSums(
            gamma=job.gamma,
            lanes=job.lanes,
            seed=job.seed,
            by_slot=verifier.contract == "verify",
        )
        self._coins = [_coins(job.seed, lane) for lane in range(job.lanes)]
        self._accepted: Ints = np.zeros(job.gamma + 1, np.int64)
        self._worth = LaneStatistics(job.lanes, len(RULES) * job.gamma + 1)
        self._taus: list[int] = []
        self._laws: list[Floats] = []

    def __call__(self, block: Block) -> None:
        """Count a block."""
        self._accepted[block.tau] += 1
        if self._calls is None or self._worth.counts[block.lane] < self._calls:
            self._judge(block)
        self._worth.add(block.lane, [*block_curves(block).ravel(), block.tau])
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
    def decoded(self) -> DecodedRun:
        """What there is so far."""
        return DecodedRun(
            features=self.features,
            accepted=self._accepted,
            worth=self._worth,
            taus=np.array(self._taus, np.int64),
            laws=np.array(self._laws),
        )


def _coins(seed: int, lane: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, PIT], counter=[0, 0, 1, lane]))


# A run as named arrays, for files, and back.


Arrays = dict[str, npt.NDArray[Any]]

_ARRAY_FIELDS = ("accepted", "taus", "laws")


def to_arrays(found: DecodedRun) -> Arrays:
    """Return the numbers of ``found``, each array under the path of its field."""
    arrays = {name: getattr(found, name) for name in _ARRAY_FIELDS}
    arrays |= {"worth.sums": found.worth.sums, "worth.counts": found.worth.counts}
    return arrays | _flatten(found.features, "features")


def from_arrays(arrays: Arrays) -> DecodedRun:
    """Return what :func:`to_arrays` was given, to the last bit.

    Raises ``ValueError`` if an array is missing or of another type.
    """
    one = features([[0.5, 0.5]], [[0.5, 0.5]], [0], [0.5])
    try:
        return DecodedRun(
            features=_unflatten(one, arrays, "features"),
            worth=LaneStatistics.of(arrays["worth.sums"], arrays["worth.counts"]),
            **{name: arrays[name] for name in _ARRAY_FIELDS},
        )
    except KeyError as error:
        raise ValueError(f"there is no array {error.args[0]!r}") from None


def _flatten(value: Any, path: str) -> Arrays:
    if is_dataclass(value):
        parts = {f"{path}.{field.name}": getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, tuple):
        parts = {f"{path}.{i}": part for i, part in enumerate(value)}
    elif isinstance(value, str) or value is None:
        return {}  # the same for all: names of faults, no laws of contexts
    else:
        return {path: np.asarray(value)}
    return {name: array for at, part in parts.items() for name, array in _flatten(part, at).items()}


def _unflatten(pattern: Any, arrays: Arrays, path: str) -> Any:
    """Return an object built as ``pattern`` is, of the arrays under ``path``."""
    if is_dataclass(pattern) and not isinstance(pattern, type):
        names = [field.name for field in fields(pattern)]
        parts = {x: _unflatten(getattr(pattern, x), arrays, f"{path}.{x}") for x in names}
        return replace(pattern, **parts)
    if isinstance(pattern, tuple):
        return tuple(_unflatten(part, arrays, f"{path}.{i}") for i, part in enumerate(pattern))
    if isinstance(pattern, str) or pattern is None:
        return pattern
    array, expected = arrays[path], np.asarray(pattern)
    if (array.dtype, array.ndim) != (expected.dtype, expected.ndim):
        raise ValueError(f"{path} is {array.dtype} of {array.ndim} axes, expected {expected.dtype}")
    return array if isinstance(pattern, np.ndarray) else array.item()


DEFAULT_LANES = 32
"""Requests side by side by default."""

MAX_REQUEST_TOKENS = 128
"""Most new tokens of a request by default."""


def make_job(
    pair: TransformerPair,
    prompts: Sequence[str],
    *,
    gamma: int,
    tokens: int,
    lanes: int | None = None,
    request_tokens: int = MAX_REQUEST_TOKENS,
    seed: int,
) -> Job:
    """Return the job of ``tokens`` or a few more tokens, so that all lanes emit as many.

    Without ``lanes`` there are ``DEFAULT_LANES``, or fewer of eight tokens each.

    Raises ``UsageError`` if a number is out of range, or a prompt is missing or too long.
    """
    if not prompts:
        raise UsageError("there is no prompt: give one or more")
    if lanes is None:
        lanes = max(2, min(DEFAULT_LANES, tokens // 8))
    _check_numbers(gamma, tokens, lanes, request_tokens)
    texts = tuple(tuple(pair.encode(text)) for text in prompts)
    return Job(
        prompts=texts,
        gamma=gamma,
        lanes=lanes,
        lane_tokens=-(-tokens // lanes),
        request_tokens=min(request_tokens, _prompt_budget(pair, texts, gamma)),
        seed=seed,
    )


def decoding_document(
    pair: TransformerPair,
    job: Job,
    prompts: Sequence[str],
    prompts_file: str | None,
    methods: Sequence[DraftMethod],
) -> Decoding:
    """Return the document's entry of how ``job`` was run, drafting by ``methods``."""
    return Decoding(
        target=pair.target_name,
        draft=None if all(method.from_texts for method in methods) else pair.draft_name,
        prompts=prompts_file,
        prompts_sha256=hashlib.sha256("\0".join(prompts).encode()).hexdigest(),
        tokens=job.lanes * job.lane_tokens,
        lanes=job.lanes,
        request_tokens=job.request_tokens,
        temperature=pair.sampling.temperature,
        top_k=pair.sampling.top_k,
        top_p=pair.sampling.top_p,
        device=str(pair.target_model.device),
        dtype=str(pair.target_model.dtype).removeprefix("torch."),
    )


def drafter_document(method: DraftMethod) -> Drafter | None:
    """Return the document's entry of how drafts were made; None where that is plain."""
    if method.name == "plain":
        return None
    grouped = method.name == "easyspec"
    return Drafter(
        name=method.name,
        layer_parallel=method.layer_parallel if grouped else None,
        calibration=method.calibration if grouped else None,
    )


def _prompt_budget(pair: TransformerPair, prompts: Sequence[Sequence[int]], gamma: int) -> int:
    """Tokens that every prompt leaves room for in the context, drafts included."""
    longest = max(range(len(prompts)), key=lambda i: len(prompts[i]))
    room = pair.context - gamma - 1 - len(prompts[longest])
    if room < 1:
        raise UsageError(
            f"prompt {longest + 1} has {len(prompts[longest])} tokens: the context holds "
            f"{pair.context}, {gamma + 1} of them for a block; shorten it"
        )
    return room


def _check_numbers(gamma: int, tokens: int, lanes: int, request_tokens: int) -> None:
    rules = (
        ("gamma", gamma, 1),
        ("tokens", tokens, 1),
        ("lanes", lanes, 2),
        ("tokens of a request", request_tokens, 1),
    )
    for name, value, least in rules:
        if value < least:
            raise UsageError(f"{name} is {value}: expected {least} or more")


# The rows of a simulated model, as calls of Python code read them: each computed once.


Text = tuple[int, ...]

_MAX_CACHED_ROWS = 20_000
"""Rows kept of each model: 40 MB of 256 tokens."""


class ModelRows:
    """Rows after texts, which are not to be written into, and tokens drafted from them.

    A row follows from the last tokens alone: from one of a Markov model, from four bytes of
    ``ngram``.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._counts: int | None = None
        if isinstance(model, MarkovModel):
            self._counts = 1
        elif isinstance(model, NgramModel):
            self._counts = TARGET_LENGTH - 1
        self._known: dict[tuple[str, Text], Floats] = {}
        self.both = (self.target, self.draft)

    def start(self, rng: np.random.Generator) -> Text:
        """Draw where a trial begins: held-out text of ``ngram``, else nothing."""
        if not isinstance(self._model, NgramModel):
            return ()
        contexts = self._model.contexts
        return tuple(int(token) for token in contexts[rng.integers(len(contexts))])

    def target(self, text: Text) -> Floats:
        """Row (V,) of the target after ``text``."""
        return self._row("target", text)

    def draft(self, text: Text) -> Floats:
        """Row (V,) of the draft after ``text``."""
        return self._row("draft", text)

    def drafted(self, text: Text, u: float) -> int:
        """Return the token at ``u`` in [0, 1) of the draft's cumulative row after ``text``."""
        cumulative = self._row("cumulative", text)
        return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))

    def _row(self, kind: str, text: Text) -> Floats:
        key = kind, text if self._counts is None else text[-self._counts :]
        row = self._known.get(key)
        if row is None:
            if len(self._known) >= _MAX_CACHED_ROWS:
                self._known.clear()
            row = self._known[key] = self._made(kind, key[1])
        return row

    def _made(self, kind: str, text: Sequence[int]) -> Any:
        if kind == "target":
            return self._model.target(text)
        row = self._model.draft(text)
        return row if kind == "draft" else np.cumsum(row)
