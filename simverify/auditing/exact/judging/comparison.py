"""An exact law against its target: how far it is, where, and how much of that arithmetic explains.

Rounding is no fault, and a coarse dtype is no excuse. The tolerance follows the coarsest
dtype that met a draw or a probability on the way. Above it, a deviation is a fault. Below
it, a deviation that only 16-bit arithmetic could excuse has to prove it: the code runs again
with its 16-bit types replaced by float64, and what then remains is held to float32's
tolerance. Such second runs also find the casts that no draw met, as in ``float(p32 / q32)``
or in rows that were kept in bfloat16 and are float32 by the time they are used.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.judging.tree import Transcripts, Tree
from simverify.symbolic import CannotEnumerate, Finding, Lift
from simverify.symbolic.enumeration.endings import Tokens

Stage = Literal["accepted", "residual", "bonus"]


@dataclass(frozen=True)
class OutputSequence:
    """One output sequence: the probability it is emitted with and the one that is due."""

    tokens: Tokens
    emitted: float
    due: float


@dataclass(frozen=True)
class Place:
    """Where a law first leaves its target.

    ``position`` is the token's index in the call; ``stage`` says which kind of token carries
    the deviation there (None where tokens alone do not tell); ``tv`` is the distance of the
    law of the tokens up to it.
    """

    position: int
    stage: Stage | None
    tv: float


@dataclass(frozen=True)
class DraftCall:
    """A call of a drafter whose answers are looked at, as ``worst`` is of a comparison.

    ``asked`` tokens after ``prefix``; with probability ``share`` so many come back, of the law
    (V,) ``reported``. ``before``: the tokens of the calls before it.
    """

    prefix: Tokens
    asked: int
    reported: tuple[float, ...]
    share: float
    before: tuple[Tokens, ...]


@dataclass(frozen=True)
class Comparison:
    """An exact law against its target.

    ``max_abs_deviation`` is over sequences of full length and includes ``pruned``; ``tv`` is
    the total variation distance; ``expected_accepted`` is E[tau] and ``bonus`` the mass of calls
    that emit gamma + 1 tokens. ``worst`` has the largest
    deviation. ``emitted``: the law itself, float64 (V,) * length or a tree. ``place`` is
    None where no position deviates by more than ``tolerance``, by default that of ``dtype``,
    the coarsest precision that met a draw. ``broken``: the first drafted block on which the
    code broke its contract, if it did, and ``broken_parents`` its shape where it is a tree.
    ``excess``: by how much the likeliest of what is too likely
    is so, over sequences of full length. ``call``: of a drafter, whose ``worst`` tokens are
    probable given what it reports and how many they are.
    """

    max_abs_deviation: float
    tv: float
    worst: OutputSequence
    place: Place | None
    expected_accepted: float | None
    bonus: float | None
    paths: int
    pruned: float
    lost: float
    complete: bool
    findings: tuple[Finding, ...]
    emitted: Row | Tree | Transcripts
    dtype: str
    broken: Tokens | None = None
    broken_parents: Tokens | None = None
    excess: float = 0.0
    call: DraftCall | None = None


RARE = 1e-6
"""Up to this probability it is an event at the edge of a draw, which the probes tell of."""


def with_impossible(comparison: Comparison, mass: float, tolerance: float) -> Comparison:
    """Add the finding where so much mass is on sequences with p = 0 and is within tolerance."""
    if mass <= RARE or tolerance <= RARE:
        return comparison
    finding = Finding(
        "impossible-token",
        "violation",
        f"emits tokens of target probability 0 with probability {mass:.3g}: no rounding does that",
    )
    return replace(comparison, findings=(*comparison.findings, finding))


def impossible_mass(probabilities: Mapping[Tokens, float], row: Callable[[Tokens], Any]) -> float:
    """Return the probability of sequences in which a token has p = 0 after those before it."""
    return float(
        np.sum(
            [
                weight
                for tokens, weight in probabilities.items()
                if any(row(tokens[:i])[token] == 0 for i, token in enumerate(tokens))
            ]
        )
    )


COARSE = ("float16", "bfloat16")

HIDDEN = " or ".join(COARSE)
"""The name of a 16-bit precision that no draw met: it is one of the two."""

TOLERANCE = {"float64": 1e-9, "float32": 1e-6, "float16": 2e-2, "bfloat16": 2e-2, HIDDEN: 2e-2}
"""Largest deviation that is rounding, by the coarsest precision met, finest first."""


@dataclass(frozen=True)
class Held:
    """A comparison and what it is held to.

    ``dtype``: the coarsest precision met, or found hidden. ``lifted``: the comparison is of
    the code computing in float64, where it still deviates.
    """

    comparison: Comparison
    tolerance: float
    dtype: str
    lifted: bool = False


def coarsest(dtypes: set[str]) -> str:
    """Return the coarsest of the names, "float64" if there is none."""
    return max(dtypes, key=list(TOLERANCE).index, default="float64")


def deviation(comparison: Comparison) -> float:
    """Largest deviation less what may lie in branches that were not run.

    Calls that were lost may have had what is missing; they explain nothing of what is too much.
    """
    missing = comparison.max_abs_deviation - 2 * comparison.pruned - comparison.lost
    return max(missing, comparison.excess - comparison.pruned)


def hold(compare: Callable[[Lift | None], Comparison], tolerance: float | None) -> Held:
    """Decide what ``compare(None)`` is held to; ``tolerance`` if that is given.

    ``compare(lift)`` compares the code that computes with its types lifted to float64.
    """
    comparison = compare(None)
    dtype, found = comparison.dtype, deviation(comparison)
    if tolerance is not None:
        return Held(comparison, tolerance, dtype)
    usual = Held(comparison, TOLERANCE[dtype], dtype)
    if dtype in COARSE:
        if TOLERANCE["float32"] < found <= TOLERANCE[dtype]:
            lifted = _lifted(compare, "half")
            if lifted is not None and deviation(lifted) > TOLERANCE["float32"]:
                return Held(lifted, TOLERANCE["float32"], dtype, lifted=True)
        return usual
    if TOLERANCE["float32"] < found <= TOLERANCE[HIDDEN]:
        lifted = _lifted(compare, "half")
        if lifted is not None and _rounds_to_single(compare, lifted):
            return Held(comparison, TOLERANCE[HIDDEN], HIDDEN)
    elif found > TOLERANCE[dtype] and _rounds_to_single(compare, comparison):
        return Held(comparison, TOLERANCE["float32"], "float32")
    return usual


def hold_reported(compare: Callable[[Lift | None], Comparison], tolerance: float | None) -> Held:
    """As :func:`hold`, of a drafter: 16-bit arithmetic excuses nothing.

    A row that is reported in 16 bits, of tokens that were drawn in 32, is the very fault.
    """
    comparison = compare(None)
    dtype, found = comparison.dtype, deviation(comparison)
    if tolerance is not None:
        return Held(comparison, tolerance, dtype)
    if found <= TOLERANCE["float64"]:
        return Held(comparison, TOLERANCE["float64"], "float64")
    if found <= TOLERANCE["float32"] and (dtype != "float64" or _rounds(compare, "single")):
        return Held(comparison, TOLERANCE["float32"], "float32")
    return Held(comparison, TOLERANCE["float64"], dtype)


def _rounds(compare: Callable[[Lift | None], Comparison], lift: Lift) -> bool:
    """Whether nothing is left of a deviation in code that is lifted."""
    lifted = _lifted(compare, lift)
    return lifted is not None and deviation(lifted) <= TOLERANCE["float64"]


def _rounds_to_single(compare: Callable[[Lift | None], Comparison], comparison: Comparison) -> bool:
    """Whether rounding to float32 or float64, seen or hidden, explains the deviation."""
    left = deviation(comparison)
    if left <= TOLERANCE[comparison.dtype]:
        return True
    if left > TOLERANCE["float32"]:
        return False
    return _rounds(compare, "single")


def _lifted(compare: Callable[[Lift | None], Comparison], lift: Lift) -> Comparison | None:
    """Return the comparison of the lifted code; None if it does not run or is not lifted.

    Where a budget ends first, that is passed on: nothing was found out, least of all a failure.
    """
    try:
        lifted = compare(lift)
    except CannotEnumerate:
        return None
    whole = lifted.complete and lifted.lost == 0
    return lifted if whole and lifted.dtype not in COARSE else None
