"""The matrix of parameters: which of them a server honours, cell by cell, with a document."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from simverify import results as doc
from simverify import stats
from simverify.arrays import Floats
from simverify.battery.battery import start_meta
from simverify.errors import UsageError
from simverify.models.distribution import STAGES, Law, Mask, law_fields
from simverify.models.transformer import TransformerPair
from simverify.served.answer_faults import describe_faults
from simverify.served.client import (
    ServerFailure,
    ServerRefusal,
    Transport,
    api_key_from_environment,
)
from simverify.served.collect import collect_answers
from simverify.served.evidence import RepeatedAnswers, copies_log_evalue
from simverify.served.judge import (
    MIN_TOLERANCE,
    measure_rounding,
    pit_histogram,
    prompt_mismatch_note,
)
from simverify.served.requests import (
    Prompt,
    Request,
    check_chat,
    check_settings,
    common_prefix_length,
    limit_tokens,
    prompt_ids,
)
from simverify.served.rescore import MAX_BATCH, dtype_name, logits_before
from simverify.served.server import Endpoint
from simverify.served.variants import DEFAULTS, TOO_NEAR, VARIANTS, SamplingVariant
from simverify.stats.evalues import RATIO_CAP

# Alternatives: what an engine may do instead of what it was asked for, and the rows of it.
#
# An engine may apply a parameter only on some rows of a drafted block. The forward algorithm
# follows these: it does not see where a block stands, only how likely each place is after the
# tokens so far.


AlternativeOutcome = Literal[
    "honoured", "dropped", "one side", "first row only", "last row only", "wrong order", "other"
]


class RequestLogits:
    """A request with its logits float32 (n, V), of the target and of a draft, if there is one."""

    def __init__(
        self,
        request: Request,
        target: npt.NDArray[np.float32],
        draft: npt.NDArray[np.float32] | None,
    ) -> None:
        self.request, self.target, self.draft = request, target, draft
        self._known: dict[tuple[str, Law], Floats] = {}
        self._late: dict[tuple[Law, int], Floats] = {}

    def p(self, law: Law) -> Floats:
        """Return rows (n, V) of the target by a law."""
        return self._rows("p", law, self.target)

    def q(self, law: Law) -> Floats:
        """Return rows (n, V) of the draft by a law."""
        assert self.draft is not None
        return self._rows("q", law, self.draft)

    def p_late(self, law: Law, lag: int) -> Floats:
        """Return rows (n, V) of the target by a law that does not count the last ``lag`` tokens."""
        if (law, lag) not in self._late:
            prompt, tokens = self.request.prompt, self.request.tokens
            rows = law.after(self.target[lag:], prompt, tokens)
            first = [law.after(x[None], prompt, ()) for x in self.target[:lag]]
            self._late[law, lag] = np.concatenate([*first, rows])
        return self._late[law, lag]

    def of(self, rows: Floats) -> Floats:
        """Return the emitted tokens' own entries of rows (n, V), float64 (n,)."""
        return np.asarray(rows[np.arange(len(rows)), np.array(self.request.tokens)])

    def _rows(self, side: str, law: Law, logits: npt.NDArray[np.float32]) -> Floats:
        if (side, law) not in self._known:
            rows = law.after(logits, self.request.prompt, self.request.tokens)
            self._known[side, law] = rows
        return self._known[side, law]


@dataclass(frozen=True, eq=False)
class Alternative:
    """What an engine may do, in ``words``, with its outcome.

    ``rows``: float64 (n, V), if every row is of the same law; None if a token's place in a block
    is hidden, and then ``chances``, float64 (n,), has those of the emitted tokens alone.
    """

    outcome: AlternativeOutcome
    words: str
    rows: Callable[[RequestLogits], Floats] | None = None
    chances: Callable[[RequestLogits], Floats] | None = None


def every_row(outcome: AlternativeOutcome, words: str, law: Law) -> Alternative:
    """An engine that follows ``law`` on every row."""
    return Alternative(outcome, words, lambda seen: seen.p(law))


def variant_alternative(variant: SamplingVariant, law: Law) -> Alternative:
    """An engine that is asked for ``law`` and samples in another way on every row."""

    def rows(seen: RequestLogits) -> Floats:
        return variant.rows(law, seen.target, seen.request.prompt, seen.request.tokens)

    return Alternative(variant.outcome, variant.words, rows)


def first_token_only(words: str, law: Law, without: Law) -> Alternative:
    """An engine that applies ``law`` only to a request's first token."""
    return Alternative(
        "dropped", words, lambda seen: np.concatenate([seen.p(law)[:1], seen.p(without)[1:]])
    )


def counting_prompt_as_output(words: str, law: Law) -> Alternative:
    """An engine whose penalties count the prompt as if it had been emitted."""

    def rows(seen: RequestLogits) -> Floats:
        prompt, tokens = seen.request.prompt, seen.request.tokens
        return law.after(seen.target, (), (*prompt, *tokens), first=len(prompt))

    return Alternative("other", words, rows)


def counting_window(words: str, law: Law, window: int) -> Alternative:
    """An engine whose penalties count the last ``window`` tokens, of prompt and answer."""

    def rows(seen: RequestLogits) -> Floats:
        whole = (*seen.request.prompt, *seen.request.tokens)
        result = np.empty(seen.target.shape)
        for row in range(len(result)):
            end = len(seen.request.prompt) + row
            last = whole[max(end - window, 0) : end]
            result[row] = law.after(seen.target[row : row + 1], last, last, first=len(last))[0]
        return result

    return Alternative("other", words, rows)


def without_last_tokens(law: Law, count: int) -> Alternative:
    """An engine whose penalties do not count the last ``count`` tokens yet."""
    words = "the last token" if count == 1 else f"the last {count} tokens"
    return Alternative("other", f"does not count {words}", lambda seen: seen.p_late(law, count))


