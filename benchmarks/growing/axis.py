"""One number that grows, the commands that differ in it alone, and how their cost may grow."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JUDGED = 0.5
"""Seconds: what adds no more to the smallest command is not judged."""
JUDGED_MIB = 30.0
SLACK = 0.2
"""How much more than the promised power a measured one may be, which is of noisy figures."""
LEVER = 4
"""The growth is judged from a value of at most the largest over this, since a step of two would
take a fifth more of time for a quarter of a power."""

Point = dict[str, float]


@dataclass(frozen=True)
class Axis:
    """Commands that differ in one number; ``values`` ascend.

    ``command`` makes the words of one, for a value and a folder that every run of this value has.
    ``time``, ``memory``, ``largest``: the largest powers of the number with which processor time of
    all processes, memory of all together and that of the largest may grow; ``why`` in words.
    """

    name: str
    values: tuple[float, ...]
    command: Callable[[float, Path], Sequence[str]]
    time: float
    memory: float
    why: str
    largest: float | None = None

    @property
    def laws(self) -> tuple[tuple[str, str, float, float], ...]:
        """What is judged: a word, the cost's key, from where on, and its largest power."""
        largest = self.memory if self.largest is None else self.largest
        return (
            ("time", "cpu_seconds", JUDGED, self.time),
            ("memory", "mebibytes", JUDGED_MIB, self.memory),
            ("largest", "largest_mebibytes", JUDGED_MIB, largest),
        )

    @property
    def decisive(self) -> frozenset[float]:
        """The values whose costs the powers are made of; the others are for the picture."""
        return frozenset((*self.values[:2], self.values[_before(self.values)], self.values[-1]))


def judged(axis: Axis, points: Sequence[Point]) -> dict[str, Any]:
    """Return the powers of an axis' costs beside those that are promised, and what is too fast."""
    powers = {word: power(points, key, least) for word, key, least, _ in axis.laws}
    most = {word: law for word, _, _, law in axis.laws}
    return {
        "name": axis.name,
        "why": axis.why,
        "points": list(points),
        "powers": powers,
        "at_most": most,
        "too_fast": [w for w, found in powers.items() if found and found > most[w] + SLACK],
    }


def power(points: Sequence[Point], key: str, least: float) -> float | None:
    """Return the power of the value with which a cost grew up to the last one.

    The line through the two smallest values says what start-up costs, which is taken off. None
    where less than ``least`` is added to the smallest: a cost that is small grows with nothing.
    """
    first, second, last = points[0], points[1], points[-1]
    before = points[_before([point["value"] for point in points])]
    if last[key] - first[key] < least:
        return None
    slope = (second[key] - first[key]) / (second["value"] - first["value"])
    start = min(first[key], max(0.0, first[key] - slope * first["value"]))
    grown = (last[key] - start) / max(before[key] - start, least)
    return math.log(grown) / math.log(last["value"] / before["value"])


def _before(values: Sequence[float]) -> int:
    """Where the largest value is that is far enough below the last one; 0 if none is."""
    return max((i for i, x in enumerate(values) if x * LEVER <= values[-1]), default=0)
