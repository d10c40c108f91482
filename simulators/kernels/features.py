"""Features of emitted tokens, each with a target and a draft row of its own.

A token's record holds its randomised PIT in three orders, its scores with their moments under
P, and P_m/P of the faults whose law follows from the slot's own two rows. Each is a few sums
over the rows (``row_sums``). The laws are those of ``simverify.faults.base``, each
divided by its own mass, so that P_m/P has mean 1 under P.
"""

from typing import Any

import numpy as np
from numba import njit

from simverify.simulators.kernels import row_sums
from simverify.simulators.kernels.row_sums import (
    FACTORS,
    FLOOR,
    contrast_of,
    gather,
    log2,
    ratio_of,
    reused,
    spread_of,
    surprise_of,
    survey,
    warmth_of,
)

FAULTS = (
    "target-residual",
    "one-hot-residual",
    "unnormalised-residual",
    "top-k-residual(1)",
    "floored-residual(1e-05)",
    "reused-uniform",
    "inverted-ratio",
    "double-chance",
    "scaled-acceptance(1.1)",
    "scaled-acceptance(1.01)",
    "lenient(0.9)",
    "draft-leak(1)",
    "draft-temperature(0.9)",
    "argmax-draft-soft-q",
    "target-temperature(0.9)",
)
"""The faults, in the order of ``ratios``; mixed at strength d, draft-leak(1) is a leak of d."""

RECORD = 34
PIT_RATIO, PIT_INDEX, PIT_DESCENDING, PROBABILITY, MASS_P, MASS_Q, IMPROPER = range(7)
IS_ABOVE, ABOVE, IS_RARE_0, RARE_0, IS_RARE_1, RARE_1 = range(7, 13)
ACCEPT, CONTRAST, SURPRISE = range(13, RECORD, 7)
"""Columns of a record. ACCEPT, CONTRAST and SURPRISE begin seven each: the score, then its
mean, variance, third and fourth central moment, least and greatest value under P."""

_WARM_TARGET = len(FAULTS) - 1


@njit(cache=True, nogil=True, error_model="numpy")
def fill(
    p: Any, q: Any, tokens: Any, uniforms: Any, judged: Any, records: Any, ratios: Any
) -> None:
    """Fill ``records`` float64 (n, RECORD) and ``ratios`` float64 (n, M) of n tokens.

    ``p``, ``q`` (n, V) float32 or float64; ``uniforms`` float64 (n,) in [0, 1) randomise the
    PITs; ``judged`` bool (n,) is False where q was not used to judge a draft, as at a bonus:
    the faults emit P there, but for the target's temperature. P_m/P is inf where P excludes
    the token, 1 where both do. Of rows that are no laws only IMPROPER and masses mean anything.
    """
    sums = np.empty(row_sums.SUMS)
    centres = np.empty(3)
    logs = np.empty((3, row_sums.TILE), p.dtype)
    for i in range(tokens.shape[0]):
        token = tokens[i]
        a = np.float64(p[i, token])
        b = np.float64(q[i, token])
        centres[0] = min(ratio_of(a, b), 1.0)
        centres[1] = contrast_of(a, b)
        log = log2(p[i, token])
        centres[2] = surprise_of(log)
        survey(p[i], q[i], token, sums)
        gather(p[i], q[i], token, centres, logs, sums)
        _record(a, b, uniforms[i], centres, sums, records[i])
        ratios[i] = 1.0
        if judged[i]:
            _weigh(p[i], q[i], token, sums, ratios[i])
        warm = a * np.float64(warmth_of(log))
        _relate(ratios[i], _WARM_TARGET, warm, sums[row_sums.WARM_P], a / sums[row_sums.MASS_P])


