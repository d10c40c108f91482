"""An exact law against its target: how far it is, and where."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.judging.tree import Tree
from simverify.symbolic import Finding
from simverify.symbolic.endings import Tokens

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
class Comparison:
    """An exact law against its target.

    ``max_abs_deviation`` is over sequences of full length and includes ``pruned``; ``tv`` is
    the total variation distance; ``expected_accepted`` is E[tau] and ``bonus`` the mass of calls
    that emit gamma + 1 tokens. ``worst`` has the largest
    deviation. ``emitted``: the law itself, float64 (V,) * length or a tree. ``place`` is
    None where no position deviates by more than ``tolerance``, by default that of ``dtype``,
    the coarsest precision that met a draw. ``broken``: the first drafted block on which the
    code broke its contract, if it did.
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
    emitted: Row | Tree
    dtype: str
    broken: Tokens | None = None


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
