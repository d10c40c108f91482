"""Rates of many cases measured in turn, and ratios taken within a turn."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from simverify.history.record import processor_name


@dataclass(frozen=True)
class Case:
    """One thing to time: ``run()`` does ``blocks`` blocks."""

    name: str
    model: str
    rule: str
    threads: int
    blocks: int
    run: Callable[[], Any]


@dataclass(frozen=True)
class Spread:
    """Median and extremes over the repetitions."""

    median: float
    min: float
    max: float


def spread(values: Sequence[float]) -> Spread:
    """Summarise one number per repetition."""
    return Spread(statistics.median(values), min(values), max(values))


def rates(
    cases: Sequence[Case], repetitions: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Blocks per second of each case by ``clock``, by name, one per repetition.

    Every repetition runs all cases in turn, so that a busy moment of the machine falls on
    neighbours and not on one case. A first run of each, untimed, compiles and warms up.
    """
    for case in cases:
        case.run()
    found: dict[str, list[float]] = {case.name: [] for case in cases}
    for _ in range(repetitions):
        for case in cases:
            begin = clock()
            case.run()
            found[case.name].append(case.blocks / (clock() - begin))
    return found


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Ratios of two cases, each within one repetition."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    packages = ("numpy", "numba", "torch")
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
