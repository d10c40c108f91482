"""Whether reported values can be of the law that the tokens were drawn from.

Only then do they say something of the tokens. A right server may report anything: its draft's
values for drafts that were accepted, other logarithms, rows of another place. The tokens of a law
that is reported are likelier by it than by any other on average, lie above ours as often as below,
and are exact at none where they are off at the others.
"""

import math

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats

_LEAST = 100
"""Tokens that tell: fewer may by luck hold none of the exact values of a mixture."""

_CERTAIN = 0.95
"""A token that our row expects so much tells nothing: every law that is near says the same."""

_NEAR_ERROR, _NEAR_TV = 0.25, 0.15
"""Values nearer than that to the target's, in nats at the median and in TV, are presumed to be of
what was sampled unless something denies it; farther ones must show it by the tokens."""

_AGAINST = math.log(100.0)
"""Tokens that much likelier by the target than as reported deny that they were drawn so."""

_ONE_SIDED = 0.25
"""A law's values above and below ours weigh alike; these parts of each other deny it."""

_EXACT, _SHARE = 0.02, 0.1
"""A value is exact that is off by so little of what others are; such a share of them, in requests
that are off, is a mixture: noise of any shape without an atom has a few percent."""

_ROUNDING = 1e-4
"""Nats that float32 moves a log probability by at most, engines' ways of computing it included."""

_MOST = 3.0


def doubt(
    known: Floats, ours: Floats, sampled: Floats, nearest: Floats,
    requests: npt.NDArray[np.int64], fine: float, alpha: float,
) -> str | None:  # fmt: skip
    """Return why ``known`` values tell nothing of the tokens, or None.

    Parameters
    ----------
    known, ours, sampled : float64 (n,)
        Reported log probabilities; ours of the kind that they are of; ours of the sampled law.
    nearest : float64 (n,)
        Distance of each value from the nearest of ours of any kind, in nats.
    requests : int64 (n,)
        The request of each token.
    fine : float
        By how much a value may be off as it is written.
    alpha : float
        Error at which far values must show that the tokens were drawn by them.
    """
    open_ = np.exp(ours) < _CERTAIN
    if int(open_.sum()) < _LEAST:
        return f"{open_.sum():,} tokens that are open are too few to tell: {_LEAST} are needed"
    off = known - ours
    above = float((1.0 - np.exp(np.minimum(-off, 0.0))).mean())
    below = float(np.clip(np.expm1(np.minimum(-off, 1.0)), 0.0, 1.0).mean())
    if below < _ONE_SIDED * above:
        return "they lie above the target's at nearly all tokens, which those of no law do"
    if _mixed(nearest, ours, open_, requests, fine):
        return "they are exact at some tokens and far off at others of the same request"
    lawful = np.allclose(ours, sampled)
    evidence = float(np.minimum(off, _MOST).sum()) if lawful else 0.0
    if evidence < -_AGAINST:
        return "the tokens are likelier by the target than by what is reported of them"
    far = above > _NEAR_TV or float(np.median(np.abs(off[open_]))) > _NEAR_ERROR
    if far and evidence < -math.log(alpha):
        return "they are far off, and the tokens do not show that they were drawn by them"
    return None


def _mixed(
    nearest: Floats, ours: Floats, open_: npt.NDArray[np.bool_],
    requests: npt.NDArray[np.int64], fine: float,
) -> bool:  # fmt: skip
    """Whether requests that are off have a share of exact values, scaled by what a row leaves."""
    size = nearest[open_] / -np.expm1(ours[open_])
    whose = requests[open_]
    away = nearest[open_] > max(1.5 * fine, _ROUNDING)
    if not away.any():
        return False
    upper = float(np.median(size[away]))
    exact = (size <= _EXACT * upper) | (nearest[open_] <= 1.5 * fine)
    all_exact = np.bincount(whose, exact) >= 0.95 * np.maximum(np.bincount(whose), 1)
    left = ~all_exact[whose]
    return bool(left.any() and exact[left].mean() > _SHARE)