def uncounted_draft_alternatives(
    law: Law, gammas: Sequence[int], drafted: bool
) -> list[Alternative]:
    """Engines whose penalties do not count the drafts that stand before a row in its own block."""

    def chances(gamma: int, kept: float | None) -> Callable[[RequestLogits], Floats]:
        def compute(seen: RequestLogits) -> Floats:
            places = []
            for lag in range(gamma + 1):
                p = seen.of(seen.p_late(law, lag))
                accepted = np.zeros_like(p)
                if lag < gamma:
                    accepted = kept * p if kept is not None else np.minimum(p, seen.of(seen.q(law)))
                places.append((accepted, p - accepted))
            return forward_probabilities(places, seen.of(seen.p(law)))

        return compute

    return [
        Alternative("other", "counts no draft of its own block", chances=chances(gamma, kept))
        for gamma in gammas
        for kept in ((None,) if drafted else KEEP_PROBABILITIES[1:])
    ]


KEEP_PROBABILITIES = (0.3, 0.6, 0.85)  # of a drafted token, without a draft to compute them


def block_row_alternatives(
    law: Law, without: Law, gammas: Sequence[int], drafted: bool
) -> list[Alternative]:
    """Engines that apply ``law`` only on the first row of a block, or on its last."""

    def chances(
        rows: tuple[Law, Law, Law], gamma: int, kept: float | None
    ) -> Callable[[RequestLogits], Floats]:
        def compute(seen: RequestLogits) -> Floats:
            def place(row_law: Law) -> tuple[Floats, Floats]:
                p = seen.of(seen.p(row_law))
                accepted = kept * p if kept is not None else np.minimum(p, seen.of(seen.q(row_law)))
                return accepted, p - accepted

            places = [place(rows[0])]
            if gamma > 1:
                places += [place(rows[1])] * (gamma - 1)
            ends = seen.of(seen.p(rows[2]))
            places.append((np.zeros_like(ends), ends))
            return forward_probabilities(places, seen.of(seen.p(law)))

        return compute

    choices: tuple[tuple[AlternativeOutcome, tuple[Law, Law, Law]], ...] = (
        ("first row only", (law, without, without)),
        ("last row only", (without, without, law)),
    )
    return [
        Alternative(
            outcome,
            f"gamma {gamma}" + ("" if kept is None else f", {kept:g} kept"),
            chances=chances(rows, gamma, kept),
        )
        for gamma in gammas
        for kept in ((None,) if drafted else KEEP_PROBABILITIES)
        for outcome, rows in choices
    ]


_NO_MASS = 1e-12

VERIFIER_SIDES = (
    ("the draft draws by it, and no row that judges", ("with", "raw", "raw", "raw")),
    ("the draft draws without it, and is judged as if it had", ("raw", "with", "with", "with")),
    ("the draft draws by it, and is judged as if it had not", ("with", "raw", "with", "with")),
    ("the acceptance alone, not what replaces a rejected token", ("raw", "raw", "with", "raw")),
    ("what replaces a rejected token alone, not the acceptance", ("raw", "raw", "raw", "with")),
)
"""The parts that have the parameter: the draw, the row it is judged by, acceptance, residual."""


def one_side_alternatives(law: Law, without: Law, gammas: Sequence[int]) -> list[Alternative]:
    """Engines that apply ``law`` only to a part of the verification."""

    def chances_of(which: tuple[str, ...], gamma: int) -> Callable[[RequestLogits], Floats]:
        def chances(seen: RequestLogits) -> Floats:
            laws = [law if name == "with" else without for name in which]
            drawn, judged = seen.q(laws[0]), seen.q(laws[1])
            accept, residual = seen.p(laws[2]), seen.p(laws[3])
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(judged > 0.0, accept / judged, np.where(accept > 0.0, 1.0, 0.0))
            accepted = drawn * np.minimum(ratio, 1.0)
            left = np.maximum(residual - judged, 0.0)
            total = left.sum(axis=1)
            new = np.where(
                total > _NO_MASS, seen.of(left) / np.maximum(total, _NO_MASS), seen.of(residual)
            )
            ends = new * np.maximum(1.0 - accepted.sum(axis=1), 0.0)
            bonus = seen.of(residual)
            places = [(seen.of(accepted), ends)] * gamma + [(np.zeros_like(bonus), bonus)]
            return forward_probabilities(places, seen.of(seen.p(law)))

        return chances

    return [
        Alternative("one side", f"{words}, gamma {gamma}", chances=chances_of(which, gamma))
        for words, which in VERIFIER_SIDES
        for gamma in gammas
    ]


def forward_probabilities(places: Sequence[tuple[Floats, Floats]], start: Floats) -> Floats:
    """Return each token's chance given all before it, if its place in a block is hidden.

    ``places``: for each row of a block float64 (n,) twice, the mass of the token if it is a draft
    that is kept, after which the next row comes, and if it ends the block. ``start``: chances
    float64 (n,), of which the first is that of a request's first token; then a block begins.
    """
    chances = start.copy()
    accepted, ends = (np.array(side) for side in zip(*places, strict=True))
    weights = np.eye(len(places))[0]
    for i in range(1, len(start)):
        after = np.append((weights * ends[:, i]).sum(), (weights * accepted[:, i])[:-1])
        chances[i] = total = after.sum()
        weights = after / total if total > 0.0 else np.eye(len(places))[0]
    return chances


# The cells: a parameter at a value that matters on these prompts, and its alternatives.


DEFAULT_GAMMAS = (1, 2, 3, 4, 5, 8)  # draft lengths that are tried by default
PENALTY_WINDOWS = (20, 64)  # tokens that mlx-lm's and llama.cpp's penalties count by default
_COUNTING_PENALTIES = {"repetition_penalty", "presence_penalty", "frequency_penalty"}
_PENALTY_TEMPERATURE, _PENALTY_ANSWER_TOKENS = 0.2, 8
"""Where a penalty changes most what a token is worth: a low temperature multiplies it, and the
first tokens after a prompt that repeats a word are that word."""

_LOG_CAP = 4.0  # nats that a token adds to the worth of a value, at most


@dataclass(frozen=True, eq=False)
class Cell:
    """One question to a server: ``law`` is asked for, and may be served as ``ways`` say.

    ``name``: the parameter, or those whose order is tested. ``value``: in words. ``body``: fields
    of its requests beside those that ask for ``law``. ``prompts``: those that it asks, None for
    those of the run; ``max_tokens``: limit of its answers, None for that of the run.
    """

    name: str
    value: str
    law: Law
    ways: tuple[Alternative, ...]
    body: Mapping[str, Any] = field(default_factory=dict)
    prompts: Sequence[Prompt] | None = None
    max_tokens: int | None = None

    @property
    def outcomes(self) -> tuple[AlternativeOutcome, ...]:
        """The outcomes that are looked for."""
        outcomes = tuple(dict.fromkeys(way.outcome for way in self.ways))
        return outcomes or ("honoured", "dropped", "other")  # those of seeds


