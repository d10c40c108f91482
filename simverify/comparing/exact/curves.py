"""The exact acceptance curve of a rule on a model, by the best method that reaches it.

Where it is computed in floats, Pr(tau >= l) and E[tau] are enclosed so that rounding cannot make
them false.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from simverify.arrays import Floats
from simverify.comparing.exact.remembered import once
from simverify.errors import UsageError
from simverify.models.base import MarkovModel, Model
from simverify.models.ngram import NgramModel
from simverify.simulators.exact.bounds import tree_bounds
from simverify.simulators.exact.calls import shortened
from simverify.simulators.exact.recursion import certain_levels, linear_curve
from simverify.simulators.exact.rows import markov_rows
from simverify.simulators.exact.tree import MAX_LEAVES, grow
from simverify.simulators.rao_blackwell import RaoBlackwell, modes_curve, rao_blackwell
from simverify.stats import stratified_bernstein
from simverify.verifiers import Verifier
from simverify.verifiers.base import part

_ULP = 2.0**-53

_ROW_ROUNDINGS = 64
"""Per factor of a product of row entries: numpy adds a row up in pairs, which rounds some 30
times for up to a million tokens, then divides; a row of p and one of q meet in a minimum."""

_LEVEL_ROUNDINGS = 4
"""Per level: the products of a rule's closed form."""

_SUM_ROUNDINGS = 40
"""Once: the sum of up to 20,000 leaves, in pairs."""


def enclosed_fractions(values: Sequence[Any]) -> tuple[Floats, Floats]:
    """Round each fraction down and up to float64: two arrays, equal where it is a float."""
    down, up = [], []
    for value in values:
        nearest = float(value)
        down.append(nearest if nearest <= value else math.nextafter(nearest, -math.inf))
        up.append(nearest if nearest >= value else math.nextafter(nearest, math.inf))
    return np.array(down), np.array(up)


def enclosed_floats(
    values: Sequence[Any], *, certain: int, additions: int = 0
) -> tuple[Floats, Floats]:
    """Widen the levels of a float64 curve by what its sums may have lost, within [0, 1].

    All terms are positive, so relative errors only add up. Level l takes ``_ROW_ROUNDINGS +
    _LEVEL_ROUNDINGS + additions`` roundings for each of its l steps and ``_SUM_ROUNDINGS``
    once: 7e-14 in all at l = 8 with ``additions`` = 0, the sums taken in sequence in a step.
    The first ``certain`` levels lose nothing: they are 1 whatever they round to.
    """
    curve = np.array(values, dtype=np.float64)
    steps = np.arange(1, curve.size + 1)
    slack = (steps * (_ROW_ROUNDINGS + _LEVEL_ROUNDINGS + additions) + _SUM_ROUNDINGS) * _ULP
    upper = np.minimum(curve * (1 + slack), 1.0)
    lower = np.minimum(curve * (1 - slack), upper)
    lower[:certain] = upper[:certain] = 1.0
    return lower, upper


def enclosed_sum(
    lower: Floats, upper: Floats, total: Fraction | None = None
) -> tuple[float, float]:
    """Bounds on E[tau], the sum of the levels, which never exceeds their number."""
    if total is not None:
        down, up = enclosed_fractions([total])
        return float(down[0]), float(up[0])
    # fsum rounds once.
    down_to = math.nextafter(math.fsum(lower), 0.0) if (lower < 1).any() else float(lower.size)
    up_to = math.nextafter(math.fsum(upper), math.inf)
    return down_to, min(up_to, float(upper.size))


def printable(total: Any) -> Fraction | None:
    """Return ``total`` where it is a fraction short enough to print."""
    total = shortened(total)
    return total if isinstance(total, Fraction) else None


Method = Literal["enumeration", "closed-form", "dp", "rao-blackwell"]

FEWEST_STRATA = 1 << 16
"""Pairs of paths behind a Rao-Blackwell estimate, or a few more."""

CONFIDENCE = 0.999

MAX_TREE_VOCAB = 1024
"""Trees read a row for every token: (V+1, V) entries, 8 MB here and 3 GB at V = 20,000."""


