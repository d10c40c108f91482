"""Answers of two engines as sequences of units: token ids, the texts of tokens, or pieces of text.

Nothing but equality is asked of a unit, so that no tokenizer is needed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from simverify.emitted.law import NEUTRAL
from simverify.emitted.law.words import ALIASES, NAMES
from simverify.emitted.reading.chat import FIELDS
from simverify.emitted.reading.ids import bare
from simverify.emitted.reading.requests import STOPPED, read_objects
from simverify.emitted.reading.responses import expanded
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
    asked for beside the prompt, as far as it is said, and ``whole`` whether that is all of it.
    ``spelt``: whether the texts of its tokens make up its text, if it has both.
    """

    prompt: str
    units: dict[Kind, tuple[Unit, ...]]
    ended: bool
    asked: Mapping[str, Any]
    whole: bool
    spelt: bool


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

    ``messages`` may stand in the place of ``prompt``; or a line is a server's answer as it came,
    with the request beside it (:func:`expanded`).

    Raises
    ------
    UsageError
        If the file cannot be read, holds no answer, or a line is none.
    """
    found = [
        answer_iv(own, at)
        for where, value in read_objects(path, kind)
        for at, own in expanded(value, where, None)
    ]
    if not found:
        raise UsageError(f"{kind}: {path} holds no answer: expected one JSON object a line")
    return found


def answer_iv(value: Any, where: str) -> Answer:
    """Return the answer of an object; ``UsageError`` if it is none."""
    if not isinstance(value, dict) or not ("prompt" in value or "messages" in value):
        raise UsageError(f"{where} has no prompt: expected an object with prompt, and an answer")
    units: dict[Kind, tuple[Unit, ...]] = {}
    if (ids := value.get("tokens")) is not None:
        if not _all(ids, int) or min(ids, default=0) < 0:
            raise UsageError(f"{where}: tokens is no list of token ids")
        units["ids"] = tuple(ids)
    if (pieces := value.get("pieces")) is not None:
        if not _all(pieces, str):
            raise UsageError(f"{where}: pieces is no list of texts")
        # A token that is part of a character may have no text of its own.
        units["token texts"] = tuple(piece for piece in pieces if piece)
    if (text := value.get("text")) is not None:
        if not isinstance(text, str):
            raise UsageError(f"{where}: text is {type(text).__name__}: expected a string")
        units["text"] = tuple(_PIECES.findall(text))
    if not units:
        raise UsageError(f"{where} has neither tokens, a list of ids, nor text, a string")
    reason = value.get("finish_reason")
    if reason not in (None, "length", *STOPPED):
        raise UsageError(
            f"{where} ended by {json.dumps(reason)[:40]}: expected stop or length, as otherwise "
            f"what it holds may depend on what was drawn"
        )
    prompt, asked = value.get("prompt"), _asked(value)
    if "messages" in value:
        prompt = {name: value[name] for name in FIELDS if value.get(name)}
    if asked.get("temperature") == 0.0:
        raise UsageError(
            f"{where} was asked at temperature 0: asked again an engine copies itself, and where "
            f"rounding parts two engines it parts them each time: leave such answers out, or "
            f"compare them by simverify triage"
        )
    return Answer(
        prompt if isinstance(prompt, str) else json.dumps(prompt),
        units,
        reason in STOPPED,
        asked,
        isinstance(value.get("asked"), dict),
        text is None or pieces is None or bare("".join(pieces)) == bare(text),
    )


def _asked(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a line says that it was asked for, without what changes nothing."""
    own = value.get("asked")
    said = (own if isinstance(own, dict) else {}) | dict(value)
    found = {}
    for name in (*NAMES, *ALIASES, "max_tokens"):
        kept, answer = ALIASES.get(name, name), said.get(name)
        nothing = answer in (None, {}, []) or answer == NEUTRAL.get(kept)
        if not nothing and not (kept in ("top_k", "min_tokens") and answer in (0, -1)):
            found[kept] = answer
    return found


