"""The battery's tests on one setting, and what each needs by the normal approximation.

Tests are the project's own (``simverify.stats``); alpha is split as ``stats.budget`` has it, in
a run whose size is fixed beforehand, with one look. A run's samples are lists of (context,
token, count).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from instances import Rows
from scipy import interpolate, special

from simverify import stats
from simverify.stats.evalues import log_ratios, mixed_ratios
from simverify.stats.pits import Order
from simverify.stats.planning import BATTERY, RATIO_TESTS, SCORE_COUNT
from simverify.stats.scores import ScoreSumLaw, ScoreTable, log_sum_sf

ALPHA, POWER = 1e-6, 0.9
NORMAL = float(special.ndtri(POWER))
ORDERS: tuple[Order, ...] = ("ratio", "index", "descending")
NODES = 5
"""Points at which the tail of a sum is computed; in between it is interpolated."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Setting:
    """Contexts that tokens are emitted in, and how often each comes under the fault.

    ``target``, ``draft``, ``emitted``: float64 (contexts, V), the last the fault's law.
    ``weights``: float64 (contexts,), shares of the tokens. ``slots``: int (contexts,).
    ``counted``: whether all tokens are counted by context, so that a G2 can be made.
    """

    target: Rows
    draft: Rows
    emitted: Rows
    weights: Floats
    slots: npt.NDArray[np.int64]
    gamma: int
    counted: bool


@dataclass(frozen=True, eq=False)
class LinearTest:
    """A test of a sum over tokens of ``values`` (contexts, V).

    ``kind``: a "score", centred under the target and two-sided; a "ratio", logarithm of a
    likelihood ratio; or the "oracle", the ratio of the very law that is sampled, which no test
    beats (Neyman and Pearson). ``level``: its share of alpha in the battery, 0 for the oracle,
    which is not in it.
    """

    name: str
    values: Rows
    kind: Literal["score", "ratio", "oracle"]
    level: float
    samples: float
    """Tokens for the promised power at ``level``, by the normal approximation."""

    def log_pvalue(self, target: Rows, totals: Floats, statistic: float) -> float:
        """Log p-value of the sum, given the tokens (contexts,) in each context."""
        if self.kind == "ratio":
            most = np.where(target > 0.0, self.values, -math.inf).max(axis=1)
            # No statistic lies above the largest sum, but for its rounding.
            return log_sum_sf(self.values, target, totals, max(totals @ most - statistic, 0.0))
        used = totals > 0
        rows, scores = target[used], self.values[used]
        deviation = statistic - float(totals[used] @ (rows * scores).sum(axis=1))
        table = ScoreTable(totals=np.asarray(totals[used], np.float64), rows=rows, scores=scores)
        tail = ScoreSumLaw.of((table,), 1.0 if deviation >= 0 else -1.0).log_sf(abs(deviation))
        return min(0.0, math.log(2.0) + tail)

    def log_pvalues(self, target: Rows, totals: Floats, statistics: Floats) -> Floats:
        """Log p-values (runs,) of sums (runs,) with the same totals: few tails, interpolated.

        The signed root of -2 log p is close to a straight line in the statistic.
        """
        finite = np.isfinite(statistics)
        low, high = statistics[finite].min(), statistics[finite].max()
        nodes = np.linspace(low, high, NODES) if high > low else np.array([low, low + 1.0])
        roots = [math.sqrt(-2.0 * self.log_pvalue(target, totals, x)) for x in nodes]
        if self.kind == "score":  # the p-value turns at the mean: keep the line straight
            mean = float(totals @ (target * self.values).sum(axis=1))
            roots = [math.copysign(r, x - mean) for r, x in zip(roots, nodes, strict=True)]
        found = np.zeros(len(statistics))
        line = interpolate.PchipInterpolator(nodes, roots)
        found[finite] = -0.5 * line(statistics[finite]) ** 2
        return found


def oracle_pvalues(sums: Floats) -> Floats:
    """Log p-values (runs,) of the log-likelihood ratio of the law that made the runs.

    Under it the target's own tail is P(T >= c) = E[exp(-T); T >= c]: read off the runs.
    """
    order = np.argsort(-sums)
    found = np.empty_like(sums)
    found[order] = np.logaddexp.accumulate(-sums[order]) - math.log(len(sums))
    return np.minimum(found, 0.0)


def levels(gamma: int) -> dict[str, float]:
    """Share of alpha of one likelihood ratio, one score, and one of the rest."""
    shares = stats.split_alpha(ALPHA, BATTERY)
    return {
        "ratio": shares["likelihood ratios"] / RATIO_TESTS,
        # Each score in every slot, and pooled.
        "score": shares["scores"] / (SCORE_COUNT * (gamma + 2)),
        # Three orders of PITs, transitions, tau, and two kinds of independence.
        "rest": shares["rest"] / 7.0,
    }


