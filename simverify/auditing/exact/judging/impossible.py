"""Tokens that the target never gives, emitted all the same, where a coarse tolerance hides them.

Rounding moves probability between tokens, and a tolerance allows for that. It never gives any to
a token with p = 0: that takes a comparison that lets u = 0 through, a draw that was rounded to 1,
or a residual that is not cut off. So this is a finding at any precision.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from simverify.auditing.exact.judging.comparison import Comparison
from simverify.symbolic import Finding
from simverify.symbolic.endings import Tokens

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