def paired(first: Sequence[Answer], second: Sequence[Answer]) -> Pairs:
    """Pair the answers of two engines: to the same prompt, the k-th of one with that of the other.

    The units are the finest that all answers have, and text if ids mean other tokens. What ends all
    answers that ended by themselves of one engine, an end-of-sequence token that the other does
    not show, is taken off.

    Raises
    ------
    UsageError
        If the two were asked for different things, share no prompt, or no unit.
    """
    every = (*first, *second)
    kinds = [kind for kind in _FIELDS if all(kind in a.units for a in every)]
    if kinds[:1] == ["token texts"] and not all(answer.spelt for answer in every):
        # Servers write the text of a token as they like, and then it is no token's text.
        kinds = kinds[1:]
    if kinds[:1] == ["ids"] and "text" in kinds and _numbered_otherwise(first, second):
        kinds = kinds[1:]
    if not kinds:
        raise UsageError(
            "one of the two gives token ids and the other text alone: nothing compares them; ask "
            "both alike"
        )
    kind = kinds[0]
    answers = [_by_prompt(side) for side in (first, second)]
    for prompt in answers[0].keys() & answers[1].keys():
        for one, other in zip(answers[0][prompt], answers[1][prompt], strict=False):
            _alike_iv(one, other)
    ends = _shown_ends(first, second, kind)
    sides = [
        {prompt: [_with_end(a, kind, end) for a in own] for prompt, own in side.items()}
        for side, end in zip(answers, ends, strict=True)
    ]
    prompts = [prompt for prompt in sides[0] if prompt in sides[1]]
    if not prompts:
        raise UsageError("the two answer no prompt in common: ask both the same")
    groups = tuple(
        tuple(zip(sides[0][prompt], sides[1][prompt], strict=False)) for prompt in prompts
    )
    left = len(first) + len(second) - 2 * sum(map(len, groups))
    return Pairs(groups, tuple(prompts), kind, left)


def _numbered_otherwise(first: Sequence[Answer], second: Sequence[Answer]) -> bool:
    """Whether one text never has the same ids in both: their tokenizers number tokens otherwise.

    Answers that ended are left out: one engine may show the token that ends them.
    """
    sides: list[dict[str, set[tuple[Unit, ...]]]] = [{}, {}]
    for ids, answers in zip(sides, (first, second), strict=True):
        for answer in answers:
            if not answer.ended:
                text = "".join(map(str, answer.units["text"]))
                ids.setdefault(text, set()).add(answer.units["ids"])
    shared = [text for text in sides[0].keys() & sides[1].keys() if text]
    return len(shared) >= 5 and all(sides[0][text].isdisjoint(sides[1][text]) for text in shared)


def _by_prompt(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer.prompt, []).append(answer)
    return found


def _with_end(answer: Answer, kind: Kind, shown: Unit | None) -> tuple[Unit, ...]:
    """Units of an answer with its end, which is not counted twice where its token is ``shown``."""
    units = answer.units[kind]
    if not answer.ended:
        return units
    return (*(units[:-1] if shown is not None else units), END)


def _shown_ends(
    first: Sequence[Answer], second: Sequence[Answer], kind: Kind
) -> tuple[Unit | None, Unit | None]:
    """Return of either engine the token that ends all its answers, if that is an end of sequence.

    That is one that one engine shows and the other does not: it stands at the ends of the one
    alone, and nowhere in the other. An answer's own last token, a full stop say, may be in all
    answers of one engine by chance, and then it is among those of the other too: taken off on one
    side alone it would part two engines that answer alike.
    """
    ends: list[Unit | None] = []
    for side in (first, second):
        last = {answer.units[kind][-1:] for answer in side if answer.ended}
        alone = len(last) == 1 and sum(answer.ended for answer in side) > 1
        ends.append(next(iter(next(iter(last))), None) if alone else None)
    found: list[Unit | None] = []
    for end, own, other in zip(ends, (first, second), (second, first), strict=True):
        stray = any(end in answer.units[kind][:-1] for answer in own)
        shared = any(end in answer.units[kind] for answer in other)
        found.append(None if stray or shared else end)
    return found[0], found[1]


def _alike_iv(first: Answer, second: Answer) -> None:
    """Raise ``UsageError`` for a pair that was asked for different things; models may differ.

    What a log does not say of an answer is not known.
    """
    names = first.asked.keys() & second.asked.keys()
    if first.whole:
        names |= second.asked.keys()
    if second.whole:
        names |= first.asked.keys()
    for name in sorted(names):
        one, other = first.asked.get(name), second.asked.get(name)
        if one != other:
            raise UsageError(
                f"the first was asked with {name} {json.dumps(one)[:40]}, the second with "
                f"{json.dumps(other)[:40]}: that differs by itself; ask both alike"
            )


def first_pairs(pairs: Pairs, most: int) -> Pairs:
    """Return the first ``most`` pairs of each prompt."""
    return replace(pairs, groups=tuple(group[:most] for group in pairs.groups))


def copied(pairs: Pairs, side: int) -> int:
    """Return the prompts, asked three times or more, to which a side gave one answer alone.

    Answers of fewer than eight units may be alike by chance, if they are fewer than eight.
    """
    return sum(
        len({pair[side] for pair in group}) == 1 and max(len(group[0][side]), len(group)) >= 8
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