@dataclass(frozen=True)
class PilotRows:
    """Rows of the target on the prompts, and what its tokens are like.

    ``seen``: prompts as if their later half had been emitted. ``common``: the likeliest tokens;
    ``ends``: those that end a request; ``words``: ids of words to be banned. ``repeating``: prompts
    after which the target repeats what it just emitted, by how many words they repeat.
    """

    seen: Sequence[RequestLogits]
    common: Sequence[int]
    ends: tuple[int, ...]
    words: tuple[tuple[int, ...], ...]
    repeating: Mapping[int, Sequence[Prompt]] = field(default_factory=dict)


def make_cells(
    pilot: PilotRows,
    order: tuple[str, ...],
    gammas: Sequence[int],
    drafted: bool,
    mask: Mask | None = None,
    mask_body: Mapping[str, Any] | None = None,
) -> Iterator[Cell]:
    """Yield cells, each at the value that tells its plain alternatives best; ``mask`` is last."""
    base = Law(order=order)

    def ways(
        names: tuple[str, ...], law: Law, without: Law, plain: list[Alternative]
    ) -> tuple[Alternative, ...]:
        return (
            *plain,
            first_token_only("ignored after the first token", law, without),
            *_counting_alternatives(law, names),
            *block_row_alternatives(law, without, gammas, drafted),
            *(one_side_alternatives(law, without, gammas) if drafted else ()),
        )

    def best(
        names: tuple[str, ...],
        values: Sequence[Mapping[str, Any]],
        plain: Callable[[Law], list[Alternative]],
    ) -> Cell:
        laws = [replace(base, **value) for value in values]
        law = max(laws, key=lambda law: _expected_information(pilot, plain(law)))
        one = len(names) == 1
        without = _law_without(law, names[0]) if one else base
        shown = ", ".join(
            f"{name.replace('_', '-')} {_value_text(getattr(law, name))}" for name in names
        )
        title = names[0] if one else " before ".join(_sort_by_stage(law, names))
        return Cell(title.replace("_", "-"), shown, law, ways(names, law, without, plain(law)))

    def penalty(name: str, value: float) -> Cell:
        asked: dict[str, Any] = {name: value}
        law = replace(base, temperature=_PENALTY_TEMPERATURE, **asked)
        without, plain = _law_without(law, name), _plain_alternatives(law, name)
        every = (
            *ways((name,), law, without, plain),
            *(without_last_tokens(law, count) for count in (1, 2)),
            *uncounted_draft_alternatives(law, gammas, drafted),
        )
        shown = f"{name.replace('_', '-')} {value:g}, temperature {_PENALTY_TEMPERATURE:g}"
        # Where the prompt counts, a word that it repeats is penalised already.
        prompts = pilot.repeating[2 if name == "repetition_penalty" else 1]
        limit = _PENALTY_ANSWER_TOKENS
        return Cell(name.replace("_", "-"), shown, law, every, {}, prompts, limit)

    for name, values in _candidate_values(pilot).items():
        if name in _COUNTING_PENALTIES and pilot.repeating:
            yield penalty(name, max(values))
            continue
        each = [value if isinstance(value, dict) else {name: value} for value in values]
        yield best((name,), each, partial(_plain_alternatives, name=name))
    for names, candidates in _PARAMETER_PAIRS.items():
        each = [dict(zip(names, value, strict=True)) for value in candidates(pilot)]
        yield best(names, each, partial(_pair_alternatives, names=names))
    if mask is not None:
        law = replace(base, mask=mask)
        plain = _plain_alternatives(law, "mask")
        without = _law_without(law, "mask")
        yield Cell("mask", mask.name, law, ways(("mask",), law, without, plain), mask_body or {})


def _law_without(law: Law, *names: str) -> Law:
    return replace(law, **{name: getattr(Law(), name) for name in names})


def _candidate_values(pilot: PilotRows) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {
        "temperature": [0.5, 2.0],
        "top_k": [2, 5, 20],
        "top_p": [0.3, 0.5, 0.8],
        "min_p": [0.05, 0.1, 0.3],
        "typical_p": [0.2, 0.5, 0.8],
        "repetition_penalty": [1.3, 2.0],
        "presence_penalty": [1.0, 2.0],
        "frequency_penalty": [1.0, 2.0],
        "logit_bias": [
            tuple((token, 3.0 if i % 2 else -3.0) for i, token in enumerate(pilot.common[:count]))
            for count in (10, 40)
        ],
    }
    if pilot.words:
        values["bad_words"] = [pilot.words]
    if pilot.ends:
        # The end is made likely, so that few tokens show whether it was banned.
        end = pilot.ends[0]
        values["min_tokens"] = [
            {"min_tokens": 8, "ends": pilot.ends, "logit_bias": ((end, bias),)}
            for bias in (2.0, 4.0, 6.0, 8.0)
        ]
    return values


_PARAMETER_PAIRS: dict[tuple[str, ...], Callable[[PilotRows], list[tuple[Any, ...]]]] = {
    ("temperature", "top_p"): lambda _: [(2.0, 0.5), (2.0, 0.8), (0.5, 0.8)],
    ("temperature", "min_p"): lambda _: [(2.0, 0.1), (2.0, 0.3), (0.5, 0.1)],
    ("top_k", "top_p"): lambda _: [(3, 0.5), (5, 0.7), (10, 0.8)],
    ("presence_penalty", "temperature"): lambda _: [(2.0, 0.4), (2.0, 2.0)],
    ("repetition_penalty", "presence_penalty"): lambda _: [(2.0, 2.0), (1.5, 2.0)],
    ("logit_bias", "top_k"): lambda pilot: [
        (((pilot.common[0], 3.0),), 2),
        (((pilot.common[3], 4.0),), 3),
    ],
}
"""Parameters that interact, with the values that are tried."""


