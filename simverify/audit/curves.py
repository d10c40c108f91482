"""The exact acceptance curve of a rule on a model, by the best method that reaches it."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simverify.models.base import MarkovModel, Model
from simverify.simulators.exact.bounds import tree_bounds
from simverify.simulators.exact.recursion import (
    kept_by_argmax,
    kept_by_match,
    kept_by_token,
    linear_curve,
)
from simverify.simulators.exact.rows import markov_rows
from simverify.simulators.exact.tree import MAX_LEAVES, grow
from simverify.simulators.run import RaoBlackwell, rao_blackwell
from simverify.stats import empirical_bernstein
from simverify.verifiers import Verifier

Floats = npt.NDArray[np.float64]
Method = Literal["enumeration", "closed-form", "dp", "rao-blackwell"]

MAX_PROGRAMME_CELLS = 1 << 20
"""Most row entries S V for which the certified dynamic programme is run."""

RAO_BLACKWELL_BLOCKS = 100_000
CONFIDENCE = 0.999

_LINEAR = {
    "token": kept_by_token,
    "match": kept_by_match,
    "temperature-0": kept_by_argmax,
}


@dataclass(frozen=True, eq=False)
class AcceptanceCurve:
    """Bounds on Pr(tau >= l), l = 1..gamma, of one call, and on E[tau], their sum.

    ``lower``, ``upper``: float64 (gamma,), equal where exact. ``expected_lower``,
    ``expected_upper``: the same for E[tau]. ``fraction``: E[tau] where it is rational.
    ``sample``: the Rao-Blackwell means behind statistical bounds, which then hold with
    probability ``CONFIDENCE``, each number alone.
    """

    method: Method
    lower: Floats
    upper: Floats
    expected_lower: float
    expected_upper: float
    fraction: Fraction | None = None
    sample: RaoBlackwell | None = None

    @property
    def middle(self) -> Floats:
        """Pr(tau >= l), l = 1..gamma, or the middle of its bounds."""
        return (self.lower + self.upper) / 2

    @property
    def expected(self) -> float:
        """E[tau], or the middle of its bounds."""
        return (self.expected_lower + self.expected_upper) / 2


def enumerable(model: Model, gamma: int) -> bool:
    """Whether every drafted block of ``model`` can be written out."""
    return isinstance(model, MarkovModel) and model.vocab_size**gamma <= MAX_LEAVES


def acceptance_curves(
    model: Model,
    verifiers: Mapping[str, Verifier],
    gamma: int,
    tables: Any,
    *,
    seed: int,
    threads: int,
) -> dict[str, AcceptanceCurve]:
    """Acceptance curve of each verifier, by name."""
    curves = {name: _curve(model, verifier, gamma) for name, verifier in verifiers.items()}
    if None in curves.values():
        samples = rao_blackwell(tables, gamma, RAO_BLACKWELL_BLOCKS, seed=seed, threads=threads)
        curves |= {
            name: _sampled(samples[name], gamma) for name, curve in curves.items() if curve is None
        }
    return {name: curve for name, curve in curves.items() if curve is not None}


def _curve(model: Model, verifier: Verifier, gamma: int) -> AcceptanceCurve | None:
    if not isinstance(model, MarkovModel):
        return None
    if enumerable(model, gamma):
        tree = grow(verifier, markov_rows(model), gamma)
        total = tree.expected_accepted
        values = np.clip(np.array(tree.curve, dtype=np.float64), 0, 1)
        fraction = total if isinstance(total, Fraction) else None
        return AcceptanceCurve("enumeration", values, values, float(total), float(total), fraction)
    if kept := _LINEAR.get(verifier.name):
        start = kept(model.target_start[None], model.draft_start[None])[0]
        # Rounding may leave a certain level an ulp above 1.
        values = linear_curve(start, kept(model.target_rows, model.draft_rows), gamma).clip(0, 1)
        return AcceptanceCurve(
            "closed-form", values, values, float(values.sum()), float(values.sum())
        )
    if model.target_rows.size <= MAX_PROGRAMME_CELLS:
        rule: Literal["block", "greedy"] = "block" if verifier.name == "block" else "greedy"
        bounds = tree_bounds(model, gamma, rule)
        return AcceptanceCurve(
            "dp",
            bounds.lower.clip(0, 1),
            bounds.upper.clip(0, 1),
            float(bounds.lower.sum()),
            float(bounds.upper.sum()),
        )
    return None


def _sampled(sample: RaoBlackwell, gamma: int) -> AcceptanceCurve:
    lower, upper = sample_bounds(sample, CONFIDENCE)
    low, high = empirical_bernstein(
        float(sample.mean[gamma]),
        float(sample.variance[gamma]),
        sample.blocks,
        low=0,
        high=gamma,
        confidence=CONFIDENCE,
    )
    return AcceptanceCurve("rao-blackwell", lower, upper, low, high, None, sample)


def sample_bounds(sample: RaoBlackwell, confidence: float) -> tuple[Floats, Floats]:
    """Bounds on Pr(tau >= l), l = 1..gamma; each holds with probability ``confidence``."""
    pairs = [
        empirical_bernstein(
            float(mean), float(variance), sample.blocks, low=0, high=1, confidence=confidence
        )
        for mean, variance in zip(sample.mean[:-1], sample.variance[:-1], strict=True)
    ]
    lower, upper = np.array(pairs).T
    return lower, upper
