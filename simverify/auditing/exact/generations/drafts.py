"""Drafters: one call of one, checked, and a tree of siblings that is drafted call by call."""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.arrays import Row
from simverify.auditing.coverage.watch import watched
from simverify.auditing.exact.generations.enumerate import check_ids, read_tokens
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.enumeration.endings import BadTokens, Tokens
from simverify.trees import ROOT, TreeShape

Drafter = Callable[..., Any]
"""``draft(prefix, draft_row, k, rng) -> (tokens, probs)``."""

_OFF = {"float16": 1e-2, "bfloat16": 1e-2, "float32": 1e-4}
"""By how much rounding puts the sum of a reported row off, by its type; it is divided by it."""

_OFF_USUALLY, _OFF_AT_MOST = 1e-6, 1e-2
"""Of other types; and by how much a sum may be off that the law tells of."""


@dataclass(frozen=True)
class Drafted:
    """One call of a drafter.

    It was asked for ``asked`` tokens after ``prefix``, with the draft model's row (V,) ``given``,
    and returned ``tokens``, ``asked`` of them at most, said to come from the row (V,)
    ``reported``, which came in ``dtype``. ``node``: whose children they are.
    """

    node: int
    prefix: Tokens
    asked: int
    given: Row
    tokens: Tokens
    reported: Row
    dtype: str


@dataclass(frozen=True)
class Grown:
    """A tree that was drafted call by call: what a verifier is handed, but for the target's rows.

    ``tokens`` and ``parents`` of its n nodes; ``reported``: float64 (n+1, V), row 0 the law of
    the root's children and row i+1 that of node i's, as the drafter reported it; the draft
    model's own row where nothing was asked. ``texts``: the tokens down to each node.
    """

    calls: tuple[Drafted, ...]
    tokens: Tokens
    parents: Tokens
    texts: tuple[Tokens, ...]
    reported: Row


def takes_draft_arguments(rule: Callable[..., Any]) -> bool:
    """Tell a drafter from a factory of drafters by what it can be called with.

    Raises ``ValueError`` for what is neither.
    """
    if not callable(rule):
        raise ValueError(
            f"a drafter is a function, class or factory, got {type(rule).__name__}: an instance "
            "cannot be built anew for every path"
        )
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return not inspect.isclass(rule)
    if inspect.isclass(rule) or not takes(signature, 4):
        if not takes(signature, 0):
            raise ValueError(
                f"{signature} is neither draft(prefix, draft_row, k, rng) nor a class or factory "
                "without arguments"
            )
        return False
    return True


