"""Two logs of greedy answers: what each line holds, and which lines answer the same request."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from simverify.emitted.law import CUTS
from simverify.emitted.reading.requests import Request, read_objects, request_iv
from simverify.emitted.reading.responses import expanded
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

Side = Literal["a", "b"]

_OF_GREEDY = frozenset({"temperature", *CUTS})
"""Stages that leave the largest logit where it is."""


@dataclass(frozen=True)
class Answer:
    """One request of a log.

    ``line``: where it stands, from 1. ``name``: its ``id``, None where the line says none.
    ``reason``: its ``finish_reason``; ``stop``: what stopped it, a string or a token's id.
    ``calls``: tokens that each call of the engine emitted, None where nothing says.
    """

    request: Request
    line: int
    name: str | int | None = None
    reason: str | None = None
    stop: str | int | None = None
    calls: tuple[int, ...] | None = None

    def slot(self, place: int) -> tuple[int, int] | None:
        """Return the place of a token within its call, from 0, and how many the call emitted."""
        start = 0
        for emitted in self.calls or ():
            if place < start + emitted:
                return place - start, emitted
            start += emitted
        return None


@dataclass(frozen=True)
class Pairs:
    """Answers of both logs to the same requests, and how many of each log have no other."""

    pairs: tuple[tuple[Answer, Answer], ...]
    alone_a: int
    alone_b: int


def read_answers(path: Path, pair: TransformerPair) -> tuple[Answer, ...]:
    """Read a log as :func:`read_requests` does, with ``id`` and ``calls`` of its lines.

    Of an answer as it came each choice is one of its own.

    ``pair`` has temperature 0.

    Raises
    ------
    UsageError
        As :func:`read_requests`; or if a line was asked at another temperature, or its calls do not
        add up to its tokens.
    """
    found = [
        _answer(own, at, number, pair)
        for number, (where, value) in enumerate(read_objects(path, "triage"), 1)
        for at, own in expanded(value, where, pair)
    ]
    if not found:
        raise UsageError(f"triage: {path} holds no request: expected one JSON object a line")
    return tuple(found)


def _answer(value: Any, where: str, number: int, pair: TransformerPair) -> Answer:
    request = request_iv(value, where, pair)
    if request.law is not None and request.law.temperature != 0.0:
        raise UsageError(
            f"{where} was asked at temperature {request.law.temperature:g}: triage is for greedy "
            f"answers, at 0; audit --outputs judges samples"
        )
    if request.law is not None and (more := request.law.acting - _OF_GREEDY):
        raise UsageError(
            f"{where} was asked with {sorted(more)[0]}: the target's choice is its largest logit "
            f"here, with nothing added or banned: ask both without it"
        )
    name, stop = value.get("id"), value.get("stop_reason", value.get("matched_stop"))
    calls = value.get("calls")
    if calls is not None:
        whole = isinstance(calls, list) and all(type(n) is int and n > 0 for n in calls)
        # A token that was put back, because the engine said that it stopped, is of the last call.
        due = (len(request.tokens), len(request.tokens) - request.restored)
        if not whole or sum(calls) not in due:
            raise UsageError(
                f"{where}: calls is {str(calls)[:40]}: expected how many tokens each call emitted, "
                f"{len(request.tokens)} in all"
            )
    return Answer(
        request, number,
        name=name if isinstance(name, str | int) else None,
        reason=value.get("finish_reason"),
        stop=stop if isinstance(stop, str | int) else None,
        calls=None if calls is None else tuple(calls),
    )  # fmt: skip


def paired(a: Sequence[Answer], b: Sequence[Answer]) -> Pairs:
    """Bring together what answers the same request.

    By ``id`` where every line of both has one of its own; else the k-th answer to a prompt with the
    k-th to the same prompt, and what is left over in its order: prompts that differ are a finding.
    """
    if _own_names(a) and _own_names(b):
        return _matched(a, b, [x.name for x in a], [x.name for x in b], in_order=False)
    return _matched(a, b, _occurrences(a), _occurrences(b), in_order=True)


def _own_names(answers: Sequence[Answer]) -> bool:
    names = {answer.name for answer in answers}
    return None not in names and len(names) == len(answers)


def _occurrences(answers: Sequence[Answer]) -> list[tuple[tuple[int, ...], int]]:
    seen: dict[tuple[int, ...], int] = defaultdict(int)
    found = []
    for answer in answers:
        prompt = answer.request.prompt
        found.append((prompt, seen[prompt]))
        seen[prompt] += 1
    return found


def _matched(
    a: Sequence[Answer], b: Sequence[Answer], keys_a: Sequence[Hashable],
    keys_b: Sequence[Hashable], *, in_order: bool,
) -> Pairs:  # fmt: skip
    other = dict(zip(keys_b, b, strict=True))
    both = [(x, other.pop(key)) for x, key in zip(a, keys_a, strict=True) if key in other]
    taken = {x.line for x, _ in both}
    left_a, left_b = [x for x in a if x.line not in taken], list(other.values())
    if in_order:
        rest = list(zip(left_a, left_b, strict=False))
        both = sorted(both + rest, key=lambda entry: entry[0].line)
        left_a, left_b = left_a[len(rest) :], left_b[len(rest) :]
    return Pairs(tuple(both), len(left_a), len(left_b))