@dataclass(frozen=True, eq=False)
class AcceptanceCurve:
    """Bounds on Pr(tau >= l), l = 1..gamma, of one call, and on E[tau], their sum.

    ``lower``, ``upper``: float64 (gamma,) in [0, 1]; certain, rounding included, so a few
    ulp apart even where the law is exact. ``expected_lower``, ``expected_upper``: the same
    for E[tau]. ``fraction``: E[tau] where it is rational. ``sample``: the Rao-Blackwell means
    behind statistical bounds, which then hold with probability ``CONFIDENCE``, each number
    alone.
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
        if self.fraction is not None:
            return float(self.fraction)
        return (self.expected_lower + self.expected_upper) / 2


def enumerable(model: Model, gamma: int) -> bool:
    """Whether every drafted block of ``model`` can be written out."""
    return (
        isinstance(model, MarkovModel)
        and model.vocab_size <= MAX_TREE_VOCAB
        and model.vocab_size**gamma <= MAX_LEAVES
    )


def acceptance_curves(
    model: Model,
    verifiers: Mapping[str, Verifier],
    gamma: int,
    *,
    seed: int,
    threads: int,
) -> dict[str, AcceptanceCurve]:
    """Acceptance curve of each verifier, by name.

    Raises ``TypeError`` for a model that is neither a Markov pair nor ``ngram``, and
    ``UsageError`` for a rule whose curve nobody can work out on the model.
    """
    if isinstance(model, MarkovModel):
        return {
            name: once(model, (verifier, gamma), partial(_markov, model, verifier, gamma, threads))
            for name, verifier in verifiers.items()
        }
    if not isinstance(model, NgramModel):
        raise TypeError(f"no exact law for {type(model).__name__}")
    rounds = -(-FEWEST_STRATA // len(model.contexts))
    samples = rao_blackwell(model, gamma, seed=seed, threads=threads, rounds=rounds)
    for verifier in verifiers.values():
        if not verifier.modes and verifier.name not in samples:
            raise UsageError(
                f"no acceptance of {verifier.name} is known on {model.name}: take a model whose "
                "rows follow from the last token, such as toy, compact or markov-V"
            )
    return {
        name: _modes(model, gamma)
        if verifier.modes
        else sampled_curve(samples[verifier.name], gamma)
        for name, verifier in verifiers.items()
    }


def _markov(model: MarkovModel, verifier: Verifier, gamma: int, threads: int) -> AcceptanceCurve:
    if enumerable(model, gamma):
        tree = grow(verifier, markov_rows(model), gamma)
        if model.rational:
            total = Fraction(tree.expected_accepted)
            bounds = enclosed_fractions(tree.curve)
            return AcceptanceCurve(
                "enumeration", *bounds, *enclosed_sum(*bounds, total), printable(total)
            )
        return _from_floats("enumeration", tree.curve, certain=tree.certain)
    if verifier.keeps_equals and _draft_is_target(model):
        return _from_floats("closed-form", np.ones(gamma), certain=gamma)
    if kept := part(verifier.kept):
        q_start, q_rows = model.draft_start, model.draft_rows
        start, rows = (
            kept(model.target_start[None], q_start[None])[0],
            kept(model.target_rows, q_rows),
        )
        return _from_floats(
            "closed-form",
            linear_curve(start, rows, gamma),
            certain=certain_levels(start, rows, q_start, q_rows, gamma),
            # A step adds up the tokens of a state, then the states.
            additions=model.states + model.vocab_size // model.states,
        )
    if verifier.bounds is None:
        raise UsageError(
            f"no acceptance of {verifier.name} is known on {model.name} with gamma {gamma}: it has "
            f"neither kept nor bounds, and more than {MAX_LEAVES:,} drafts to enumerate; take a "
            "smaller gamma or a smaller model"
        )
    enclosure = tree_bounds(model, gamma, verifier.bounds, threads=threads)
    lower, upper = enclosure.lower, enclosure.upper
    return AcceptanceCurve("dp", lower, upper, *enclosed_sum(lower, upper))


def _draft_is_target(model: MarkovModel) -> bool:
    return np.array_equal(model.target_start, model.draft_start) and np.array_equal(
        model.target_rows, model.draft_rows
    )


def _from_floats(
    method: Method, curve: Any, *, certain: int, additions: int = 0
) -> AcceptanceCurve:
    bounds = enclosed_floats(curve, certain=certain, additions=additions)
    return AcceptanceCurve(method, *bounds, *enclosed_sum(*bounds))


def _modes(model: NgramModel, gamma: int) -> AcceptanceCurve:
    # Contexts are added up in sequence.
    return _from_floats(
        "enumeration", modes_curve(model, gamma), certain=0, additions=len(model.contexts)
    )


def sampled_curve(sample: RaoBlackwell, gamma: int) -> AcceptanceCurve:
    """Return the curve of means over drawn blocks or trees, with bounds that are statistical."""
    lower, upper = sample_bounds(sample, 1.0 - CONFIDENCE)
    low, high = _interval(sample, gamma, gamma, 1.0 - CONFIDENCE)
    return AcceptanceCurve("rao-blackwell", lower, upper, low, high, None, sample)


def sample_bounds(sample: RaoBlackwell, error: float) -> tuple[Floats, Floats]:
    """Bounds on Pr(tau >= l), l = 1..gamma; each fails with probability ``error``."""
    gamma = len(sample.mean) - 1
    lower, upper = np.array([_interval(sample, level, 1, error) for level in range(gamma)]).T
    return lower, upper


def _interval(sample: RaoBlackwell, entry: int, most: float, error: float) -> tuple[float, float]:
    return stratified_bernstein(
        float(sample.mean[entry]),
        float(sample.variance[entry]),
        sample.strata,
        low=0,
        high=most,
        error=error,
    )
