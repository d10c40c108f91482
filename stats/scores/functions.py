"""The score bank: bounded functions of an emitted token, and their moments under P.

Each is large where a kind of fault puts too much or too little mass. ``p`` is the target row,
``q`` the draft row of the slot.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.stats._checks import Floats, positive_float, probability_rows

SURPRISE_CAP = 16.0
"""Nats at which the surprise is clipped: tokens rarer than 1.1e-7 count alike."""


def q_above_p(p: Any, q: Any) -> npt.NDArray[np.bool_]:
    """1{q > p}: the tokens that are rejected at times; their mass is TV(p, q) under a fault.

    Parameters
    ----------
    p, q : float64 array (..., V)
        Rows; each sums to 1.

    Raises
    ------
    ValueError
        If shapes differ, V < 2 or a row is no law.
    """
    p, q = _pair_iv(p, q)
    above: npt.NDArray[np.bool_] = q > p
    return above


def rare_token(p: Any, *, below: float) -> npt.NDArray[np.bool_]:
    """1{P(x) < below}: counts the tail of the target's vocabulary.

    Raises
    ------
    ValueError
        If V < 2, a row is no law or ``below`` is not positive.
    """
    rows = probability_rows("p", p, np.ndim(p))
    rare: npt.NDArray[np.bool_] = rows < positive_float("below", below)
    return rare


def accept(p: Any, q: Any) -> Floats:
    """min(1, q / p): moves the other way where mass is taken from tokens that q lacks.

    Float64 (..., V) in [0, 1]; 1 where p = 0 < q, 0 where both are 0. Parameters and errors
    as :func:`q_above_p`.
    """
    p, q = _pair_iv(p, q)
    # A quotient above 1 is not asked for: over the smallest floats it overflows.
    ratio: Floats = np.divide(q, p, out=np.sign(q), where=q < p)
    return ratio


def contrast(p: Any, q: Any) -> Floats:
    """(q - p) / (q + p): the score of a mixture of p and q half way, bounded by 1.

    Float64 (..., V) in [-1, 1]; 0 where both are 0. Parameters and errors as
    :func:`q_above_p`.
    """
    p, q = _pair_iv(p, q)
    total = q + p
    score: Floats = (q - p) / np.where(total > 0.0, total, 1.0)
    return score


def surprise(p: Any, *, cap: float = SURPRISE_CAP) -> Floats:
    """min(-log P(x), cap) in nats: too cold, too hot, or a wrong row altogether.

    The cap bounds the score, so that its tail can be; it also makes the score of a token of
    probability 0 finite.

    Raises
    ------
    ValueError
        If V < 2, a row is no law or ``cap`` is not positive.
    """
    rows = probability_rows("p", p, np.ndim(p))
    floor = np.exp(-positive_float("cap", cap))
    # Not -log: a token of probability 1 has surprise 0, not -0.
    return 0.0 - np.log(np.maximum(rows, floor))


def _pair_iv(p: Any, q: Any) -> tuple[Floats, Floats]:
    target, draft = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if target.shape != draft.shape:
        raise ValueError(f"p, q have shapes {target.shape}, {draft.shape}, expected the same")
    probability_rows("p", target, target.ndim)
    probability_rows("q", draft, draft.ndim)
    return target, draft


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreMoments:
    """Moments of a score under each row: float64 (...,) each.

    ``variance``, ``third`` and ``fourth`` are central moments; ``low`` and ``high`` bound the
    score over tokens of positive probability.
    """

    mean: Floats
    variance: Floats
    third: Floats
    fourth: Floats
    low: Floats
    high: Floats


def score_moments(rows: Any, scores: Any) -> ScoreMoments:
    """Moments of scores under rows, row by row: what a kernel streams, for its oracle.

    Parameters
    ----------
    rows : float64 array (..., V)
        Laws; each sums to 1.
    scores : array (..., V)
        Finite scores, or bools.

    Raises
    ------
    ValueError
        If shapes differ, V < 2, a row is no law or a score is not finite.
    """
    law, values = scores_iv(rows, scores, np.ndim(rows))
    centred = centre(law, values)
    possible = law > 0.0
    return ScoreMoments(
        mean=(law * values).sum(axis=-1),
        variance=(law * centred**2).sum(axis=-1),
        third=(law * centred**3).sum(axis=-1),
        fourth=(law * centred**4).sum(axis=-1),
        low=np.where(possible, values, np.inf).min(axis=-1),
        high=np.where(possible, values, -np.inf).max(axis=-1),
    )


def centre(rows: Floats, scores: Floats) -> Floats:
    """Scores less their mean under each row, with the digits of their differences.

    Scores that are equal but for rounding have a mean with the rounding of its own; taken from
    a likely token's score first, what is left of them is the exact difference.
    """
    likely = np.expand_dims(rows.argmax(axis=-1), -1)
    apart = scores - np.take_along_axis(scores, likely, axis=-1)
    centred: Floats = apart - (rows * apart).sum(axis=-1, keepdims=True)
    return centred


def scores_iv(rows: Any, scores: Any, ndim: int) -> tuple[Floats, Floats]:
    """Return rows and scores as float64 of one shape; rows are laws, scores finite."""
    law = probability_rows("rows", rows, ndim)
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != law.shape:
        raise ValueError(f"scores has shape {values.shape}, expected {law.shape} as the rows")
    if not np.isfinite(values).all():
        raise ValueError("a score is NaN or infinite, expected bounded scores: clip them")
    return law, values