@njit(cache=True, nogil=True, error_model="numpy")
def _record(a: Any, b: Any, v: Any, centres: Any, sums: Any, record: Any) -> None:
    mass = sums[row_sums.MASS_P]
    own = v * a
    record[PIT_RATIO] = min((sums[row_sums.BELOW_RATIO] + own) / mass, 1.0)
    record[PIT_INDEX] = min((sums[row_sums.BEFORE] + own) / mass, 1.0)
    record[PIT_DESCENDING] = min((sums[row_sums.BELOW_DESCENDING] + own) / mass, 1.0)
    record[PROBABILITY] = a / mass
    record[MASS_P] = mass
    record[MASS_Q] = sums[row_sums.MASS_Q]
    record[IMPROPER] = sums[row_sums.IMPROPER]
    least = sums[row_sums.LEAST_RATIO]
    most = sums[row_sums.MOST_RATIO]
    # The mass of a set that holds all or none of the possible tokens is 1 or 0, whatever the
    # last digits of the sums say.
    record[IS_ABOVE] = b > a
    record[ABOVE] = 1.0 if least > 1.0 else min(sums[row_sums.ABOVE] / mass, 1.0)
    most_p = sums[row_sums.MOST_P]
    record[IS_RARE_0] = a < row_sums.RARE[0]
    record[RARE_0] = 1.0 if most_p < row_sums.RARE[0] else min(sums[row_sums.RARE_0] / mass, 1.0)
    record[IS_RARE_1] = a < row_sums.RARE[1]
    record[RARE_1] = 1.0 if most_p < row_sums.RARE[1] else min(sums[row_sums.RARE_1] / mass, 1.0)
    _moments(record, ACCEPT, centres[0], sums, row_sums.ACCEPT, min(least, 1.0), min(most, 1.0))
    # (r - 1) / (r + 1), in a form that bears any r.
    low = 1.0 - 2.0 / (1.0 + least)
    high = 1.0 - 2.0 / (1.0 + most)
    _moments(record, CONTRAST, centres[1], sums, row_sums.CONTRAST, low, high)
    low = sums[row_sums.LEAST_SURPRISE]
    _moments(
        record, SURPRISE, centres[2], sums, row_sums.SURPRISE, low, sums[row_sums.MOST_SURPRISE]
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _moments(record: Any, to: Any, score: Any, sums: Any, place: Any, low: Any, high: Any) -> None:
    """Central moments from those about the score itself, exact where only it is possible."""
    mass = sums[row_sums.MASS_P]
    m1 = sums[place] / mass
    m2 = sums[place + 1] / mass
    m3 = sums[place + 2] / mass
    m4 = sums[place + 3] / mass
    record[to] = score
    record[to + 1] = score + m1
    record[to + 2] = max(m2 - m1 * m1, 0.0)
    record[to + 3] = m3 - 3.0 * m1 * m2 + 2.0 * m1**3
    record[to + 4] = max(m4 - 4.0 * m1 * m3 + 6.0 * m1 * m1 * m2 - 3.0 * m1**4, 0.0)
    record[to + 5] = low
    record[to + 6] = max(low, high)


@njit(cache=True, nogil=True, error_model="numpy")
def _relate(ratios: Any, m: Any, weight: Any, mass: Any, probability: Any) -> None:
    """Ratio of the law ``weight / mass`` to P."""
    if probability > 0.0:
        ratios[m] = weight / mass / probability
    else:
        ratios[m] = np.inf if weight > 0.0 else 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh(p: Any, q: Any, token: Any, sums: Any, ratios: Any) -> None:
    """P_m/P of the faults of a judged slot: accepted mass, and rejected mass times a residual."""
    a = np.float64(p[token])
    b = np.float64(q[token])
    mass = sums[row_sums.MASS_P]
    drafted = sums[row_sums.MASS_Q]
    chance = a / mass
    both = min(a, b)
    left = max(a - b, 0.0)
    rest = sums[row_sums.RESIDUAL]
    residual = left / rest if rest > 0.0 else chance
    rejected = max(drafted - sums[row_sums.KEPT], 0.0)

    # Right acceptance, wrong corrected token.
    _relate(ratios, 0, both + rejected * chance, drafted, chance)
    others = sums[row_sums.SPREAD] - spread_of(a, b - both, mass)
    _relate(ratios, 1, both + a * max(others, 0.0), drafted, chance)
    missing = 1.0 - rest if token == p.shape[0] - 1 else 0.0
    _relate(ratios, 2, both + rejected * (left + missing), drafted, chance)
    # The first of the largest: before the token there is none as large, after it none larger.
    top = sums[row_sums.LEAD_BEFORE] < left and left == sums[row_sums.LEAD]
    _relate(ratios, 3, both + (rejected if top else 0.0), drafted, chance)
    floored = max(a - b, FLOOR) / sums[row_sums.FLOORED]
    _relate(ratios, 4, both + rejected * floored, drafted, chance)
    slice_ = 0.0
    if left > 0.0:
        before = sums[row_sums.RESIDUAL_BEFORE] / rest
        slice_ = reused(p, q, before, before + left / rest)
    _relate(ratios, 5, both + slice_, drafted, chance)

    # Wrong acceptance, right residual.
    kept = b * min(ratio_of(a, b), 1.0)
    wrongly = max(drafted - sums[row_sums.INVERTED], 0.0)
    _relate(ratios, 6, kept + wrongly * residual, drafted, chance)
    wrongly = max(drafted - sums[row_sums.KEPT] - sums[row_sums.DOUBLE], 0.0)
    _relate(ratios, 7, both + (b - both) * a + wrongly * residual, drafted, chance)
    for k in range(3):
        wrongly = max(drafted - sums[row_sums.KEPT_0 + k], 0.0)
        _relate(ratios, 8 + k, min(FACTORS[k] * a, b) + wrongly * residual, drafted, chance)
    _relate(ratios, 11, b, drafted, chance)

    # Wrong draft.
    warmth = np.float64(warmth_of(log2(q[token])))
    wrongly = max(sums[row_sums.WARM_Q] - sums[row_sums.WARM_KEPT], 0.0)
    _relate(ratios, 12, both * warmth + wrongly * residual, sums[row_sums.WARM_Q], chance)
    mode = np.int64(sums[row_sums.MODE])
    accepted = min(np.float64(p[mode]) / np.float64(q[mode]), 1.0)
    own = accepted if token == mode else 0.0
    _relate(ratios, 13, own + (1.0 - accepted) * residual, 1.0, chance)


@njit(cache=True, nogil=True, error_model="numpy")
def bet(ratios: Any, strengths: Any, wealth: Any) -> None:
    """Add log((1-d) + d r) of ratios r (n, M) to ``wealth`` float64 (3, M, strengths).

    ``wealth[0]`` is the sum of the finite ones; 1 and 2 count those of factors 0 and inf.
    """
    for i in range(ratios.shape[0]):
        for m in range(ratios.shape[1]):
            r = ratios[i, m]
            for s in range(strengths.shape[0]):
                d = strengths[s]
                factor = (1.0 - d) + d * r
                if factor == 0.0:
                    wealth[1, m, s] += 1.0
                elif factor == np.inf:
                    wealth[2, m, s] += 1.0
                else:
                    wealth[0, m, s] += np.log(factor) if d == 1.0 else np.log1p(d * (r - 1.0))
