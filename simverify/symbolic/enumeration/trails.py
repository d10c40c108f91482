"""Paths with numbers that lead down them, and whether the code takes them on the real ones."""

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from simverify.symbolic.draws.scalars import Uniform
from simverify.symbolic.enumeration.endings import Call, Outcome, attempt
from simverify.symbolic.enumeration.numbers import MIDDLE
from simverify.symbolic.enumeration.paths import Path
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.errors import CannotEnumerate
from simverify.symbolic.guards.watchdog import Expired, deadline

PARTS = ((0.02, 0.02), (0.98, 0.98), MIDDLE)
"""Where in their intervals the uniforms lie, run by run: near either end, then anywhere. A
stand-in that is right in the middle may still round otherwise at an end."""

_WIDE = 1e-4
"""Uniforms in shorter intervals stay away from the ends, where float32 rounds across them."""

_HANG_SECONDS = 5.0
"""Processor seconds after which a run on plain numbers is taken not to return."""

Numbers = tuple[float | int, ...]


class Enumerated(Protocol):
    """What was enumerated: its source, and how to run it where nothing stands in."""

    source: Source

    def plainly(self) -> AbstractContextManager[None]:
        """Hand out plain numbers until left."""


@dataclass(frozen=True)
class Trail:
    """A path of ``call``: how it ended, its weight there, and numbers for a run each."""

    call: Call
    outcome: Outcome
    weight: float
    plans: tuple[Numbers, ...]


@dataclass
class Repeats:
    """What came of repeating paths on numbers in the real libraries' own types.

    ``paths``: of all, and how many ``repeated``. ``missing``: the largest part, of the laws
    that the paths are of, that did not repeat or was not tried. ``masses``: by kind of ending
    without tokens, the largest part of a law that repeated it. ``findings``: kinds of
    findings that were met on the way. ``otherwise``: what the first path did that did not repeat.
    """

    paths: int
    repeated: int = 0
    missing: float = 0.0
    masses: dict[str, float] = field(default_factory=dict)
    findings: set[str] = field(default_factory=set)
    otherwise: str = ""


def plans_of(source: Source, rng: np.random.Generator) -> tuple[Numbers, ...]:
    """Return numbers for each of :data:`PARTS` that lead down the path just run."""
    short = any(isinstance(d, Uniform) and d.high - d.low < _WIDE for d in source.draws)
    plans = (source.plan_like_this_path(rng, MIDDLE if short else part) for part in PARTS)
    return tuple(dict.fromkeys(tuple(plan) for plan in plans if plan is not None))


def repeat_trails(enumeration: Enumerated, trails: Sequence[Trail], *, most: int) -> Repeats:
    """Run the heaviest ``most`` of the trails of an enumeration on plain numbers."""
    found = Repeats(paths=len(trails))
    missing: dict[int, float] = {}
    masses: dict[tuple[int, str], float] = {}
    seeds: list[frozenset[Hashable]] = []
    source = enumeration.source
    source.findings.clear()
    # Made before interception: what follows a plan are real numbers.
    beyond = np.random.Generator(np.random.PCG64(20254))
    with enumeration.plainly():
        for i, trail in enumerate(sorted(trails, key=lambda trail: -trail.weight)):
            law = id(trail.call)
            otherwise = "was not tried" if i >= most else _otherwise(source, trail, seeds, beyond)
            if otherwise:
                missing[law] = missing.get(law, 0.0) + trail.weight
                found.otherwise = found.otherwise or otherwise
                continue
            found.repeated += 1
            if trail.outcome.tokens is None:
                kind = trail.outcome.kind
                masses[law, kind] = masses.get((law, kind), 0.0) + trail.weight
    found.missing = max(missing.values(), default=0.0)
    for (_, kind), mass in masses.items():
        found.masses[kind] = max(found.masses.get(kind, 0.0), mass)
    found.findings = {finding.kind for finding in source.findings.values()} - {"constant-seed"}
    # A seed that was drawn, or counts the calls, differs from run to run.
    if len(seeds) > 1 and frozenset.intersection(*seeds):
        found.findings.add("constant-seed")
    source.findings.clear()
    return found


def _otherwise(
    source: Source, trail: Trail, seeds: list[frozenset[Hashable]], beyond: np.random.Generator
) -> str:
    """Return what the code does instead on some of the trail's numbers; "" if it repeats."""
    if not trail.plans:
        return "has no numbers that lead down it"
    hung = trail.outcome.kind == "hangs"
    for plan in trail.plans:
        source.begin(Path(), list(plan))
        # A run that was interrupted may have been about to draw: it goes on with other numbers.
        source.beyond = beyond if hung else None
        try:
            with deadline(_HANG_SECONDS):
                again = attempt(source, trail.call)
        except Expired:
            if not hung:
                return f"does not return, instead of {_said(trail.outcome)}"
            return ""
        except CannotEnumerate as error:
            return f"goes on, instead of {_said(trail.outcome)} ({error})"
        finally:
            source.beyond = None
        if source.constant_seeds:
            seeds.append(source.constant_seeds)
        if (again.tokens, again.kind) != (trail.outcome.tokens, trail.outcome.kind):
            return f"{_said(again)}, instead of {_said(trail.outcome)}"
    return ""


def _said(outcome: Outcome) -> str:
    if outcome.tokens is not None:
        return f"emits {', '.join(map(str, outcome.tokens))}"
    return outcome.message or outcome.kind