def _plain_alternatives(law: Law, name: str) -> list[Alternative]:
    ways = [
        every_row("honoured", "as asked", law),
        every_row("dropped", "ignored", _law_without(law, name)),
        *(
            every_row("dropped", f"ignored: {value:g} instead", replace(law, **{name: value}))
            for value in DEFAULTS.get(name, ())
        ),
        *(
            variant_alternative(one, law)
            for one in VARIANTS
            if one.parameter == name and one.outcome == "other" and one.applies(law)
            if one.words not in TOO_NEAR
        ),
    ]
    if name == "min_tokens":
        ways.append(every_row("other", "the bias beside it ignored", replace(law, logit_bias=())))
    if name == "repetition_penalty":
        without_prompt = Alternative(
            "other", "counts no prompt", lambda s: law.after(s.target, (), s.request.tokens)
        )
        ways.append(without_prompt)
    if name in ("presence_penalty", "frequency_penalty"):
        ways.append(counting_prompt_as_output("counts the prompt, too", law))
    if name == "frequency_penalty":
        flat = replace(law, frequency_penalty=None, presence_penalty=law.frequency_penalty)
        ways.append(every_row("other", "taken off once, as a presence penalty", flat))
    return ways


def _pair_alternatives(law: Law, names: tuple[str, ...]) -> list[Alternative]:
    """Two parameters in an order: the other order, or without one of them or both."""
    stages = [_stage_name(name) for name in names]
    swap = dict(zip(stages, reversed(stages), strict=True))
    swapped = replace(law, order=tuple(swap.get(stage, stage) for stage in law.order))
    last = " before ".join(reversed(_sort_by_stage(law, names)))
    return [
        every_row("honoured", "as asked", law),
        every_row("wrong order", last.replace("_", "-"), swapped),
        *(
            every_row("dropped", f"{name.replace('_', '-')} ignored", _law_without(law, name))
            for name in names
        ),
        every_row("dropped", "both ignored", _law_without(law, *names)),
    ]


def _counting_alternatives(law: Law, names: tuple[str, ...]) -> list[Alternative]:
    """Penalties that count other tokens. A window may hide nothing, so they choose no value."""
    if not _COUNTING_PENALTIES.intersection(names):
        return []
    ways = [
        counting_window(f"counts the last {window} tokens alone, the prompt's too", law, window)
        for window in PENALTY_WINDOWS
    ]
    pair = [counting_prompt_as_output("counts the prompt, too", law)] if len(names) > 1 else []
    return ways + pair


def _stage_name(name: str) -> str:
    if name in _COUNTING_PENALTIES:
        return "repetition" if name == "repetition_penalty" else "presence"
    return name.replace("_", "-")


def _sort_by_stage(law: Law, names: tuple[str, ...]) -> list[str]:
    return sorted(names, key=lambda name: law.order.index(_stage_name(name)))


def _expected_information(pilot: PilotRows, ways: Sequence[Alternative]) -> float:
    """Return what a token says, on average, to tell the first alternative from the nearest other.

    What it says of the nearest two of all, by which a fault gets its name, is added.
    """

    def divergence(a: Floats, b: Floats) -> float:
        """Mean divergence of rows a from rows b, in nats, each token's part capped."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(a > 0.0, np.log(a / b), 0.0)
        return float((a * np.clip(logs, -_LOG_CAP, _LOG_CAP)).sum()) / len(a)

    try:
        rows = [np.concatenate([way.rows(x) for x in pilot.seen]) for way in ways if way.rows]
    except UsageError:
        return -1.0  # nothing is left to draw
    apart = {
        (i, j): divergence(rows[i], rows[j]) + divergence(rows[j], rows[i])
        for i in range(len(rows))
        for j in range(i)
    }
    return min(worth for (_, j), worth in apart.items() if j == 0) + min(apart.values())


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        first = value[0]
        if len(value) > 1:
            return f"of {len(value)}"
        return f"{first[1]:+g} on {first[0]}" if len(first) == 2 else f"id {first[0]}"
    return f"{value:g}"


# The client of a cell: what the server refuses, and what remains when it stops answering.


RETRY_SECONDS = 60.0  # in which a lost server may come back, before the rest is left out
_RETRY_PAUSE = 2.0
_UNSUPPORTED_STATUSES = (400, 422, 501)  # by which a server refuses a parameter


@dataclass(frozen=True)
class CellFailure:
    """Why a cell has no answers, in the server's words: it ``refused``, or the connection broke."""

    words: str
    refused: bool


