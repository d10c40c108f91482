"""How much of the draft may leak into the output: the largest share not refuted."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.stats._checks import count_rows, open_unit, probability_rows
from simverify.stats.certificates.bounds import Certificate
from simverify.stats.ratios.ratio_factors import log_product, log_ratios, times


def leakage_certificate(
    counts: Any, probabilities: Any, draft: Any, *, delta: float = 1e-3
) -> Certificate:
    """Bound the share s of the draft in an output law P' = (1-s) P + s Q.

    The largest share whose likelihood is more than ``delta`` times that of no leak. If the
    share is s, the inverse of that likelihood ratio is an e-process, which reaches 1/delta
    with probability ``delta`` at most; the bound holds at any time and for any contexts. Its
    logarithm is concave in s and 0 at 0, so that all larger shares are refuted too.

    Parameters
    ----------
    counts : int array (contexts, V)
        Emitted tokens per context.
    probabilities, draft : float64 array (contexts, V)
        Target and draft rows; each sums to 1 within 1e-9.

    Raises
    ------
    ValueError
        If counts are negative or not integers, shapes differ, V < 2, a row is no law, or
        delta is outside (0, 1).
    """
    array, rows = count_rows("counts", counts, probabilities)
    q, delta = probability_rows("draft", draft), open_unit("delta", delta)
    if q.shape != rows.shape:
        raise ValueError(f"draft has shape {q.shape}, expected {rows.shape} as probabilities")
    seen = array > 0
    weights, logs = array[seen], log_ratios(q, rows)[seen]

    def refuted(share: float) -> bool:
        mixed = np.logaddexp(np.log1p(-share), math.log(share) + logs)
        return float(log_product(times(weights, mixed))) <= math.log(delta)

    with np.errstate(divide="ignore"):
        bound = 1.0 if not refuted(1.0) else _edge(refuted)
    return Certificate(
        bound=bound,
        delta=delta,
        method="largest share whose likelihood ratio to no leak exceeds delta",
        assumption="P' = (1-s) P + s Q with one share s in every context",
        quantity="share of the draft in the output",
    )


def _edge(refuted: Callable[[float], bool]) -> float:
    kept, gone = 0.0, 1.0
    while gone - kept > 1e-9 * gone:
        middle = (kept + gone) / 2.0
        kept, gone = (kept, middle) if refuted(middle) else (middle, gone)
    return gone
