"""A kernel's first tokens where contexts are too many: each against its own two rows.

Named faults, the score bank, a third order of PITs and pairs of tokens need the whole rows of
every token; so they judge a number of tokens fixed beforehand, the first that the run emits,
whatever its size. The promise does not rest on them: that is the PITs' of all tokens.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.battery.by_position import feature_pairs, feature_scores
from simverify.battery.naming import BETA, Named
from simverify.comparing.kernels.kernel import Trial
from simverify.simulators.features import Features
from simverify.simulators.streamed import Rows, Sample, pits_and_ratios, sample_features

DESCENDING = "PIT in descending P order"
"""The test of the third order, by its name."""

_ROUNDING = 1e-9

_CELLS = 64
"""Cells of PITs, for how much of a deviation a fault explains."""


@dataclass(frozen=True, eq=False)
class Streamed:
    """The first tokens of a run and their ``features``.

    ``judged``: bool (n,), whether a token's slot judged a draft. ``calls``: likelihood ratios
    in the slots of single calls, which say what the rule is not. Those in ``features`` are of
    the same tokens but for a rule with state: no position of its generations is a slot of any
    call, so there the faults are directions in which tokens may leave the target.
    """

    tokens: Sample
    judged: npt.NDArray[np.bool_]
    features: Features
    calls: stats.RatioSums
    rows: Rows

    @classmethod
    def of(cls, trial: Trial, trials: int) -> "Streamed":
        """Run the first of ``trials`` trials again and keep their tokens."""
        rows = Rows.of(trial.model, trial.tables)
        tokens = trial.sample(trials)
        by_slot = trial.by_slot
        judged = tokens.positions < (trial.gamma if by_slot else trial.positions)
        found = calls = sample_features(tokens, rows, judged, trial.threads)
        if not by_slot:
            first = trial.sample_first_calls(trials)
            calls = sample_features(first, rows, first.positions < trial.gamma, trial.threads)
        return cls(tokens, judged, found, calls.ratios, rows)

    def tests(self, shares: dict[str, float]) -> tuple[stats.TestResult, ...]:
        """Test the tokens: ``shares`` of "ratios", "scores", "descending" and "pairs"."""
        found = self.features
        gate = stats.ratio_gate(found.ratios, alpha=shares["ratios"], name="named faults")
        descending = stats.pit_ks(found.pits[2], alpha=shares["descending"], name=DESCENDING)
        words = f"mean one-token TV of the first {found.n:,} tokens, monotone in descending P"
        return (
            gate.test, *feature_scores(found, shares["scores"]),
            replace(descending, deviation=words), *feature_pairs(found, shares["pairs"]),
        )  # fmt: skip

    def named(self, *, diagnose: bool) -> Named:
        """Say which faults the rule is not, and on ``diagnose`` which fits best."""
        result = stats.ratio_gate(self.calls, alpha=0.5, beta=BETA)
        # Ratios of 1, but for rounding: the fault emits nothing but the target in these slots.
        telling = (np.abs(self.calls.log_evalues) > _ROUNDING * self.calls.n).any(axis=1)
        told = {self.calls.names[m] for m in np.flatnonzero(telling)}
        best = result.best if diagnose and result.best.log_evalue > 0.0 else None
        return Named(
            refuted=result.refuted,
            not_refuted=tuple(fault for fault in result.not_refuted if fault in told),
            best=best,
            explains=0.0 if best is None else self._explained(best),
        )

    def _explained(self, best: stats.FaultAtStrength) -> float:
        """Part of the PITs' excess over chance, in all orders, that the fault's law takes away.

        Tokens of the mixture, each weighted by P over the mixture, follow P on average.
        """
        size = len(self.tokens.tokens)
        pits, ratios = pits_and_ratios(self.tokens, self.rows, self.judged)
        mixed = 1.0 - best.strength + best.strength * ratios[self.calls.names.index(best.fault)]
        with np.errstate(divide="ignore"):
            weights = 1.0 / mixed
        cells = np.minimum((pits * _CELLS).astype(np.int64), _CELLS - 1)

        def excess(weights: npt.NDArray[np.float64]) -> tuple[float, float]:
            due, total, noise = size / _CELLS, 0.0, 0.0
            for row in cells:
                variance = np.bincount(row, weights**2, _CELLS)
                total += ((np.bincount(row, weights, _CELLS) - due) ** 2 - variance).sum() / due
                # The orders may have all their noise in common.
                noise += np.sqrt(2.0 * (variance**2).sum()) / due
            return float(total), float(noise)

        whole, (left, noise) = excess(np.ones(size))[0], excess(weights)
        # What two standard deviations of chance make is not left unexplained.
        left = max(left - 2.0 * noise, 0.0)
        return max(0.0, 1.0 - left / whole) if whole > 0.0 else 0.0