@dataclass
class CellClient:
    """Asks an endpoint for the answers of each cell; ``keep``: a folder for them, or None.

    If the server is lost in a cell and comes back, only that cell is left out. With ``keep`` a mark
    beside the cell's answers tells a later run to ask such cells last.
    """

    endpoint: Endpoint
    prompts: Sequence[Prompt]
    pair: TransformerPair
    keep: Path | None
    say: Callable[[str], None]
    notes: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._answered, self._broke, self._away = False, "", False

    def in_turn(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells as they are asked: last those in which the server was lost before."""
        lost = {path.name for path in self.keep.glob("*.broke")} if self.keep else set()
        return sorted(cells, key=lambda cell: f"{cell.name.replace(' ', '-')}.broke" in lost)

    def answers(
        self, cell: Cell, tokens: int, samples: int | None = None, most: int | None = None
    ) -> tuple[Request, ...] | CellFailure:
        """Return the answers of a cell to ``most`` prompts at most, or why there are none.

        ``UsageError`` if the server fails before it answered any cell, wants another key, or gives
        what cannot be judged.
        """
        if self._away or (self._broke and not self._back()):
            self._away = True
            words = f"not asked: the server was gone since the cell {self._broke}"
            return CellFailure(words, False)
        prompts = self.prompts[:most] if cell.prompts is None else cell.prompts
        pair = replace(self.pair, sampling=cell.law)
        body = {**self.endpoint.extra_body, **cell.body}
        limit = min(self.endpoint.max_tokens, cell.max_tokens or self.endpoint.max_tokens)
        endpoint = replace(self.endpoint, extra_body=body, max_tokens=limit)
        if cell.law.min_tokens:
            # As many as it takes if it is honoured: without it answers may be of one token.
            samples = -(-tokens // (cell.law.min_tokens * len(prompts)))
        file, mark = self._path(cell.name, "jsonl"), self._path(cell.name, "broke")
        try:
            answers = collect_answers(
                endpoint, prompts, pair, tokens, samples, keep=file, progress=self.say
            )
        except UsageError as error:
            why = error.__cause__
            if isinstance(why, ServerRefusal) and why.code in _UNSUPPORTED_STATUSES:
                self._answered = True
                return CellFailure(str(error), True)
            lost = isinstance(why, ServerFailure) and not (
                isinstance(why, ServerRefusal) and why.code in (401, 403)
            )
            if lost and mark is not None:
                mark.write_text(f"{error}\n")
            if not lost or not self._answered:
                raise
            self._broke = cell.name
            self.say(f"{error}; the cell {cell.name} is left, and the next is asked")
            return CellFailure(f"no answer: {error}", False)
        self._answered, self._broke = True, ""
        if mark is not None:
            mark.unlink(missing_ok=True)
        self.notes.update(dict.fromkeys(answers.notes))
        return answers.requests

    def _back(self) -> bool:
        end, announced = time.monotonic() + RETRY_SECONDS, False
        while True:
            transport = Transport(api_key_from_environment(), lambda _: None, self.endpoint.timeout)
            with suppress(ServerFailure):
                transport.call(self.endpoint.at("models"), None)
                return True
            if transport.reached:
                return True  # it answers, if with an error
            if time.monotonic() >= end:
                return False
            if not announced:
                self.say(f"the server is gone since the cell {self._broke}: waiting for it")
                announced = True
            time.sleep(_RETRY_PAUSE)

    def _path(self, name: str, suffix: str) -> Path | None:
        return None if self.keep is None else self.keep / f"{name.replace(' ', '-')}.{suffix}"


# What a cell's tokens follow: each candidate is rejected by bets on all the others.
#
# A bet on one law against another is the ratio of their chances of an emitted token. If the tokens
# follow the first law, the product is above 1/alpha with probability alpha at most. So whichever
# law an engine follows is rejected with probability alpha at most, and what is left when all others
# are rejected is named.


MIX_STRENGTHS = (1.0, 0.3, 0.05)  # of another law in a mixture with the one that is bet against
_POWER_QUANTILE = 1.2816  # of the normal distribution at power .9
_SEARCH_STEPS = 60


@dataclass(frozen=True)
class ComparisonResult:
    """What tokens say of the alternatives.

    ``left``: outcomes that were not rejected, likeliest first, each with words. ``found``: the
    least share of tokens drawn without the parameter that would have been found with power .9,
    None if not even all would. ``evalue``: natural logarithm of the e-value against what was asked
    for. ``tells``: how many tokens would leave one outcome, with power .9 if bets go on as so far;
    None if one is left, or if they win nothing. ``log_pvalues``: natural logarithm of the p-value
    of each alternative, in their order.
    """

    left: tuple[tuple[AlternativeOutcome, str], ...]
    found: float | None
    evalue: float
    tells: int | None
    log_pvalues: tuple[float, ...]


class CellComparison:
    """Sums over the requests of a cell; ``ways[0]`` is the law that was asked for."""

    def __init__(self, ways: Sequence[Alternative], seed: int) -> None:
        self.ways = tuple(ways)
        self.n = 0
        k = len(self.ways)
        self._wealth, self._squares = np.zeros((2, k, k, len(MIX_STRENGTHS)))
        self._chance = np.zeros(k)
        self._moments = np.zeros((2, 2, len(MIX_STRENGTHS)))
        self._pits: list[list[Floats]] = [[] for _ in self.ways]
        self._rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 4, 0]))

    def add(self, seen: RequestLogits) -> None:
        """Count a request."""
        tokens = np.array(seen.request.tokens)
        self.n += len(tokens)
        v = self._rng.random(len(tokens))
        chances = np.empty((len(self.ways), len(tokens)))
        expected = dropped = None
        for i, way in enumerate(self.ways):
            if way.rows is None:
                assert way.chances is not None
                chances[i] = way.chances(seen)
                continue
            rows = way.rows(seen)
            chances[i] = seen.of(rows)
            self._pits[i].append(_randomized_pits(rows, tokens, v))
            if i == 0:
                expected = rows
            elif way.outcome == "dropped" and dropped is None:
                dropped = rows
        with np.errstate(divide="ignore"):
            self._chance += np.log(chances).sum(axis=1)
        for i, chance in enumerate(chances):
            ratios = _likelihood_ratio(chances, chance)
            with np.errstate(divide="ignore"):
                for s, share in enumerate(MIX_STRENGTHS):
                    won = np.log1p(share * (ratios - 1.0))
                    self._wealth[i, :, s] += won.sum(axis=1)
                    self._squares[i, :, s] += (won**2).sum(axis=1)
        if expected is not None and dropped is not None:
            self._moment(expected, dropped)

    def judge(self, alpha: float, ball: float, planned: int = 0) -> ComparisonResult:
        """Return what is left at level ``alpha``, if rows may be off by ``ball`` on average.

        The PITs of fewer tokens than ``planned`` are filled up with fresh uniforms: how many came
        may depend on what they were, and all together are uniform whatever it was.
        """
        fill = self._rng.random((2, max(planned - self.n, 0)))
        price = self.n * np.log1p(ball * np.array(MIX_STRENGTHS) * RATIO_CAP)
        weights, evalues = self._weights(), np.empty(len(self.ways))
        left, log_pvalues = [], []
        for i, way in enumerate(self.ways):
            bets = self._wealth[i] - price
            with np.errstate(divide="ignore"):
                mixed = special.logsumexp(bets, axis=1, b=1.0 / len(MIX_STRENGTHS))
                evalues[i] = special.logsumexp(mixed, b=weights[i])
            # Half of the level for the bets, the other half for the PITs.
            log_p = math.log(2.0) - float(evalues[i])
            if way.rows is not None:
                log_p = min(log_p, math.log(2.0) + self._pits_log_pvalue(i, fill, ball))
            log_pvalues.append(min(log_p, 0.0))
            if log_p > math.log(alpha):
                left.append(i)
        left.sort(key=lambda i: -self._chance[i])
        least_share = self._least_share(alpha, price, float(weights[0].max()))
        named = dict.fromkeys((self.ways[i].outcome, self.ways[i].words) for i in left)
        tells = self._tells(left, alpha, price, weights)
        return ComparisonResult(
            tuple(named), least_share, float(evalues[0]), tells, tuple(log_pvalues)
        )

    def _tells(
        self, left: Sequence[int], alpha: float, price: Floats, weights: Floats
    ) -> int | None:
        """Return after how many tokens the likeliest outcome's bets would reject the others."""
        others = [i for i in left if self.ways[i].outcome != self.ways[left[0]].outcome]
        if not self.n:
            return None
        most = 0.0
        for i in others:
            weight = weights[i, left[0]] / len(MIX_STRENGTHS)
            mean = (self._wealth[i, left[0]] - price) / self.n
            with np.errstate(invalid="ignore"):  # what a law rules out is lost at once
                square = self._squares[i, left[0]] / self.n - (mean + price / self.n) ** 2
            win = np.isfinite(square) & (mean > 0)
            if not win.any():
                return None
            mean, spread = mean[win], _POWER_QUANTILE * np.sqrt(np.maximum(square[win], 0.0))
            root = spread + np.sqrt(spread**2 + 4 * mean * math.log(2.0 / (alpha * weight)))
            most = max(most, float(((root / (2 * mean)) ** 2).min()))
        return math.ceil(most) if others else None

    def _weights(self) -> Floats:
        """Return the weight of each bet against each law: equal for outcomes, and within one."""
        outcomes = [way.outcome for way in self.ways]
        weights = np.zeros((len(outcomes),) * 2)
        for i in range(len(outcomes)):
            others = Counter(outcomes[:i] + outcomes[i + 1 :])
            for j, outcome in enumerate(outcomes):
                if j != i:
                    weights[i, j] = 1.0 / (len(others) * others[outcome])
        return weights

    def _pits_log_pvalue(self, way: int, fill: Floats, ball: float) -> float:
        """Return the log p-value of a law by the tokens' PITs in two orders."""
        pits = np.concatenate([*self._pits[way], fill], axis=1)
        tests = [stats.pit_ks(pit_histogram(x), alpha=0.5, ball=ball, name="PIT") for x in pits]
        return math.log(len(tests)) + min(test.log_pvalue for test in tests)

    def _moment(self, asked: Floats, dropped: Floats) -> None:
        """Add what bets on a dropped parameter win: means and squares, by either law."""
        ratios = _likelihood_ratio(dropped, asked)
        for s, share in enumerate(MIX_STRENGTHS):
            with np.errstate(divide="ignore"):
                logs = np.maximum(np.log1p(share * (ratios - 1.0)), -50.0)
            for law, rows in enumerate((asked, dropped)):
                for power in (1, 2):
                    self._moments[law, power - 1, s] += (rows * logs**power).sum(axis=1).sum()

    def _least_share(self, alpha: float, price: Floats, weight: float) -> float | None:
        needed = (
            math.log(2.0 / alpha) - math.log(weight / len(MIX_STRENGTHS)) if weight else math.inf
        )
        for share in np.geomspace(0.005, 1.0, _SEARCH_STEPS):
            mean = (1 - share) * self._moments[0, 0] + share * self._moments[1, 0] - price
            square = (1 - share) * self._moments[0, 1] + share * self._moments[1, 1]
            spread = np.sqrt(np.maximum(square - (mean + price) ** 2 / max(self.n, 1), 0.0))
            if (mean - _POWER_QUANTILE * spread >= needed).any():
                return float(share)
        return None


def _likelihood_ratio(others: Floats, base: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.minimum(np.where(others == base, 1.0, others / base), RATIO_CAP)


def _randomized_pits(rows: Floats, tokens: Floats, v: Floats) -> Floats:
    pits = []
    for kind in ("index", "descending"):
        order = stats.order_key(kind, rows)
        low, high = stats.pit_bounds(rows, order, tokens)
        pits.append(np.clip(low + v * (high - low), 0.0, 1.0))
    return np.stack(pits)


# The pilot: the target's rows on the prompts, by which the values of the cells are chosen.


_MAX_PILOT_PROMPTS = 12  # prompts whose rows choose the values
_BANNED_WORD_COUNT = 8  # words of the cell that bans some


def make_pilot(prompts: Sequence[Prompt], pair: TransformerPair) -> PilotRows:
    """Return rows on the later halves of the first prompts, and the likeliest words there."""
    ids = [prompt_ids(prompt, pair) for prompt in prompts[:_MAX_PILOT_PROMPTS]]
    requests = [Request(x[: max(len(x) // 2, 1)], x[max(len(x) // 2, 1) :]) for x in ids]
    if not (requests := [request for request in requests if request.tokens]):
        raise UsageError("prompts: all are of one token: expected some of two or more")
    logits = logits_before(pair, pair.target_model, requests)
    seen = [RequestLogits(r, rows, None) for r, rows in zip(requests, logits, strict=True)]
    mean = sum(one.p(Law()).sum(axis=0) for one in seen)
    special = {*pair.eos, *getattr(pair.tokenizer, "all_special_ids", ())}
    ranked = [int(t) for t in (-mean).argsort() if int(t) not in special]
    return PilotRows(
        seen,
        tuple(ranked[:50]),
        tuple(sorted(pair.eos)),
        tuple(dict.fromkeys(_single_token_words(ranked, pair))),
        _repeating_prompts(ranked, pair, prompts),
    )


_REPEATING_PROMPTS, _REPEATED_WORDS, _WORDS_BEFORE = 64, 24, 160
"""How many there are, the words that each repeats, and the characters of a prompt before them: with
those, a penalty that counts only the last tokens is another one."""


def _repeating_prompts(
    ranked: Sequence[int], pair: TransformerPair, prompts: Sequence[Prompt]
) -> dict[int, list[Prompt]]:
    """Return the prompts' ends, behind each one word, or two in a random order."""
    ids = _single_token_words(ranked, pair)
    words = list(dict.fromkeys(pair.tokenizer.decode([*word]).strip() for word in ids))
    if len(words) < 2:
        return {}
    rng = np.random.Generator(np.random.Philox(key=0, counter=[0, 0, 5, 0]))
    repeating: dict[int, list[Prompt]] = {1: [], 2: []}
    for i in range(_REPEATING_PROMPTS):
        prompt, both = prompts[i % len(prompts)], rng.choice(words, 2, replace=False)
        for count, made in repeating.items():
            text = " ".join(rng.choice(both[:count], _REPEATED_WORDS).tolist())
            made.append(_followed_by(prompt, text))
    return repeating


def _followed_by(prompt: Prompt, text: str) -> Prompt:
    """Return the end of a prompt, or of a conversation's last message, with a text behind it."""
    if isinstance(prompt, str):
        return f"{prompt[-_WORDS_BEFORE:]}\n{text}"
    said = prompt.fields["messages"][-1].get("content")
    before = said[-_WORDS_BEFORE:] if isinstance(said, str) else ""
    message = {"role": "user", "content": f"{before}\n{text}"}
    return check_chat({"messages": [message]}, "matrix")


def _single_token_words(ranked: Sequence[int], pair: TransformerPair) -> Iterator[tuple[int, ...]]:
    """Yield the ids of the likeliest words that a server reads from their texts as one token."""
    count = 0
    for token in ranked[:200]:
        text = pair.tokenizer.decode([token]).strip()
        if text and "\ufffd" not in text and count < _BANNED_WORD_COUNT:
            words = law_fields({"bad_words": [text]}, "matrix", pair)["bad_words"]
            if (token,) in words:
                yield from words
                count += 1


# Seeds: one seed gives the same answers again, another gives others.


MIN_COMMON_SHARE = 0.25  # of an answer that two requests of a seed share despite rounding


def judge_seeds(
    first: Sequence[Request],
    again: Sequence[Request],
    other: Sequence[Request],
    pair: TransformerPair,
    alpha: float,
) -> tuple[doc.CellOutcome, str]:
    """Return the outcome of answers to a seed, to the same once more, and to another, and why.

    The first one's rows give the chance that two independent answers share so many first tokens;
    what beats ``alpha`` is not chance.
    """
    same = [common_prefix_length(a.tokens, b.tokens) for a, b in zip(first, again, strict=True)]
    stray = [common_prefix_length(a.tokens, b.tokens) for a, b in zip(first, other, strict=True)]
    whole = [
        n == len(a.tokens) == len(b.tokens) for n, a, b in zip(same, first, again, strict=True)
    ]
    shared, shared_other = (_prefix_surprise(first, n, pair) for n in (same, stray))
    limit = np.log(1.0 / alpha)
    if shared_other >= limit:
        return "other", "another seed gives the same answers"
    if shared < limit:
        whole_answers = _prefix_surprise(first, [len(r.tokens) for r in first], pair)
        if whole_answers < limit:
            return "inconclusive", "answers are too certain to tell seeds by"
        return "dropped", "the same seed gives other answers"
    if all(whole):
        return "honoured", f"{len(same)} answers repeat"
    share = float(np.mean([n / len(a.tokens) for n, a in zip(same, first, strict=True)]))
    words = f"{sum(whole)} of {len(whole)} answers repeat whole, {share:.0%} of them on average"
    return "honoured" if share >= MIN_COMMON_SHARE else "other", words


def _prefix_surprise(
    requests: Sequence[Request], common: Sequence[int], pair: TransformerPair
) -> float:
    """Return minus the log chance that independent answers share so many first tokens."""
    total = 0.0
    for request, n in zip(requests, common, strict=True):
        if n:
            (logits,) = logits_before(pair, pair.target_model, [request])
            rows = request.rows(logits, pair)
            chances = rows[np.arange(n), np.array(request.tokens[:n])]
            total -= float(np.log(np.maximum(chances, 1e-300)).sum())
    return total


# The whole matrix: each cell is asked of the server, in turn, and judged.


_COPY_SHARE = 0.1  # of a cell's error rate, for answers from a cache
_MAX_SEED_PROMPTS = 12  # which are asked three times


@dataclass(frozen=True)
class MatrixSettings:
    """How a matrix is asked and judged.

    ``tokens``: of each cell. ``gamma``: the engine's draft length; None tries some. ``cells``:
    names of those that are asked, all if empty. ``order``: in which the parameters are to act.
    ``mask``: structured output, which a cell of its own asks for by ``mask_body``.
    """

    tokens: int = 2048
    alpha: float = 1e-6
    ball: float | None = None
    gamma: int | None = None
    seed: int = 0
    cells: tuple[str, ...] = ()
    order: tuple[str, ...] = STAGES
    mask: Mask | None = None
    mask_body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self, tokens=(16, 10_000_000), gamma=(1, 64))


def audit_matrix(
    endpoint: Endpoint,
    prompts: Sequence[Prompt],
    pair: TransformerPair,
    reproduce: str,
    settings: MatrixSettings | None = None,
    *,
    drafted: bool = False,
    keep: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.MatrixRun:
    """Ask a server for each parameter at a value that matters, and name what it does with it.

    ``pair`` is the target; its draft counts if it is ``drafted``, near the engine's own: then
    one-sided alternatives are computed from it. ``keep``: a folder of the answers of each cell; an
    existing one is continued. ``UsageError`` if the server does not answer, or a cell is unknown.
    """
    settings, say, stamp = settings or MatrixSettings(), progress or (lambda _: None), start_meta()
    gammas = DEFAULT_GAMMAS if settings.gamma is None else (settings.gamma,)
    pilot, mask, body = make_pilot(prompts, pair), settings.mask, settings.mask_body
    cells = list(make_cells(pilot, settings.order, gammas, drafted, mask, body))
    cells.append(_SEED_CELL)
    known = [cell.name for cell in cells]
    if unknown := [name for name in settings.cells if name not in known]:
        raise UsageError(f"cells: {unknown[0]!r} is none of {', '.join(known)}")
    chosen = [cell for cell in cells if not settings.cells or cell.name in settings.cells]
    each = settings.alpha / len(chosen)
    client = CellClient(endpoint, prompts, pair, keep, say)
    ball = MIN_TOLERANCE
    judged: dict[str, doc.MatrixCell] = {}
    for i, cell in enumerate(client.in_turn(chosen), 1):
        say(f"cell {i} of {len(chosen)}: {cell.name}, {cell.value}")
        if cell is _SEED_CELL:
            judged[cell.name] = _seed_cell(client, each)
            continue
        answers = client.answers(cell, settings.tokens)
        if isinstance(answers, CellFailure):
            judged[cell.name] = _failed_cell(cell, answers)
            continue
        requests = limit_tokens(answers, settings.tokens)
        if settings.ball:
            ball = max(ball, settings.ball)
        elif dtype_name(pair) != "float32":
            ball = max(ball, measure_rounding(requests, pair, False).tv)
        judged[cell.name] = judge_cell(
            cell, requests, pair, drafted, each, ball, settings.seed, planned=settings.tokens
        )
    results = tuple(judged[cell.name] for cell in chosen)
    text = sum(cell.words.startswith("text alone") for cell in results)
    return doc.MatrixRun(
        schema_version=doc.SCHEMA_VERSION,
        source=endpoint.url,
        target=pair.target_name,
        proxy=pair.draft_name if drafted else None,
        dtype=dtype_name(pair),
        alpha=settings.alpha,
        cell_alpha=each,
        ball=ball,
        budget=settings.tokens,
        gammas=tuple(gammas),
        order=settings.order,
        cells=results,
        seed=settings.seed,
        verdict=doc.matrix_verdict(results),
        notes=(*_matrix_notes(drafted, text), *client.notes),
        reproduce=reproduce,
        meta=stamp(),
    )


def judge_cell(
    cell: Cell,
    requests: Sequence[Request],
    pair: TransformerPair,
    drafted: bool,
    alpha: float,
    ball: float,
    seed: int,
    *,
    planned: int | None = None,
) -> doc.MatrixCell:
    """Judge a cell's answers in order; ``planned``: tokens that were to come, by default all."""
    tokens = sum(len(request.tokens) for request in requests)
    if any(request.from_text for request in requests):
        words = "text alone does not say which tokens were drawn: it takes token ids"
        return _cell_document(cell, "inconclusive", words, tokens)
    if differing := [request for request in requests if request.differs == "untold"]:
        words = prompt_mismatch_note(differing, len(requests))
        return _cell_document(cell, "inconclusive", words, tokens)
    contradictions, _ = describe_faults([request.faults for request in requests])
    if contradictions:
        return _cell_document(cell, "other", contradictions[0], tokens, left=("other",))
    comparison, repeats = CellComparison(cell.ways, seed), RepeatedAnswers()
    for begin in range(0, len(requests), MAX_BATCH):
        batch = requests[begin : begin + MAX_BATCH]
        rows = logits_before(pair, pair.target_model, batch)
        drafts = logits_before(pair, pair.draft_model, batch) if drafted else [None] * len(batch)
        for request, target, draft in zip(batch, rows, drafts, strict=True):
            seen = RequestLogits(request, target, draft)
            comparison.add(seen)
            # As likely as under whichever law makes it likeliest.
            every = [way.rows(seen) for way in cell.ways if way.rows is not None]
            repeats.add(request, np.max(every, axis=0))
    evidence = copies_log_evalue(repeats.compared, list(repeats.copies(ball)))
    if evidence >= -math.log(_COPY_SHARE * alpha):
        words = "answers are copies of earlier ones to the prompt: a cache, or one seed"
        return _cell_document(cell, "other", words, tokens, left=("other",), log_evalue=evidence)
    compared = comparison.judge((1.0 - _COPY_SHARE) * alpha, ball, planned or tokens)
    outcome, words = _cell_outcome(compared)
    left = tuple(dict.fromkeys(outcome for outcome, _ in compared.left))
    found, evalue = compared.found, compared.evalue
    return _cell_document(cell, outcome, words, tokens, left=left, found=found, log_evalue=evalue)


def _cell_outcome(compared: ComparisonResult) -> tuple[doc.CellOutcome, str]:
    left = list(dict.fromkeys(outcome for outcome, _ in compared.left))
    if not left:
        return "other", "none of the distributions that were tried"
    words = compared.left[0][1]
    if len(left) == 1:
        return left[0], words
    if "honoured" not in left:
        return "not honoured", " or ".join(left)
    others = " or ".join(outcome for outcome in left if outcome != "honoured")
    how_many = "more tokens may not tell"
    if compared.tells is not None:
        digits = 10 ** max(len(str(compared.tells)) - 2, 0)
        how_many = f"about {-(-compared.tells // digits) * digits:,} tokens may tell"
    return "inconclusive", f"honoured, or {others}: {how_many}"


def _cell_document(
    cell: Cell, outcome: doc.CellOutcome, words: str, tokens: int, **fields: Any
) -> doc.MatrixCell:
    """Return the entry of a cell; without further ``fields`` nothing was rejected."""
    return doc.MatrixCell(
        name=cell.name,
        value=cell.value,
        outcome=outcome,
        words=words,
        tried=cell.outcomes,
        tokens=tokens,
        **{"left": cell.outcomes, "found": None, "log_evalue": None, **fields},
    )


def _failed_cell(cell: Cell, why: CellFailure) -> doc.MatrixCell:
    words = why.words[:200]
    if why.refused and cell.law.min_tokens and cell.law.logit_bias:
        words = f"asked with a logit bias of the end, which may be what is refused: {words}"
    return _cell_document(cell, "refused" if why.refused else "no answer", words, 0, left=())


_SEED_CELL = Cell("seed", "1, 1 and 2", Law(), ())
"""The same prompts three times, by two seeds."""


def _seed_cell(client: CellClient, alpha: float) -> doc.MatrixCell:
    rounds: list[tuple[Request, ...]] = []
    for turn, seed in enumerate((1, 1, 2)):
        cell = replace(_SEED_CELL, name=f"seed-{turn}", body={"seed": seed})
        answers = client.answers(cell, 1 << 30, 1, _MAX_SEED_PROMPTS)
        if isinstance(answers, CellFailure):
            return _failed_cell(_SEED_CELL, answers)
        rounds.append(answers)
    requests = [request for answers in rounds for request in answers]
    tokens = sum(len(request.tokens) for request in requests)
    if any(request.from_text for request in requests):
        return _cell_document(_SEED_CELL, "inconclusive", "text alone", tokens)
    first, again, other = rounds
    outcome, words = judge_seeds(first, again, other, client.pair, alpha)
    return _cell_document(_SEED_CELL, outcome, words, tokens, left=(outcome,))


def _matrix_notes(drafted: bool, text: int) -> Iterator[str]:
    if not drafted:
        yield (
            "--draft was not given: parameters that are applied to one side of the verification "
            "alone were not looked for, and places in a block are known by their rate alone"
        )
    if text:
        yield f"{text} cells have text alone, which does not say which tokens were drawn"
