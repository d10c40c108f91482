"""Power curves from nested samples, and the N at which they pass .9."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from statsmodels.stats.proportion import proportion_confint

POWER = 0.9


@dataclass(frozen=True)
class Needed:
    """Samples for the power, with a 95% interval from the runs; inf beyond what was tried."""

    n: float
    low: float
    high: float


def needed(sizes: Sequence[float], rejected: npt.NDArray[np.bool_]) -> Needed:
    """N at which the share of ``rejected`` runs (runs, sizes) passes .9.

    Sizes are nested in a run; the share is made monotone and read on a line in log N. The
    interval is where the Clopper-Pearson limits pass .9.
    """
    runs = len(rejected)
    hits = rejected.sum(axis=0)
    low, high = proportion_confint(hits, runs, alpha=0.05, method="beta")
    curves = (hits / runs, np.asarray(high), np.asarray(low))
    return Needed(*(_crossing(sizes, curve) for curve in curves))


def _crossing(sizes: Sequence[float], curve: npt.NDArray[Any]) -> float:
    risen = np.maximum.accumulate(curve)
    above = np.flatnonzero(risen >= POWER)
    if len(above) == 0:
        return float("inf")
    k = int(above[0])
    if k == 0:
        return float(sizes[0])
    share = (POWER - risen[k - 1]) / (risen[k] - risen[k - 1])
    logs = np.log(sizes)
    return float(np.exp(logs[k - 1] + share * (logs[k] - logs[k - 1])))
