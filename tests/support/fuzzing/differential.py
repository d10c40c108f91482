"""One program run in two ways: its exact law by symbols, and plainly on the real generators."""

import bisect
import itertools
import math
import operator
import random
import secrets
import types
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from simverify.symbolic import CannotEnumerate, Enumeration
from simverify.symbolic.engine import Budget
from simverify.symbolic.outcomes import Tokens, run_call
from simverify.symbolic.paths import Path, TooManyPaths, explore
from simverify.symbolic.provenance import OutOfTime, RaisesOnSymbolsOnly, UntrackedRandomness
from simverify.symbolic.scalar import MIN_CONTINUOUS_RANGE, Uniform

RAISED = (
    AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError,
    RuntimeError, NotImplementedError, MemoryError,
)  # fmt: skip
"""What a program may raise: an outcome as any other, numbered from 1000."""

SUSPECT = 1e-3
"""A first look below this is looked at again, with new numbers."""

FALSE_ALARM = 1e-9
MAX_PATHS = 600

CORNERS = 200
"""Of so many paths the ends of the intervals are run again."""


@dataclass(frozen=True)
class Finding:
    """How a program differs: ``what`` in words, with its text."""

    program: str
    what: str


def run_twice(text: str, *, seed: int, few: int = 1000, many: int = 100_000) -> "Finding | str":
    """Return how the symbolic law of a program differs from real runs, or "same", or why not.

    ``few`` runs first, and ``many`` where they look suspect, judged at 1e-9. A path that does not
    repeat is a difference; what rounding may have made the enumeration itself leaves out of the
    law, and counts (:meth:`RandomSource.is_of_rounding`).
    """
    program = compiled(text)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with Enumeration(program) as enumeration:

            def call() -> Tokens:
                return (outcome(program, enumeration.rng),)

            try:
                law = enumeration.run(call, Budget(MAX_PATHS, 4))
                if not law.complete:  # a path that the machine kept waiting looks like a hang
                    return OutOfTime.__name__
                misplaced = _corners(enumeration, call, law)
            except CannotEnumerate as error:
                alone = isinstance(error, UntrackedRandomness | RaisesOnSymbolsOnly)
                return Finding(text, error.call) if alone else error.call
            except (TooManyPaths, OutOfTime) as error:
                return type(error).__name__
        if misplaced:
            return Finding(text, misplaced)
        expected = {tokens[0]: weight for tokens, weight in law.probabilities.items()}
        for count, level in ((few, SUSPECT), (many, FALSE_ALARM)):
            seen = plain_runs(program, count, seed + count)
            p, worst = judge(expected, law.pruned, seen, count)
            if p >= level:
                return "same"
        return Finding(text, f"outcome {worst}: law {expected.get(worst, 0.0):.6g}, "
                             f"seen {seen[worst]} times of {count} (p = {p:.3g})")  # fmt: skip


def compiled(text: str) -> Any:
    """Return the program, in a module of its own with what it may use."""
    module = types.ModuleType("differential_program")
    names = {"np": np, "math": math, "random": random, "bisect": bisect,
             "itertools": itertools, "secrets": secrets,
             "STATE": np.random.RandomState(7), "W": np.array([0.5, 0.3, 0.2, 0.7])}  # fmt: skip
    if "torch" in text:
        import torch

        names |= {"torch": torch, "GENERATOR": torch.Generator().manual_seed(3)}
    module.__dict__.update(names)
    exec(compile(text, "differential_program.py", "exec"), module.__dict__)
    return module.program


def outcome(program: Any, rng: Any) -> int:
    """Return what a program returns, or the number of what it raised."""
    try:
        # No int(), of which code that is followed has another one.
        return operator.index(program(rng))
    except RAISED as error:
        return 1000 + next(i for i, kind in enumerate(RAISED) if isinstance(error, kind))


def plain_runs(program: Any, count: int, seed: int) -> "Counter[int]":
    """Count the outcomes of so many real runs."""
    rng = np.random.default_rng(seed)
    random.seed(seed)
    program.__globals__["STATE"].seed(seed % 2**32)
    if "torch" in program.__globals__:
        program.__globals__["torch"].manual_seed(seed)
    return Counter(outcome(program, rng) for _ in range(count))


def judge(
    law: dict[int, float], pruned: float, seen: "Counter[int]", count: int
) -> tuple[float, int]:
    """Return the smallest p-value of an outcome's count, times their number, and the outcome."""
    outcomes = set(law) | set(seen)
    smallest = (2.0, 0)
    for x in outcomes:
        rate = min(1.0, law.get(x, 0.0))
        low, high = max(0.0, rate - pruned), min(1.0, rate + pruned)
        above = stats.binom.sf(seen[x] - 1, count, high)
        below = stats.binom.cdf(seen[x], count, low)
        smallest = min(smallest, (2 * len(outcomes) * float(min(above, below)), x))
    return smallest


def _corners(enumeration: Any, call: Any, law: Any) -> str:
    """Run every path again on numbers at the ends of its intervals; say where it ends otherwise."""
    source = enumeration.source
    leaves = []
    # Where float32 rounds smoothly, thresholds are those of real numbers.
    margin = 2.0**-21 if law.dtypes else 2.0**-35

    def one(path: Path) -> Any:
        source.begin(path)
        ended = run_call(source, call)
        uniforms = [d for d in source.draws if isinstance(d, Uniform)]
        if ended.kind == "cut" or any(u.owner is not None for u in uniforms):
            return None
        return ended, [
            (d.low, d.high, d.points) if isinstance(d, Uniform) else (d,) for d in source.draws
        ]

    for leaf, weight in explore(one, most=MAX_PATHS):
        if leaf is not None and float(weight) > 1e-6:
            leaves.append(leaf)
        if len(leaves) == CORNERS:
            break
    for ended, box in leaves:
        for end in (0, 1):
            # Not at the same number all: two draws are hardly ever equal.
            numbers = [
                x[0] if len(x) == 1 else _at_end(*x, end, margin, apart=1 + 0.37 * i)
                for i, x in enumerate(box)
            ]
            source.begin(Path(), numbers)
            with source.builtins.plain():
                again = run_call(source, call)
            if again.tokens != ended.tokens:
                return f"at {numbers} it gives {again.tokens or again.message}, not {ended.tokens}"
    return ""


def _at_end(
    low: float, high: float, points: int, end: int, margin: float, *, apart: float
) -> float:
    """Return a number of the grid near an end of an interval."""
    if points < MIN_CONTINUOUS_RANGE and points != 2**24:
        first, last = math.ceil(low * points - 1e-6), math.ceil(high * points - 1e-6) - 1
        return ((last if end else first) + 0.5) / points
    # Integers of very many values are read as uniforms.
    inside = apart * max(2.0**-21 if points == 2**24 else 4 / points, margin)
    if high - low <= 2 * inside:
        return (low + high) / 2
    return min(low + inside, high) if end == 0 else max(high - inside, low)
