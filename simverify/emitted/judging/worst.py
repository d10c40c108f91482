"""Where a run fails: the tokens that the target expected least, and the places they stand at."""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify import results as doc
from simverify.arrays import Floats
from simverify.emitted.reading.requests import Request

MOST = 10
_AROUND = 6
"""Tokens of the text before and after."""

_LEAST = 20
"""Tokens at a place, for it to be told."""

_ENDS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Positions in a request at which a group begins."""


@dataclass(frozen=True, order=True)
class _Off:
    """How far a token is off; ordered, the worst first, by what it takes and then by its place."""

    chance: float
    gap: float
    request: int
    position: int
    p: float
    rank: int
    expected: int
    expected_p: float


class Worst:
    """The ``MOST`` tokens of the smallest chance under their rows, of what was added.

    The chance of a token is that of it and all that are no likelier: what truncation cuts off has
    none, and of those the one furthest outside is the worst.
    """

    def __init__(self) -> None:
        self._found: list[tuple[float, float, int, int, _Off]] = []

    def add(self, number: int, p: Floats, tokens: npt.NDArray[np.int64], gap: Floats) -> None:
        """Look at the tokens of a request; ``gap``: how far each is outside the support."""
        rows = np.arange(len(tokens))
        own = p[rows, tokens]
        chances = np.where(p <= own[:, None], p, 0.0).sum(axis=1)
        for i in np.lexsort((-gap, chances))[:MOST]:
            top = int(p[i].argmax())
            off = _Off(
                float(chances[i]), -float(gap[i]), number, int(i), float(own[i]),
                1 + int((p[i] > own[i]).sum()), top, float(p[i, top]),
            )  # fmt: skip
            entry = (-off.chance, -off.gap, -off.request, -off.position, off)
            if len(self._found) < MOST:
                heapq.heappush(self._found, entry)
            elif entry > self._found[0]:
                heapq.heapreplace(self._found, entry)

    def documents(
        self, kept: Sequence[Request], decode: Callable[[Sequence[int]], str]
    ) -> tuple[doc.WorstToken, ...]:
        """Return them with their text, the worst first; ``decode``: a tokenizer's."""
        found = []
        for off in sorted(entry[-1] for entry in self._found):
            request = kept[off.request]
            before = (*request.prompt, *request.tokens[: off.position])[-_AROUND:]
            token = request.tokens[off.position]
            after = request.tokens[off.position + 1 : off.position + 1 + _AROUND]
            found.append(
                doc.WorstToken(
                    request=off.request,
                    position=off.position,
                    slot=_slot(request, off.position),
                    token=token,
                    text=decode([token]),
                    before=decode(before),
                    after=decode(after),
                    p=off.p,
                    rank=off.rank,
                    chance=off.chance,
                    expected=off.expected,
                    expected_text=decode([off.expected]),
                    expected_p=off.expected_p,
                )
            )
        return tuple(found)


def _slot(request: Request, position: int) -> int | None:
    slot = -1 if request.slots is None else request.slots[position]
    return None if slot < 0 else slot


def by_place(
    name: str, deviations: Sequence[Floats], kept: Sequence[Request]
) -> tuple[doc.AtPlace, ...]:
    """Return how far a mean is off by position in the request, and in the draft where it is known.

    Parameters
    ----------
    name
        Of the mean.
    deviations
        For each request float64 (2, n): each token's value less its mean under its row, and the
        variance there.
    """
    positions = np.concatenate([np.arange(own.shape[1]) for own in deviations])
    off, variance = np.concatenate(deviations, axis=1)
    groups = np.searchsorted(_ENDS, positions, side="right") - 1
    found = []
    for group in range(len(_ENDS)):
        last = _ENDS[group + 1] - 1 if group + 1 < len(_ENDS) else int(positions.max(initial=0))
        inside = groups == group
        found += _at("request", _ENDS[group], last, name, off[inside], variance[inside])
    if any(request.slots is not None for request in kept):
        slots = np.concatenate(
            [
                np.full(own.shape[1], -1) if request.slots is None
                else np.array(request.slots[: own.shape[1]])
                for request, own in zip(kept, deviations, strict=True)
            ]
        )  # fmt: skip
        for slot in np.unique(slots[slots >= 0]).tolist():
            inside = slots == slot
            found += _at("draft", slot, slot, name, off[inside], variance[inside])
    return tuple(found)


def _at(
    of: doc.PlaceOf, first: int, last: int, name: str, off: Floats, variance: Floats
) -> list[doc.AtPlace]:
    total = float(variance.sum())
    if len(off) < _LEAST or not total > 0.0:
        return []
    return [
        doc.AtPlace(
            of=of, first=first, last=last, tokens=len(off), name=name, mean=float(off.mean()),
            sigmas=float(off.sum()) / math.sqrt(total),
        )
    ]  # fmt: skip
