"""Drafters under audit: a checked call, a tree drafted call by call, and the law of the tokens."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simverify.arrays import Row
from simverify.auditing.comparison import (
    TOLERANCE_BY_DTYPE,
    Comparison,
    OutputSequence,
    Transcripts,
    law_fields,
)
from simverify.auditing.coverage import call_monitored
from simverify.auditing.enumeration import check_token_ids, read_tokens, takes_draft_arguments
from simverify.auditing.instances import SmallModel
from simverify.results import DraftCall, Localisation
from simverify.symbolic import Enumeration
from simverify.symbolic.engine import Budget
from simverify.symbolic.outcomes import InvalidTokens, Tokens
from simverify.symbolic.scalar import Draw
from simverify.trees import ROOT, SCHEMES, Scheme, TreeShape

DraftFunction = Callable[..., Any]
"""``draft(prefix, draft_row, k, rng) -> (tokens, probs)``."""

_SUM_TOLERANCE = {"float16": 1e-2, "bfloat16": 1e-2, "float32": 1e-4}
"""By how much rounding puts the sum of a reported row off, by its type; it is divided by it."""

_DEFAULT_SUM_TOLERANCE, _MAX_SUM_ERROR = 1e-6, 1e-2
"""The same of other types; a sum that is further off breaks the contract."""


@dataclass(frozen=True)
class DraftResult:
    """One call of a drafter, asked for ``asked`` tokens after ``prefix``.

    ``given``: the draft model's row (V,). ``tokens``: ``asked`` of them at most, said to come from
    the row (V,) ``reported``, which came in ``dtype``. ``node``: whose children they are.
    """

    node: int
    prefix: Tokens
    asked: int
    given: Row
    tokens: Tokens
    reported: Row
    dtype: str


@dataclass(frozen=True)
class DraftedTree:
    """A tree that was drafted call by call: what a verifier is handed, but for the target's rows.

    ``tokens`` and ``parents`` of its n nodes; ``reported``: float64 (n+1, V), row 0 the law of
    the root's children and row i+1 that of node i's, as the drafter reported it; the draft
    model's own row where nothing was asked. ``texts``: the tokens down to each node.
    """

    calls: tuple[DraftResult, ...]
    tokens: Tokens
    parents: Tokens
    texts: tuple[Tokens, ...]
    reported: Row


def build_drafter(rule: Callable[..., Any]) -> DraftFunction:
    """Build a drafter anew, for one generation; ``reset`` is called where it has one."""
    if takes_draft_arguments(rule):
        return rule
    instance = call_monitored(rule)
    if not callable(getattr(instance, "draft", None)):
        kind = type(instance).__name__
        raise InvalidTokens("no-draft", f"a {kind} has no method draft(prefix, draft_row, k, rng)")
    if callable(getattr(instance, "reset", None)):
        call_monitored(instance.reset)
    drafter: DraftFunction = instance.draft
    return drafter


def draft_tree(
    drafter: DraftFunction,
    shape: TreeShape,
    row: Callable[[Tokens], Row],
    rng: Any,
    prefix: Tokens = (),
    *,
    most: int | None = None,
) -> DraftedTree:
    """Draft a tree of ``shape`` after ``prefix``, a call for the children of each node.

    Where fewer tokens come back than were asked for, the nodes left over are missing, with all
    below them; the others move up in number. After ``most`` calls no more are made. Raises
    ``InvalidTokens`` for a call that breaks the contract.
    """
    calls: list[DraftResult] = []
    drawn: dict[int, int] = {}
    text: dict[int, Tokens] = {ROOT: prefix}
    for parent, children in shape.children.items():
        if not children or parent not in text or len(calls) == most:
            continue
        call = call_drafter(drafter, parent, text[parent], row(text[parent]), len(children), rng)
        calls.append(call)
        for child, token in zip(children, call.tokens, strict=False):
            drawn[child] = token
            text[child] = (*text[parent], token)
    nodes = sorted(drawn)
    number = {ROOT: ROOT, **{node: i for i, node in enumerate(nodes)}}
    reports = {call.node: call.reported for call in calls}
    rows = [reports[node] if node in reports else row(text[node]) for node in (ROOT, *nodes)]
    return DraftedTree(
        tuple(calls),
        tuple(drawn[node] for node in nodes),
        tuple(number[shape.parents[node]] for node in nodes),
        tuple(text[node] for node in nodes),
        np.array(rows),
    )


def call_drafter(
    drafter: DraftFunction, node: int, prefix: Tokens, row: Row, k: int, rng: Any
) -> DraftResult:
    """Make one call and check it; ``InvalidTokens`` says how it broke its contract."""
    given = row.copy()
    result = call_monitored(drafter, prefix, given, k, rng)
    if given.shape != row.shape or given.tobytes() != row.tobytes():
        raise InvalidTokens("inputs-modified", "changes its argument draft_row in place")
    if not isinstance(result, tuple | list) or len(result) != 2:
        size = f" of {len(result)}" if isinstance(result, tuple | list) else ""
        kind = f"{type(result).__name__}{size}"
        raise InvalidTokens("shape", f"returned {kind}: return (tokens, probs)")
    tokens, probs = result
    empty = hasattr(tokens, "__len__") and not isinstance(tokens, str | bytes | dict | set)
    drafted = () if empty and len(tokens) == 0 else read_tokens(tokens)
    if len(drafted) > k:
        text = f"returned {len(drafted)} tokens, asked for {k}: return {k}"
        raise InvalidTokens("too-many", text)
    check_token_ids(drafted, len(row))
    dtype = str(getattr(probs, "dtype", "float64")).removeprefix("torch.")
    # Rows that are no laws may lead to a report that is none.
    lawful = bool(np.isfinite(row).all()) and abs(float(row.sum()) - 1) <= _MAX_SUM_ERROR
    reported = _read_reported_row(probs, len(row), dtype, lawful)
    return DraftResult(node, prefix, k, row, drafted, reported, dtype)


def _read_reported_row(result: Any, vocab: int, dtype: str, lawful: bool) -> Row:
    """Read the law that the tokens are said to come from."""
    advice = f"report the row of {vocab} probabilities that the siblings are drawn from"
    if result is None:
        text = f"reports None: {advice} (one-hot where the token is certain)"
        raise InvalidTokens("no-law", text)
    raw = result.tolist() if hasattr(result, "tolist") else result
    if not isinstance(raw, list | tuple):
        raise InvalidTokens("no-law", f"reports a {type(result).__name__}: {advice}")
    rows = [x for x in raw if isinstance(x, list | tuple) or getattr(x, "ndim", 0) > 0]
    if rows or len(raw) != vocab:
        size = f"({len(raw)}, {len(rows[0])})" if rows else f"({len(raw)},)"
        raise InvalidTokens("no-law", f"reports an array of shape {size}: {advice}")
    row = np.array([_as_number(x) for x in raw], dtype=np.float64)
    if not lawful:
        return row
    if not np.isfinite(row).all() or row.min() < 0:
        wrong = next(x for x in row.tolist() if not (math.isfinite(x) and x >= 0))
        raise InvalidTokens("no-law", f"reports a probability of {wrong:g}: expected 0 or more")
    total = float(row.sum())
    if abs(total - 1) > _MAX_SUM_ERROR:
        raise InvalidTokens("no-law", f"reports probabilities that sum to {total:.6g}: expected 1")
    rounding = _SUM_TOLERANCE.get(dtype, _DEFAULT_SUM_TOLERANCE)
    return row / total if abs(total - 1) <= rounding else row


def _as_number(x: Any) -> float:
    if isinstance(x, Draw):
        x.source.refuse("a draw returned as a probability")
    try:
        return float(x)
    except (TypeError, ValueError):
        text = f"reports a {type(x).__name__} as a probability: expected a number"
        raise InvalidTokens("no-law", text) from None


class ReportedRows:
    """The reported rows that were met, each by a number; rows that rounding alone parts are one.

    ``dtypes``: "float32" where one came in that. That one came in 16 bits excuses nothing.
    """

    SAME = 5e-7

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.dtypes: set[str] = set()
        self._numbers: dict[bytes, int] = {}

    def number(self, row: Row) -> int:
        """Return the number of ``row`` (V,)."""
        # Most paths report the same bits: then no rows are compared.
        key = row.tobytes()
        if key not in self._numbers:
            alike = (
                i
                for i, known in enumerate(self.rows)
                if known.shape == row.shape and np.abs(known - row).max() <= self.SAME
            )
            self._numbers[key] = next(alike, len(self.rows))
            if self._numbers[key] == len(self.rows):
                self.rows.append(row)
        return self._numbers[key]


def encode_calls(calls: Sequence[DraftResult], reports: ReportedRows) -> Tokens:
    """Return what calls returned as whole numbers: count, report and tokens of each."""
    numbers: list[int] = []
    for call in calls:
        reports.dtypes |= {call.dtype} & {"float32"}
        numbers += (len(call.tokens), reports.number(call.reported), *call.tokens)
    return tuple(numbers)


@dataclass(frozen=True)
class DraftAnswer:
    """What a call returned, and before it ``prefix`` and ``asked``; ``report`` by its number."""

    prefix: Tokens
    asked: int
    report: int
    tokens: Tokens


def decode_calls(numbers: Tokens, shape: TreeShape, prefix: Tokens = ()) -> Iterator[DraftAnswer]:
    """Read what :func:`encode_calls` wrote of a tree of ``shape`` after ``prefix``."""
    text: dict[int, Tokens] = {ROOT: prefix}
    place = 0
    for parent, children in shape.children.items():
        if not children or parent not in text or place == len(numbers):
            continue
        count, report = numbers[place : place + 2]
        tokens = numbers[place + 2 : place + 2 + count]
        place += 2 + count
        yield DraftAnswer(text[parent], len(children), report, tokens)
        for child, token in zip(children, tokens, strict=False):
            text[child] = (*text[parent], token)


# The law of a drafter's tokens, against the law that it reports and the scheme it declares.
#
# A verifier sees how many siblings there are and which law they are said to come from. Given these,
# and all that was drafted before, they must be what the scheme draws from that law: else what it
# accepts is biased. So a call that drops tokens by their own probability deviates, and one that
# counts, or reports, by a coin of its own does not.


_LIKELIEST_TOLERANCE = 1e-12
"""Probabilities so near to each other are equally likely: either may be the likeliest."""

_REPORTED_DIGITS = 9
"""Of reported probabilities, where two drafters are compared."""


def compare_drafts(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    model: SmallModel,
    *,
    tolerance: float | None = None,
    budget: Budget,
) -> Comparison:
    """Compare the law of the tokens that ``rule`` drafts on ``model`` with what it reports.

    A call depends on those before. Raises as ``enumerate_verify``.
    """
    assert model.drafting is not None, "drafters are tried on trees"
    shape, scheme = model.drafting.shape, model.drafting.scheme
    reports = ReportedRows()

    def call() -> Tokens:
        drafter = build_drafter(rule)
        enumeration.source.sequences.is_built()
        grown = draft_tree(drafter, shape, model.draft, enumeration.rng, model.prompt)
        return encode_calls(grown.calls, reports)

    law = enumeration.run(call, budget)
    transcripts = {
        numbers: tuple(decode_calls(numbers, shape, model.prompt)) for numbers in law.probabilities
    }
    by_call = [
        list(answer_cells(law.probabilities, transcripts, place, reports.rows, scheme))
        for place in range(max((len(x) for x in transcripts.values()), default=0))
    ]
    fields = law_fields([(1.0, law)], reports.dtypes)
    bound = TOLERANCE_BY_DTYPE[fields["dtype"]] if tolerance is None else tolerance
    tvs = [_cells_distance(cells) for cells in by_call]
    first = next((i for i, tv in enumerate(tvs) if tv > bound), None)
    every = [cell for cells in by_call for cell in cells]
    # The earliest call that deviates: all later ones depend on it.
    worst = max(
        every if first is None else by_call[first],
        # Of two equal deviations the one that a replay can show.
        key=lambda cell: (round(abs(cell.gap), 12), -len(cell.answer.tokens), cell.gap > 0),
        default=None,
    )
    gap = max((abs(cell.gap) for cell in every), default=0.0)
    names = [tuple(np.round(row, _REPORTED_DIGITS).tolist()) for row in reports.rows]
    emitted: dict[tuple[Any, ...], float] = {}
    for numbers, mass in law.probabilities.items():
        key = tuple((names[answer.report], answer.tokens) for answer in transcripts[numbers])
        emitted[key] = emitted.get(key, 0.0) + mass
    result = Comparison(
        max_abs_deviation=gap + law.pruned,
        tv=max(tvs, default=0.0),
        worst=OutputSequence((), 0.0, 0.0),
        place=None if first is None else Localisation(first, None, tvs[first]),
        expected_accepted=None,
        bonus=None,
        emitted=Transcripts(emitted),
        excess=max((cell.gap for cell in every), default=0.0),
        **fields,
    )
    if worst is None:
        return result
    answer = worst.answer
    reported = tuple(reports.rows[answer.report].tolist())
    return replace(
        result,
        worst=OutputSequence(answer.tokens, worst.emitted, worst.due),
        call=DraftCall(answer.prefix, answer.asked, reported, worst.share, worst.before),
    )


@dataclass(frozen=True)
class AnswerCell:
    """One answer of a call, among those alike in count, report and all before.

    ``share``: the probability of such answers; ``emitted`` and ``due`` of this one among them.
    ``before``: the tokens of the calls before.
    """

    answer: DraftAnswer
    before: tuple[Tokens, ...]
    share: float
    emitted: float
    due: float

    @property
    def gap(self) -> float:
        """By how much it comes more often than is due."""
        return self.share * (self.emitted - self.due)


def answer_cells(
    law: dict[Tokens, float],
    answers: dict[Tokens, tuple[DraftAnswer, ...]],
    place: int,
    rows: list[Row],
    scheme: Scheme,
) -> Iterator[AnswerCell]:
    """Yield what call number ``place`` answers, and what the scheme would draw in its stead.

    ``answers``: what the keys of ``law`` say; ``rows``: the reports, by number.
    """
    groups: dict[tuple[Any, ...], dict[Tokens, float]] = {}
    first: dict[tuple[Any, ...], DraftAnswer] = {}
    for numbers, mass in law.items():
        if place >= len(answers[numbers]):
            continue
        answer = answers[numbers][place]
        key = (answers[numbers][:place], answer.report, len(answer.tokens))
        masses = groups.setdefault(key, {})
        masses[answer.tokens] = masses.get(answer.tokens, 0.0) + mass
        first.setdefault(key, answer)
    for key, masses in groups.items():
        earlier, report, count = key
        before = tuple(answer.tokens for answer in earlier)
        share = sum(masses.values())
        emitted = {tokens: mass / share for tokens, mass in masses.items()}
        expected = expected_siblings(scheme, rows[report], first[key].asked, count, emitted)
        for tokens in sorted({*emitted, *expected}):
            answer = replace(first[key], tokens=tokens)
            pair = emitted.get(tokens, 0.0), expected.get(tokens, 0.0)
            yield AnswerCell(answer, before, share, *pair)


def _cells_distance(cells: list[AnswerCell]) -> float:
    """Return the TV of what a call answers from what is due, whose sum need not be 1."""
    more = sum(max(cell.gap, 0.0) for cell in cells)
    return max(more, sum(max(-cell.gap, 0.0) for cell in cells))


def expected_siblings(
    scheme: Scheme, row: Row, asked: int, count: int, emitted: dict[Tokens, float]
) -> dict[Tokens, float]:
    """Return the law of ``count`` siblings, of ``asked``, that ``scheme`` draws from ``row`` (V,).

    Those that are certain are the likeliest; of equally likely tokens any may be, and are taken
    as they are ``emitted``, for nothing is lost by a choice that the others do not depend on.
    """
    certain = scheme.certain(count)
    if scheme.certain(asked) >= count:
        left = row.copy()
        left[list(scheme.fixed(row, count)[:certain])] = 0
        if not left.any():
            certain = count  # there was none to sample after those that are certain
    usual = SCHEMES["top-k"].fixed(row, certain)
    heads: dict[Tokens, float] = {}
    for tokens, mass in emitted.items():
        head = tokens[:certain] if _are_most_likely(row, tokens[:certain]) else usual
        heads[head] = heads.get(head, 0.0) + mass
    law: dict[Tokens, float] = {}
    waiting = list(heads.items())
    while waiting:
        before, mass = waiting.pop()
        if len(before) == count:
            law[before] = law.get(before, 0.0) + mass
            continue
        # What is left of a row sums to 1 whatever it summed to; the row itself is taken at its
        # word, as a verifier does.
        rest = scheme.next_row(row, before) if before else row
        if rest is not None:
            tokens_left = np.flatnonzero(rest).tolist()
            waiting += [((*before, x), mass * float(rest[x])) for x in tokens_left]
    return law


def _are_most_likely(row: Row, tokens: Tokens) -> bool:
    """Whether each of ``tokens`` is the likeliest of those that are not before it."""
    left = row.copy()
    for token in tokens:
        if left[token] < left.max() - _LIKELIEST_TOLERANCE:
            return False
        left[token] = -1.0
    return True