def ratio_candidate(
    setting: Setting, name: str, law: Rows, strength: float, level: float
) -> LinearTest:
    """Likelihood ratio of a law (contexts, V) mixed with the target at a strength."""
    values = mixed_ratios(log_ratios(law, setting.target), strength, 0.0)
    samples = linear_samples(setting, values, level)
    return LinearTest(f"{name} at {strength:g}", values, "ratio", level, samples)


def oracle(setting: Setting) -> LinearTest:
    """Likelihood ratio of the law that is sampled."""
    values = log_ratios(setting.emitted, setting.target)
    return LinearTest("own law", values, "oracle", 0.0, linear_samples(setting, values, ALPHA))


def score_candidates(setting: Setting, level: float) -> list[LinearTest]:
    """The score bank: each score pooled over slots and in each slot alone."""
    p, q = setting.target, setting.draft
    bank = {
        "1{q>p}": stats.q_above_p(p, q).astype(np.float64),
        "min(1, q/p)": stats.accept(p, q),
        "(q-p)/(q+p)": stats.contrast(p, q),
        "-log p": stats.surprise(p),
        "1{p < 1/V}": stats.rare_token(p, below=1.0 / p.shape[1]).astype(np.float64),
    }
    slots = sorted(set(setting.slots.tolist()))
    found = []
    for name, scores in bank.items():
        for slot in (None, *slots) if len(slots) > 1 else (None,):
            here = scores if slot is None else scores * (setting.slots == slot)[:, None]
            label = name if slot is None else f"{name}, slot {slot + 1}"
            samples = linear_samples(setting, here, level / 2.0)
            found.append(LinearTest(f"score {label}", here, "score", level, samples))
    return found


def linear_samples(setting: Setting, values: Rows, tail: float) -> float:
    """Tokens by the normal approximation, given how often each context comes."""
    p, e, w = setting.target, setting.emitted, setting.weights
    if not np.isfinite(values[(e > 0) & (w > 0)[:, None]]).all():
        return math.inf
    finite = np.where(np.isfinite(values), values, 0.0)
    means = [(rows * finite).sum(axis=1) for rows in (p, e)]
    spreads = [
        math.sqrt(w @ ((rows * (finite - mean[:, None]) ** 2).sum(axis=1)))
        for rows, mean in zip((p, e), means, strict=True)
    ]
    shift = abs(float(w @ (means[1] - means[0])))
    hurdle = -float(special.ndtri(tail)) * spreads[0] + NORMAL * spreads[1]
    return (hurdle / shift) ** 2 if shift > 1e-12 else math.inf


def pit_keys(setting: Setting, order: Order) -> Rows:
    """Mass (contexts, V) of the tokens before each in an order of the vocabulary."""
    keys = stats.order_key(order, setting.target, setting.draft)
    by = np.argsort(keys, axis=1, kind="stable")
    sorted_mass = np.take_along_axis(setting.target, by, axis=1)
    below = np.cumsum(sorted_mass, axis=1) - sorted_mass
    found = np.empty_like(below)
    np.put_along_axis(found, by, below, axis=1)
    return found


def ks_samples(setting: Setting, order: Order, level: float) -> float:
    """Tokens by the sup distance of the PITs' law from uniform."""
    keys = stats.order_key(order, setting.target, setting.draft)
    by = np.argsort(keys, axis=1, kind="stable")
    grid = np.linspace(0.0, 1.0, 4097)
    mean = np.zeros_like(grid)
    for c, weight in enumerate(setting.weights):
        p, e = (np.cumsum(rows[c][by[c]]) for rows in (setting.target, setting.emitted))
        mean += weight * np.interp(grid, np.append(0.0, p), np.append(0.0, e))
    distance = float(np.abs(mean - grid).max())
    reach = stats.PIT_BINS
    if distance <= 1.0 / reach:
        return math.inf
    return float(stats.ks_samples(distance, alpha=level, power=POWER))


def g2_samples(setting: Setting, level: float) -> float:
    """Tokens by the divergence of the whole table, all cells apart."""
    divergence = float(
        setting.weights @ special.rel_entr(setting.emitted, setting.target).sum(axis=1)
    )
    df = setting.target.size - len(setting.target)
    # stats.g2_samples takes a TV distance for which the noncentrality is 4 n TV^2 = 2 n KL.
    return float(stats.g2_samples(math.sqrt(divergence / 2.0), df, alpha=level, power=POWER))


def best(tests: Sequence[Any], count: int) -> list[Any]:
    """Return the ``count`` tests that need the fewest samples."""
    return sorted(tests, key=lambda test: test.samples)[:count]
