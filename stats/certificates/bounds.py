"""Upper bounds on the one-token TV distance that a healthy run can sign."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.stats._checks import Floats, Ints, count_rows, open_unit
from simverify.stats.pits.pit import edge_distance


@dataclass(frozen=True)
class Certificate:
    """``quantity <= bound`` except with probability ``delta``, under ``assumption``.

    The quantity is the mean one-token total variation distance between the emitted law and
    the target's, over the visited contexts, unless it says otherwise.
    """

    bound: float
    delta: float
    method: str
    assumption: str
    quantity: str = "mean one-token TV"


def best_certificate(*certificates: Certificate) -> Certificate:
    """Return the smallest of several bounds on one quantity, at the sum of their deltas.

    All of them hold except with that probability (Boole), so that the choice is free. Split
    delta over the bounds, and over the looks of a run, before they are computed.

    Raises
    ------
    ValueError
        If there are none, they bound different quantities, or their deltas reach 1.
    """
    quantities = {c.quantity for c in certificates}
    if len(quantities) != 1:
        raise ValueError(f"certificates bound {sorted(quantities)}, expected one quantity")
    best = min(certificates, key=lambda c: c.bound)
    delta = open_unit("the sum of deltas", math.fsum(c.delta for c in certificates))
    return dataclasses.replace(best, delta=delta)


def plug_in_certificate(counts: Any, probabilities: Any, *, delta: float = 1e-3) -> Certificate:
    """Bound the mean one-token TV distance by its plug-in value and a deviation term.

    mean TV <= sum_c (N_c/N) TV(phat_c, P_c) + sqrt(ln(1/delta) / 2N). For the events A_c on
    which the emitted law exceeds P_c, the sum of 1{X in A_c} less its emitted probability is
    a martingale with steps of length 1, and the plug-in value bounds the rate's excess over
    P_c(A_c) (Azuma and Hoeffding). So contexts may depend on earlier tokens.

    Parameters
    ----------
    counts : int array (contexts, V)
        Emitted tokens per context; slots may be stacked as further contexts.
    probabilities : float64 array (contexts, V)
        Target rows; each sums to 1 within 1e-9.

    Raises
    ------
    ValueError
        If there is no token, counts are negative or not integers, shapes differ, V < 2, a
        row is no law, or delta is outside (0, 1).
    """
    array, rows = count_rows("counts", counts, probabilities)
    return Certificate(
        bound=min(1.0, plug_in_bound(array, rows, delta)),
        delta=delta,
        method="plug-in TV + sqrt(ln(1/delta) / 2N)",
        assumption="the emitted law of a token depends on its context alone; N fixed beforehand",
    )


def plug_in_bound(counts: Ints, rows: Floats, delta: float) -> float:
    """Return the bound of :func:`plug_in_certificate`, not cut at 1."""
    delta = open_unit("delta", delta)
    totals = counts.sum(axis=1, keepdims=True)
    n = int(totals.sum())
    if n == 0:
        raise ValueError("counts are all 0, expected at least one token")
    plug_in = float(np.abs(counts - totals * rows).sum()) / (2.0 * n)
    return plug_in + math.sqrt(math.log(1.0 / delta) / (2.0 * n))


def monotone_certificate(histogram: Any, *, delta: float = 1e-3) -> Certificate:
    """Bound the mean one-token TV distance from a histogram of ordered PITs.

    mean TV <= 2 (K + sqrt(ln(2/delta) / 2N)), K the distance of :func:`edge_distance` and one
    bin. If P'/P is monotone in the order, the CDF of a context's PITs less u is concave with
    its maximum at TV, so that its integral 1/2 - E[u] is at least TV/2; the mean PIT is
    within K of 1/2 and, by Azuma and Hoeffding, within the root of its expectation.

    Parameters
    ----------
    histogram : int array (bins,)
        Counts of the PITs, in ascending q/p, over equal bins of [0, 1).

    Raises
    ------
    ValueError
        If ``histogram`` is not (bins,) non-negative integers with 2 or more bins, it is
        empty, or delta is outside (0, 1).
    """
    delta = open_unit("delta", delta)
    distance, n = edge_distance(histogram)
    distance += 1.0 / np.asarray(histogram).size
    bound = 2.0 * (distance + math.sqrt(math.log(2.0 / delta) / (2.0 * n)))
    return Certificate(
        bound=min(1.0, bound),
        delta=delta,
        method="2 (K + sqrt(ln(2/delta) / 2N))",
        assumption="P'/P is monotone in q/p, in the same direction in every context; "
        "N fixed beforehand",
    )