def takes(signature: inspect.Signature, count: int) -> bool:
    """Whether what has ``signature`` can be called with ``count`` arguments."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def built_drafter(rule: Callable[..., Any]) -> Drafter:
    """Build a drafter anew, for one generation; ``reset`` is called where it has one."""
    if takes_draft_arguments(rule):
        return rule
    instance = watched(rule)
    if not callable(getattr(instance, "draft", None)):
        kind = type(instance).__name__
        raise BadTokens("no-draft", f"a {kind} has no method draft(prefix, draft_row, k, rng)")
    if callable(getattr(instance, "reset", None)):
        watched(instance.reset)
    drafter: Drafter = instance.draft
    return drafter


def grow(
    drafter: Drafter,
    shape: TreeShape,
    row: Callable[[Tokens], Row],
    rng: Any,
    prefix: Tokens = (),
    *,
    most: int | None = None,
) -> Grown:
    """Draft a tree of ``shape`` after ``prefix``, a call for the children of each node.

    Where fewer tokens come back than were asked for, the nodes left over are missing, with all
    below them; the others move up in number. After ``most`` calls no more are made. Raises
    ``BadTokens`` for a call that breaks the contract.
    """
    calls: list[Drafted] = []
    drawn: dict[int, int] = {}
    text: dict[int, Tokens] = {ROOT: prefix}
    for parent, children in shape.children.items():
        if not children or parent not in text or len(calls) == most:
            continue
        call = asked(drafter, parent, text[parent], row(text[parent]), len(children), rng)
        calls.append(call)
        for child, token in zip(children, call.tokens, strict=False):
            drawn[child] = token
            text[child] = (*text[parent], token)
    kept = sorted(drawn)
    number = {ROOT: ROOT, **{node: i for i, node in enumerate(kept)}}
    told = {call.node: call.reported for call in calls}
    rows = [told[node] if node in told else row(text[node]) for node in (ROOT, *kept)]
    return Grown(
        tuple(calls),
        tuple(drawn[node] for node in kept),
        tuple(number[shape.parents[node]] for node in kept),
        tuple(text[node] for node in kept),
        np.array(rows),
    )


def asked(drafter: Drafter, node: int, prefix: Tokens, row: Row, k: int, rng: Any) -> Drafted:
    """Make one call and check it; ``BadTokens`` says how it broke its contract."""
    given = row.copy()
    result = watched(drafter, prefix, given, k, rng)
    if given.shape != row.shape or given.tobytes() != row.tobytes():
        raise BadTokens("inputs-modified", "changes its argument draft_row in place")
    tokens, probs = _pair(result)
    drafted = _tokens(tokens, k, len(row))
    dtype = str(getattr(probs, "dtype", "float64")).removeprefix("torch.")
    # What comes of rows that are no laws is as good as they are.
    lawful = bool(np.isfinite(row).all()) and abs(float(row.sum()) - 1) <= _OFF_AT_MOST
    return Drafted(node, prefix, k, row, drafted, _reported(probs, len(row), dtype, lawful), dtype)


def _pair(result: Any) -> tuple[Any, Any]:
    if isinstance(result, tuple | list) and len(result) == 2:
        return result[0], result[1]
    kind = f"{type(result).__name__} of {len(result)}" if isinstance(result, tuple | list) else ""
    raise BadTokens("shape", f"returned {kind or type(result).__name__}: return (tokens, probs)")


def _tokens(result: Any, k: int, vocab: int) -> Tokens:
    empty = hasattr(result, "__len__") and not isinstance(result, str | bytes | dict | set)
    tokens = () if empty and len(result) == 0 else read_tokens(result)
    if len(tokens) > k:
        raise BadTokens("too-many", f"returned {len(tokens)} tokens, asked for {k}: return {k}")
    check_ids(tokens, vocab)
    return tokens


def _reported(result: Any, vocab: int, dtype: str, lawful: bool) -> Row:
    """Read the law that the tokens are said to come from."""
    due = f"report one row of {vocab} probabilities, that which the siblings are drawn from"
    if result is None:
        raise BadTokens("no-law", f"reports None: {due} (one-hot where the token is certain)")
    raw = result.tolist() if hasattr(result, "tolist") else result
    if not isinstance(raw, list | tuple):
        raise BadTokens("no-law", f"reports a {type(result).__name__}: {due}")
    rows = [x for x in raw if isinstance(x, list | tuple) or getattr(x, "ndim", 0) > 0]
    if rows or len(raw) != vocab:
        size = f"({len(raw)}, {len(rows[0])})" if rows else f"({len(raw)},)"
        raise BadTokens("no-law", f"reports an array of shape {size}: {due}")
    row = np.array([_number(x) for x in raw], dtype=np.float64)
    if not lawful:
        return row
    if not np.isfinite(row).all() or row.min() < 0:
        wrong = next(x for x in row.tolist() if not (math.isfinite(x) and x >= 0))
        raise BadTokens("no-law", f"reports a probability of {wrong:g}: expected 0 or more")
    total = float(row.sum())
    if abs(total - 1) > _OFF_AT_MOST:
        raise BadTokens("no-law", f"reports probabilities that sum to {total:.6g}: expected 1")
    return row / total if abs(total - 1) <= _OFF.get(dtype, _OFF_USUALLY) else row


def _number(x: Any) -> float:
    if isinstance(x, Draw):
        x.source.refuse("a draw returned as a probability")
    try:
        return float(x)
    except (TypeError, ValueError):
        kind = type(x).__name__
        raise BadTokens("no-law", f"reports a {kind} as a probability: expected a number") from None


class Reports:
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
        # A path reports what others did, to the bit: then none is compared.
        key = row.tobytes()
        if key not in self._numbers:
            self._numbers[key] = self._number(row)
        return self._numbers[key]

    def _number(self, row: Row) -> int:
        for i, known in enumerate(self.rows):
            if known.shape == row.shape and np.abs(known - row).max() <= self.SAME:
                return i
        self.rows.append(row)
        return len(self.rows) - 1


def written(calls: Sequence[Drafted], reports: Reports) -> Tokens:
    """Return what calls returned as whole numbers: count, report and tokens of each."""
    numbers: list[int] = []
    for call in calls:
        reports.dtypes |= {call.dtype} & {"float32"}
        numbers += (len(call.tokens), reports.number(call.reported), *call.tokens)
    return tuple(numbers)


@dataclass(frozen=True)
class Answer:
    """What a call returned, and before it ``prefix`` and ``asked``; ``report`` by its number."""

    prefix: Tokens
    asked: int
    report: int
    tokens: Tokens


def answers(numbers: Tokens, shape: TreeShape, prefix: Tokens = ()) -> Iterator[Answer]:
    """Read what :func:`written` wrote of a tree of ``shape`` after ``prefix``."""
    text: dict[int, Tokens] = {ROOT: prefix}
    place = 0
    for parent, children in shape.children.items():
        if not children or parent not in text or place == len(numbers):
            continue
        count, report = numbers[place : place + 2]
        tokens = numbers[place + 2 : place + 2 + count]
        place += 2 + count
        yield Answer(text[parent], len(children), report, tokens)
        for child, token in zip(children, tokens, strict=False):
            text[child] = (*text[parent], token)
