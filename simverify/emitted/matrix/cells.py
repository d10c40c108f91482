"""What each cell of the matrix asks, at a value that matters here, and what may come instead."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.emitted.law import Law, Mask
from simverify.emitted.matrix.ways import (
    Seen,
    Way,
    but_the_first,
    by,
    counting_answer,
    counting_last,
    counting_prompt,
    on_one_side,
    on_some_rows,
)
from simverify.errors import UsageError

GAMMAS = (1, 2, 3, 4, 5, 8)
"""Draft lengths that are tried where none is named."""

WINDOWS = (20, 64)
"""Tokens that mlx-lm's and llama.cpp's penalties count where no request says how many."""

_COUNTING = {"repetition_penalty", "presence_penalty", "frequency_penalty"}

_LOG_CAP = 4.0
"""What a token may add to the worth of a value at most, in nats."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One question to a server: ``law`` is asked, and may be served as ``ways`` say.

    ``name``: the parameter, or those whose order is looked at. ``value``: in words. ``body``:
    fields of its requests beside those that ask for ``law``.
    """

    name: str
    value: str
    law: Law
    ways: tuple[Way, ...]
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pilot:
    """Rows of the target on the prompts, and what its tokens are like.

    ``seen``: prompts as if their later half had been emitted. ``common``: the likeliest tokens;
    ``ends``: those that end a request; ``words``: ids of a word to be banned.
    """

    seen: Sequence[Seen]
    common: Sequence[int]
    ends: tuple[int, ...]
    words: tuple[tuple[int, ...], ...]


def cells_of(
    pilot: Pilot, order: tuple[str, ...], gammas: Sequence[int], drafted: bool
) -> Iterator[Cell]:
    """Yield every cell, each at the value of those tried that tells its plain laws apart best."""
    base = Law(order=order)
    for name, values in _values(pilot).items():
        laws = [
            replace(base, **(value if isinstance(value, dict) else {name: value}))
            for value in values
        ]
        law = max(laws, key=lambda own: _worth(pilot, _plain(own, _without(own, name), name)))
        without = _without(law, name)
        yield _cell(name, (name,), law, without, _plain(law, without, name), gammas, drafted)
    for names, tried in _PAIRS.items():
        laws = [replace(base, **dict(zip(names, value, strict=True))) for value in tried(pilot)]
        law = max(laws, key=lambda own: _worth(pilot, _in_pairs(own, names)))
        yield _cell(
            "order", names, law, base, _in_pairs(law, names), gammas, drafted,
        )  # fmt: skip


def mask_cell(
    mask: Mask, body: Mapping[str, Any], order: tuple[str, ...], gammas: Sequence[int],
    drafted: bool,
) -> Cell:  # fmt: skip
    """Return the cell of structured output, which the server is asked for by ``body``."""
    law = Law(mask=mask, order=order)
    without = _without(law, "mask")
    ways = _ways(("mask",), law, without, _plain(law, without, "mask"), gammas, drafted)
    return Cell("mask", mask.name, law, ways, body)


def _without(law: Law, name: str) -> Law:
    return replace(law, **{name: getattr(Law(), name)})


def _cell(
    name: str, names: tuple[str, ...], law: Law, without: Law, plain: list[Way],
    gammas: Sequence[int], drafted: bool,
) -> Cell:  # fmt: skip
    ways = _ways(names, law, without, plain, gammas, drafted)
    shown = ", ".join(f"{own.replace('_', '-')} {_shown(getattr(law, own))}" for own in names)
    title = names[0] if name != "order" else " before ".join(_in_order(law, names))
    return Cell(title.replace("_", "-"), shown, law, ways)


def _ways(
    names: tuple[str, ...], law: Law, without: Law, plain: list[Way], gammas: Sequence[int],
    drafted: bool,
) -> tuple[Way, ...]:  # fmt: skip
    first = but_the_first("ignored after the first token", law, without)
    ways = [*plain, first, *_counting(law, names), *on_some_rows(law, without, gammas, drafted)]
    if drafted:
        ways += on_one_side(law, without, gammas)
    return tuple(ways)


def _values(pilot: Pilot) -> dict[str, list[Any]]:
    """The values that are tried for each parameter."""
    found: dict[str, list[Any]] = {
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
        found["bad_words"] = [pilot.words]
    if pilot.ends:
        # The end is made likely, so that few tokens show whether it was banned.
        end = pilot.ends[0]
        found["min_tokens"] = [
            {"min_tokens": 8, "ends": pilot.ends, "logit_bias": ((end, bias),)}
            for bias in (2.0, 4.0, 6.0, 8.0)
        ]
    return found


def _first(pilot: Pilot) -> list[tuple[Any, ...]]:
    return [(((pilot.common[0], 3.0),), 2), (((pilot.common[3], 4.0),), 3)]


_PAIRS: dict[tuple[str, ...], Callable[[Pilot], list[tuple[Any, ...]]]] = {
    ("temperature", "top_p"): lambda _: [(2.0, 0.5), (2.0, 0.8), (0.5, 0.8)],
    ("temperature", "min_p"): lambda _: [(2.0, 0.1), (2.0, 0.3), (0.5, 0.1)],
    ("top_k", "top_p"): lambda _: [(3, 0.5), (5, 0.7), (10, 0.8)],
    ("presence_penalty", "temperature"): lambda _: [(2.0, 0.4), (2.0, 2.0)],
    ("repetition_penalty", "presence_penalty"): lambda _: [(2.0, 2.0), (1.5, 2.0)],
    ("logit_bias", "top_k"): _first,
}
"""Parameters that interact, with the values that are tried."""


def _plain(law: Law, without: Law, name: str) -> list[Way]:
    ways = [by("honoured", "as asked", law), by("dropped", "ignored", without)]
    if name == "temperature":
        ways.append(by("other", "applied twice", replace(law, temperature=law.temperature**2)))
    if name == "min_tokens":
        ways.append(by("other", "the bias beside it ignored", replace(law, logit_bias=())))
    if name == "repetition_penalty":
        ways.append(counting_answer("counts no prompt", law))
    if name in ("presence_penalty", "frequency_penalty"):
        ways.append(counting_prompt("counts the prompt, too", law))
    if name == "frequency_penalty":
        flat = replace(law, frequency_penalty=None, presence_penalty=law.frequency_penalty)
        ways.append(by("other", "taken off once, as a presence penalty", flat))
    return ways


def _in_pairs(law: Law, names: tuple[str, ...]) -> list[Way]:
    """The ways of two parameters in an order: the other order, or without one of them or both."""
    stages = [_STAGE.get(name, name.replace("_", "-")) for name in names]
    swap = dict(zip(stages, reversed(stages), strict=True))
    swapped = replace(law, order=tuple(swap.get(stage, stage) for stage in law.order))
    last = " before ".join(reversed(_in_order(law, names)))
    ways = [by("honoured", "as asked", law), by("wrong order", last.replace("_", "-"), swapped)]
    for name in names:
        ways.append(by("dropped", f"{name.replace('_', '-')} ignored", _without(law, name)))
    both = _without(_without(law, names[0]), names[1])
    return [*ways, by("dropped", "both ignored", both)]


def _counting(law: Law, names: tuple[str, ...]) -> list[Way]:
    """The ways of penalties that count other tokens than they should.

    They choose no value: on short prompts a window may hide nothing.
    """
    if not _COUNTING.intersection(names):
        return []
    ways = [
        counting_last(f"counts the last {window} tokens alone, the prompt's too", law, window)
        for window in WINDOWS
    ]
    if len(names) == 1:
        return ways
    return [*ways, counting_prompt("counts the prompt, too", law)]


_STAGE = {
    "repetition_penalty": "repetition", "presence_penalty": "presence",
    "frequency_penalty": "presence",
}  # fmt: skip


def _in_order(law: Law, names: tuple[str, ...]) -> list[str]:
    places = {name: law.order.index(_STAGE.get(name, name.replace("_", "-"))) for name in names}
    return sorted(names, key=lambda name: places[name])


def _worth(pilot: Pilot, ways: Sequence[Way]) -> float:
    """What a token says, on average, to whoever must tell the first way from the nearest other.

    With what it says of the nearest two of all, by which what is wrong gets its name.
    """
    try:
        rows = [_rows_of(way, pilot) for way in ways]
    except UsageError:
        return -1.0  # nothing is left to draw
    apart = {
        (i, j): _apart(rows[i], rows[j]) + _apart(rows[j], rows[i])
        for i in range(len(rows))
        for j in range(i)
    }
    return min(worth for (_, j), worth in apart.items() if j == 0) + min(apart.values())


def _rows_of(way: Way, pilot: Pilot) -> npt.NDArray[np.float64]:
    assert way.rows is not None
    return np.concatenate([way.rows(seen) for seen in pilot.seen])


def _apart(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Mean divergence of rows a from rows b, in nats, each token's part capped."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(a > 0.0, np.log(a / b), 0.0)
    return float((a * np.clip(logs, -_LOG_CAP, _LOG_CAP)).sum()) / len(a)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        first = value[0]
        if len(value) > 1:
            return f"of {len(value)}"
        return f"{first[1]:+g} on {first[0]}" if len(first) == 2 else f"id {first[0]}"
    return f"{value:g}"
