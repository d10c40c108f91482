"""Answers of two engines as sequences of units: token ids, the texts of tokens, or pieces of text.

Nothing but equality is asked of a unit, so that no tokenizer is needed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from simverify.emitted.reading.requests import read_objects
from simverify.errors import UsageError

Unit = int | str
Kind = Literal["ids", "token texts", "text"]

END = ""
"""The unit of an answer that ended by itself: no token's text is empty."""

_PIECES = re.compile(r"\s?\w+|\s?[^\w\s]|\s")
_FIELDS: dict[Kind, str] = {"ids": "tokens", "token texts": "pieces", "text": "text"}


@dataclass(frozen=True)
class Answer:
    """What an engine said: its ``units`` by kind of unit, as many as it gave.

    ``prompt``: as it was asked. ``ended``: by itself, not by a limit. ``asked``: what it was
    asked for beside the prompt; None where nothing says.
    """

    prompt: str
    units: dict[Kind, tuple[Unit, ...]]
    ended: bool
    asked: dict[str, Any] | None


@dataclass(frozen=True)
class Pairs:
    """Answers of two engines to the same prompt at the same place, by prompt.

    ``groups``: for each prompt its pairs (first, second), each a sequence of units, in the order
    in which they were asked. ``kind``: of the units. ``left_out``: answers without another.
    """

    groups: tuple[tuple[tuple[tuple[Unit, ...], tuple[Unit, ...]], ...], ...]
    prompts: tuple[str, ...]
    kind: Kind
    left_out: int = 0

    @property
    def n(self) -> int:
        """Pairs in all."""
        return sum(map(len, self.groups))

    def units(self, side: int) -> int:
        """Units of all answers of one side."""
        return sum(len(pair[side]) for group in self.groups for pair in group)


def read_answers(path: Path, kind: str) -> list[Answer]:
    """Read a JSONL file of answers: ``prompt``, and ``tokens``, ``pieces`` or ``text``.

    Raises
    ------
    UsageError
        If the file cannot be read, holds no answer, or a line is none.
    """
    found = [answer_iv(value, where) for where, value in read_objects(path, kind)]
    if not found:
        raise UsageError(f"{kind}: {path} holds no answer: expected one JSON object a line")
    return found


def answer_iv(value: Any, where: str) -> Answer:
    """Return the answer of an object; ``UsageError`` if it is none."""
    if not isinstance(value, dict) or "prompt" not in value:
        raise UsageError(f"{where} has no prompt: expected an object with prompt, and an answer")
    units: dict[Kind, tuple[Unit, ...]] = {}
    if (ids := value.get("tokens")) is not None:
        if not _all(ids, int):
            raise UsageError(f"{where}: tokens is no list of token ids")
        units["ids"] = tuple(ids)
    if (pieces := value.get("pieces")) is not None:
        if not _all(pieces, str):
            raise UsageError(f"{where}: pieces is no list of texts")
        units["token texts"] = tuple(pieces)
    if (text := value.get("text")) is not None:
        if not isinstance(text, str):
            raise UsageError(f"{where}: text is {type(text).__name__}: expected a string")
        units["text"] = tuple(_PIECES.findall(text))
    if not units:
        raise UsageError(f"{where} has neither tokens, a list of ids, nor text, a string")
    reason = value.get("finish_reason")
    if reason not in (None, "stop", "length"):
        raise UsageError(
            f"{where} ended by {json.dumps(reason)[:40]}: expected stop or length, as otherwise "
            f"what it holds may depend on what was drawn"
        )
    asked, prompt = value.get("asked"), value["prompt"]
    return Answer(
        prompt if isinstance(prompt, str) else json.dumps(prompt),
        units,
        reason == "stop",
        asked if isinstance(asked, dict) else None,
    )


def paired(first: Sequence[Answer], second: Sequence[Answer]) -> Pairs:
    """Pair the answers of two engines: to the same prompt, the k-th of one with that of the other.

    The units are the finest that all answers have. What ends all answers that ended by themselves
    of one engine, an end-of-sequence token that the other does not show, is taken off.

    Raises
    ------
    UsageError
        If the two were asked for different things, share no prompt, or no unit.
    """
    _alike_iv(first, second)
    kinds = [kind for kind in _FIELDS if all(kind in a.units for a in (*first, *second))]
    if not kinds:
        raise UsageError(
            "one of the two gives token ids and the other text alone: nothing compares them; ask "
            "both alike"
        )
    kind = kinds[0]
    sides = [_ordered(answers, kind) for answers in (first, second)]
    prompts = [prompt for prompt in sides[0] if prompt in sides[1]]
    if not prompts:
        raise UsageError("the two answer no prompt in common: ask both the same")
    groups = tuple(
        tuple(zip(sides[0][prompt], sides[1][prompt], strict=False)) for prompt in prompts
    )
    left = len(first) + len(second) - 2 * sum(map(len, groups))
    return Pairs(groups, tuple(prompts), kind, left)


def _ordered(answers: Sequence[Answer], kind: Kind) -> dict[str, list[tuple[Unit, ...]]]:
    """Units of each answer with its end, by prompt, in order."""
    ends = {answer.units[kind][-1:] for answer in answers if answer.ended}
    shown = next(iter(ends)) if len(ends) == 1 and sum(a.ended for a in answers) > 1 else ()
    found: dict[str, list[tuple[Unit, ...]]] = {}
    for answer in answers:
        units = answer.units[kind]
        if answer.ended:
            units = (*(units[: -len(shown)] if shown else units), END)
        found.setdefault(answer.prompt, []).append(units)
    return found


def _alike_iv(first: Sequence[Answer], second: Sequence[Answer]) -> None:
    """Raise ``UsageError`` for two that were asked for different things; names may differ."""
    asked = [next((a.asked for a in side if a.asked is not None), None) for side in (first, second)]
    if asked[0] is None or asked[1] is None:
        return
    for name in ("temperature", "top_p", "top_k", "max_tokens"):
        one, other = (None if own.get(name) == -1 else own.get(name) for own in asked if own)
        if (one or None) != (other or None):
            raise UsageError(
                f"the first was asked with {name} {json.dumps(one)}, the second with "
                f"{json.dumps(other)}: that differs by itself; ask both alike"
            )


def first_pairs(pairs: Pairs, most: int) -> Pairs:
    """Return the first ``most`` pairs of each prompt."""
    return replace(pairs, groups=tuple(group[:most] for group in pairs.groups))


def copied(pairs: Pairs, side: int) -> int:
    """Return the prompts, asked three times or more, to which a side gave one answer alone.

    Answers of fewer than eight units may be alike by chance.
    """
    return sum(
        len({pair[side] for pair in group}) == 1 and len(group[0][side]) >= 8
        for group in pairs.groups
        if len(group) >= 3
    )


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def flat(pairs: Pairs) -> Iterator[tuple[int, tuple[Unit, ...], tuple[Unit, ...]]]:
    """Yield all pairs, each with the index of its prompt."""
    for number, group in enumerate(pairs.groups):
        for one, other in group:
            yield number, one, other
