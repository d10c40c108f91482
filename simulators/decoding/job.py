"""What a decoding run of real models is asked for, what it keeps, and what its document says."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.checks import check_ranges
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.base import MarkovModel, Model
from simverify.models.ngram import TARGET_LENGTH, NgramModel
from simverify.models.transformer import TransformerPair
from simverify.results import Decoding, Drafter
from simverify.simulators.decoding import loop
from simverify.simulators.kernels.philox import PIT
from simverify.simulators.run import Features, features
from simverify.verifiers.base import Verifier

# What a decoding run keeps of its blocks: features of its tokens, what its rule accepted.
#
# Features are summed up as tokens come: constant in memory.

CONFIDENCE = 0.999

_MAX_ENTRIES = 1 << 22
"""Entries of target rows kept before they are summed up, 32 MB; draft rows are as many."""


class TokenSums:
    """Sums up the tokens of blocks, in the order in which they come.

    ``by_slot``: whether slots of a call follow the target, as those of a rule without state do; if
    not, no slot counts as one that judged a draft, and no tokens as a pair. ``one_draft``: whether
    q drafted one token a slot, as the named faults assume.
    """

    def __init__(
        self, *, gamma: int, lanes: int, seed: int, by_slot: bool = True, one_draft: bool = True
    ) -> None:
        self._gamma, self._by_slot, self._one_draft = gamma, by_slot, one_draft
        self._features: Features | None = None
        self._blocks: list[loop.Block] = []
        self._entries = 0
        self._uniforms = [loop.lane_generator(seed, PIT, lane) for lane in range(lanes)]

    def add(self, block: loop.Block) -> None:
        """Count the tokens that ``block`` emitted; it may have emitted none."""
        if block.emitted:
            self._blocks.append(block)
            self._entries += block.p.size
        if self._entries >= _MAX_ENTRIES:
            self._sum_up()

    @property
    def features(self) -> Features:
        """Features of all tokens so far, one or more."""
        if self._blocks:
            self._sum_up()
        assert self._features is not None
        return self._features

    def _sum_up(self) -> None:
        blocks = [(block, len(block.emitted)) for block in self._blocks]
        slots = np.concatenate([np.arange(n) for _, n in blocks])
        batch = features(
            np.concatenate([block.p[:n] for block, n in blocks]),
            np.concatenate([block.q[:n] for block, n in blocks]),
            np.concatenate([block.emitted for block, _ in blocks]),
            np.concatenate([self._uniforms[block.lane].random(n) for block, n in blocks]),
            judged=(slots < self._gamma) & self._by_slot & self._one_draft,
            # Which token comes next in this order depends on what a rule with state accepted.
            follows=np.full(len(slots), self._by_slot),
        )
        self._features = batch if self._features is None else self._features + batch
        self._blocks, self._entries = [], 0


@dataclass(frozen=True, eq=False)
class DecodedRun:
    """What is judged of every rule's run; rows are not kept.

    ``features``: of the emitted tokens. ``accepted``: int64 (gamma+1,), how often tau was each
    value. ``worth``: per lane, of each call some parts of gamma probabilities, then tau.
    """

    features: Features
    accepted: Ints
    worth: loop.LaneStatistics

    @property
    def gamma(self) -> int:
        """Draft length, or the depth of the trees."""
        return len(self.accepted) - 1

    @property
    def tau(self) -> loop.Interval:
        """The mean of tau."""
        return self.interval(-1)

    def interval(self, part: int, level: int | None = None) -> loop.Interval:
        """Return the mean sum of part number ``part``, or of its one ``level``, from 0."""
        weights = np.zeros(self.worth.sums.shape[1])
        first = part * self.gamma if part >= 0 else len(weights) - 1
        weights[first : first + self.gamma] = 1.0
        if level is not None:
            weights[first : first + self.gamma] = np.arange(self.gamma) == level
        return self.worth.interval(weights, CONFIDENCE)


@dataclass(frozen=True, eq=False)
class DecodedBlocks(DecodedRun):
    """A run on single drafts; the parts of ``worth`` are the curves of :data:`RULES`.

    ``taus`` int64 (calls,), ``laws`` float64 (calls, gamma+1): for each judged block the tau of a
    first call, and its law given the rows and the drafts.
    """

    taus: Ints
    laws: Floats


class RunObserver:
    """Counts the calls of a run, each with ``parts`` of gamma probabilities; it keeps no rows."""

    def __init__(self, gamma: int, lanes: int, seed: int, parts: int, **slots: bool) -> None:
        self._tokens = TokenSums(gamma=gamma, lanes=lanes, seed=seed, **slots)
        self._accepted: Ints = np.zeros(gamma + 1, np.int64)
        self._worth = loop.LaneStatistics(lanes, parts * gamma + 1)

    @property
    def features(self) -> Features:
        """Features of all tokens emitted so far."""
        return self._tokens.features

    def complete(self, block: loop.Block) -> None:
        """Count the tokens of ``block`` alone, such as samples that stand for missing ones."""
        self._tokens.add(block)

    def _count(self, block: loop.Block, *parts: Floats) -> None:
        self._accepted[block.tau] += 1
        self._worth.add(block.lane, [*np.concatenate(parts), block.tau])
        self._tokens.add(block)


class EmissionObserver(RunObserver):
    """Observer of :func:`~simverify.simulators.decoding.loop.decode` for a rule of :data:`RULES`.

    Slots of a call follow the target if the rule has no state. Of a rule with state only absolute
    positions do, and its first call is repeated on every block, by a judge of its own.

    ``calls``: how many first calls of each lane have their tau judged. Fix the number beforehand,
    as lanes that accept little call more often; None: all, where the rule cannot change it.
    """

    def __init__(self, job: loop.Job, verifier: Verifier, calls: int | None = None) -> None:
        by_slot = verifier.contract == "verify"
        super().__init__(job.gamma, job.lanes, job.seed, len(loop.RULES), by_slot=by_slot)
        self._rule, self._calls = verifier.name, calls
        self._first_call = loop.verifier_factory(verifier) if verifier.contract == "step" else None
        self._coins = [
            loop.lane_generator(job.seed, PIT, lane, call=1) for lane in range(job.lanes)
        ]
        self._taus: list[int] = []
        self._laws: list[Floats] = []

    def __call__(self, block: loop.Block) -> None:
        """Count a block."""
        if self._calls is None or self._worth.counts[block.lane] < self._calls:
            self._judge(block)
        self._count(block, *loop.block_curves(block))

    def _judge(self, block: loop.Block) -> None:
        tau = block.tau
        if self._first_call is not None:
            judge, drafts = self._first_call(), np.asarray(block.drafts)
            tau = len(judge.judge(0, block.p, block.q[:-1], drafts, self._coins[block.lane])) - 1
        self._taus.append(tau)
        self._laws.append(loop.law_of_tau(block, self._rule))

    @property
    def decoded(self) -> DecodedBlocks:
        """The run so far."""
        taus, laws = np.array(self._taus, np.int64), np.array(self._laws)
        return DecodedBlocks(self.features, self._accepted, self._worth, taus, laws)


# A run as named arrays, for files, and back.


Arrays = dict[str, npt.NDArray[Any]]

_ARRAY_FIELDS = ("accepted", "taus", "laws")


def to_arrays(run: DecodedBlocks) -> Arrays:
    """Return the numbers of ``run``, each array under the path of its field."""
    arrays = {name: getattr(run, name) for name in _ARRAY_FIELDS}
    arrays |= {"worth.sums": run.worth.sums, "worth.counts": run.worth.counts}
    return arrays | _flatten(run.features, "features")


def from_arrays(arrays: Arrays) -> DecodedBlocks:
    """Return the run that :func:`to_arrays` got, to the last bit.

    Raises ``ValueError`` if an array is missing or of another type.
    """
    pattern = features([[0.5, 0.5]], [[0.5, 0.5]], [0], [0.5])
    try:
        return DecodedBlocks(
            features=_unflatten(pattern, arrays, "features"),
            worth=loop.LaneStatistics.of(arrays["worth.sums"], arrays["worth.counts"]),
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
        return {}  # the same in every run: names of faults, no laws of contexts
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


DEFAULT_LANES = 32  # requests side by side by default
MAX_REQUEST_TOKENS = 128  # most new tokens of a request by default


def make_job(
    pair: TransformerPair,
    prompts: Sequence[str],
    *,
    gamma: int,
    tokens: int,
    lanes: int | None = None,
    request_tokens: int = MAX_REQUEST_TOKENS,
    seed: int,
) -> loop.Job:
    """Return the job of ``tokens`` tokens, or a few more so that all lanes emit equally many.

    Without ``lanes`` there are ``DEFAULT_LANES``, or fewer of eight tokens each.

    Raises ``UsageError`` if a number is out of range, or a prompt is missing or too long.
    """
    if not prompts:
        raise UsageError("there is no prompt: give one or more")
    if lanes is None:
        lanes = max(2, min(DEFAULT_LANES, tokens // 8))
    least = {"gamma": (gamma, 1), "tokens": (tokens, 1), "lanes": (lanes, 2)}
    least["tokens of a request"] = request_tokens, 1
    check_ranges([(name, n, n >= low, f"{low} or more") for name, (n, low) in least.items()])
    texts = tuple(tuple(pair.encode(text)) for text in prompts)
    longest = max(range(len(texts)), key=lambda i: len(texts[i]))
    # Tokens that every prompt leaves room for in the context, drafts included.
    room = pair.context - gamma - 1 - len(texts[longest])
    if room < 1:
        raise UsageError(
            f"prompt {longest + 1} has {len(texts[longest])} tokens: the context holds "
            f"{pair.context}, {gamma + 1} of them for a block; shorten it"
        )
    return loop.Job(texts, gamma, lanes, -(-tokens // lanes), min(request_tokens, room), seed)


def decoding_document(
    pair: TransformerPair,
    job: loop.Job,
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


# The rows of a simulated model, as calls of Python code read them: each computed once.


_MAX_CACHED_ROWS = 20_000  # rows kept of each model: 40 MB of 256 tokens


class ModelRows:
    """Rows after texts, which you must not write into, and tokens drafted from them.

    A row follows from the last token of a Markov model, and from the last four bytes of ``ngram``.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._order: int | None = None
        if isinstance(model, MarkovModel):
            self._order = 1
        elif isinstance(model, NgramModel):
            self._order = TARGET_LENGTH - 1
        self._cache: dict[tuple[str, loop.Text], Floats] = {}
        self.both = (self.target, self.draft)

    def start(self, rng: np.random.Generator) -> loop.Text:
        """Draw where a trial begins: held-out text of ``ngram``, else nothing."""
        if not isinstance(self._model, NgramModel):
            return ()
        contexts = self._model.contexts
        return tuple(int(token) for token in contexts[rng.integers(len(contexts))])

    def target(self, text: loop.Text) -> Floats:
        """Row (V,) of the target after ``text``."""
        return self._row("target", text)

    def draft(self, text: loop.Text) -> Floats:
        """Row (V,) of the draft after ``text``."""
        return self._row("draft", text)

    def drafted(self, text: loop.Text, u: float) -> int:
        """Return the token at ``u`` in [0, 1) of the draft's cumulative row after ``text``."""
        cumulative = self._row("cumulative", text)
        return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))

    def _row(self, kind: str, text: loop.Text) -> Floats:
        key = kind, text if self._order is None else text[-self._order :]
        if key not in self._cache:
            if len(self._cache) >= _MAX_CACHED_ROWS:
                self._cache.clear()
            row = (self._model.target if kind == "target" else self._model.draft)(key[1])
            self._cache[key] = np.cumsum(row) if kind == "cumulative" else row
        return self._cache[key]
