"""A run with one false-alarm rate and a stated power, planned before its first sample.

Plain data in, a verdict out: the caller draws samples and computes tests, the plan says at
what level, and :meth:`SequentialRun.decide` reads what came. Tests of a fixed size are asked
at the plan's looks, at their share of alpha there; e-processes at any time, at their whole
share.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from simverify.stats._checks import open_unit, positive_float, positive_int
from simverify.stats.planning.budget import split_alpha
from simverify.stats.planning.looks import plan_looks

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE", "CONTINUE"]


@dataclass(frozen=True, kw_only=True)
class RunLook:
    """What one look of a run may spend.

    ``alphas`` are the levels of the fixed tests at ``samples``; ``delta`` the error rate of
    the certificates shown if the run passes here, to be split over the bounds of which the
    best is shown.
    """

    samples: int
    alphas: Mapping[str, float]
    delta: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was seen after ``samples`` samples.

    Attributes
    ----------
    samples : int
        Samples so far.
    log_pvalues : mapping of str to float
        Fixed tests, by name; none of them between looks.
    log_evalues : mapping of str to float
        E-processes, by name.
    refuted : frozenset of str
        Declared deviations refuted at the run's beta so far, each by an e-value against it
        or, for a TV distance, by a certificate below it.
    violation : str
        What was seen that the null hypothesis excludes, "" if nothing.
    """

    samples: int
    log_pvalues: Mapping[str, float] = field(default_factory=dict)
    log_evalues: Mapping[str, float] = field(default_factory=dict)
    refuted: frozenset[str] = frozenset()
    violation: str = ""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Where a run stands: its verdict, why, and which declared deviations are refuted."""

    verdict: Verdict
    reasons: tuple[str, ...]
    refuted: tuple[str, ...]
    open: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SequentialRun:
    """The plan of a run.

    A right verifier fails with probability ``alpha`` at most. The run passes if nothing was
    rejected and every declared deviation is refuted, at ``beta`` or by reaching the samples
    that find it with ``power``; without that it ends inconclusive.

    Attributes
    ----------
    samples : int
        Planned size of the run.
    alpha : float
        False-alarm rate of the whole run.
    fixed, anytime : mapping of str to float
        Weights of the tests of fixed size and of the e-processes; alpha is split over all of
        them in proportion.
    declared : mapping of str to float
        Samples after which each declared deviation is found with ``power``; inf for one that
        can only be refuted.
    power, beta, delta : float
        Promised power, error rate of a refutation, and of the certificates.

    Raises
    ------
    ValueError
        If samples < 1, a rate is outside (0, 1), there is no test, a test is both fixed and
        at any time, a weight or a number of samples is not positive, or nothing is declared.
    """

    samples: int
    alpha: float = 1e-6
    fixed: Mapping[str, float] = field(default_factory=dict)
    anytime: Mapping[str, float] = field(default_factory=dict)
    declared: Mapping[str, float]
    power: float = 0.9
    beta: float = 1e-3
    delta: float = 1e-3

    def __post_init__(self) -> None:
        positive_int("samples", self.samples)
        for name in ("alpha", "power", "beta", "delta"):
            open_unit(name, getattr(self, name))
        both = sorted(set(self.fixed) & set(self.anytime))
        if both:
            raise ValueError(f"tests {both} are both fixed and at any time, expected one of them")
        if not self.declared:
            raise ValueError("declared is empty, expected the deviations that a pass rules out")
        for name, needed in self.declared.items():
            if needed != math.inf:
                positive_float(f"samples of {name!r}", needed)
        split_alpha(self.alpha, self._weights)

    @property
    def _weights(self) -> dict[str, float]:
        return {**self.fixed, **self.anytime}

    @property
    def shares(self) -> dict[str, float]:
        """Share of alpha of every test, all of its looks together."""
        return split_alpha(self.alpha, self._weights)

    @property
    def looks(self) -> tuple[RunLook, ...]:
        """The looks, in order; the last one is at the planned end."""
        shares = self.shares
        alphas = {name: plan_looks(self.samples, alpha=shares[name]) for name in self.fixed}
        return tuple(
            RunLook(
                samples=look.samples,
                alphas={name: looks[i].alpha for name, looks in alphas.items()},
                delta=look.alpha,
            )
            for i, look in enumerate(plan_looks(self.samples, alpha=self.delta))
        )

    @property
    def unpowered(self) -> tuple[str, ...]:
        """Declared deviations that the planned end alone does not rule out."""
        return tuple(name for name, needed in self.declared.items() if needed > self.samples)

    def describe(self) -> str:
        """Say the plan in words, to be printed before the first sample."""
        looks = ", ".join(f"{look.samples:,}" for look in self.looks)
        lines = [
            f"{self.samples:,} samples, looks at {looks}",
            f"a right verifier fails with probability {self.alpha:g} at most; shares: "
            + ", ".join(f"{name} {share:.2g}" for name, share in self.shares.items()),
            *(f"stops at any time: {name}" for name in self.anytime),
            *(
                f"{name}: found with probability {self.power:g} by {math.ceil(needed):,} samples"
                for name, needed in self.declared.items()
                if needed <= self.samples
            ),
            *(
                f"{name}: no power promised; passes only if refuted at {self.beta:g}"
                for name in self.unpowered
            ),
            f"certificates shown with a pass are false with probability {self.delta:g} at most",
        ]
        return "\n".join(lines)

    def decide(self, evidence: Sequence[Evidence], *, ended: bool = False) -> Decision:
        """Read all evidence so far, in order.

        Parameters
        ----------
        evidence : sequence of Evidence
        ended : bool
            Whether no more samples will come.

        Raises
        ------
        ValueError
            If samples do not rise or exceed the plan, a test is not in the plan, or a fixed
            test was asked between looks or is missing at one.
        """
        self._evidence_iv(evidence)
        seen = evidence[-1].samples if evidence else 0
        refuted = frozenset().union(*(e.refuted for e in evidence))
        rejections = tuple(reason for e in evidence for reason in self._rejections(e))
        still_open = tuple(name for name in self.declared if name not in refuted)
        full = seen == self.samples
        missing = tuple(n for n in still_open if not (full and self.declared[n] <= self.samples))
        at_look = any(look.samples == seen for look in self.looks)
        verdict: Verdict
        if rejections:
            verdict, reasons = "FAIL", rejections
        elif at_look and not missing:
            verdict, reasons = "PASS", ("no rejection; every declared deviation is ruled out",)
        elif not (ended or full):
            verdict, reasons = "CONTINUE", (f"{seen:,} of {self.samples:,} samples",)
        elif missing:
            verdict = "INCONCLUSIVE"
            reasons = tuple(f"{name} is not ruled out by {seen:,} samples" for name in missing)
        else:
            # The fixed tests have not seen the last samples.
            verdict, reasons = "INCONCLUSIVE", (f"ended at {seen:,} samples, between looks",)
        return Decision(
            verdict=verdict,
            reasons=reasons,
            refuted=tuple(name for name in self.declared if name in refuted),
            open=still_open,
        )

    def _rejections(self, evidence: Evidence) -> list[str]:
        at = f"after {evidence.samples:,} samples"
        found = [f"{evidence.violation} {at}"] if evidence.violation else []
        levels = self._alphas_at(evidence.samples)
        found += [
            f"{name}: ln p = {log_p:.4g} {at}, level {levels[name]:.3g}"
            for name, log_p in evidence.log_pvalues.items()
            if log_p < math.log(levels[name])
        ]
        shares = self.shares
        found += [
            f"{name}: ln e = {log_e:.4g} {at}, level {shares[name]:.3g}"
            for name, log_e in evidence.log_evalues.items()
            if log_e >= -math.log(shares[name])
        ]
        return found

    def _alphas_at(self, samples: int) -> Mapping[str, float]:
        return next((look.alphas for look in self.looks if look.samples == samples), {})

    def _evidence_iv(self, evidence: Sequence[Evidence]) -> None:
        last = 0
        for entry in evidence:
            if not last < entry.samples <= self.samples:
                raise ValueError(
                    f"evidence after {entry.samples} samples, expected more than {last} and at "
                    f"most the planned {self.samples}"
                )
            last = entry.samples
            asked, planned = set(entry.log_pvalues), set(self._alphas_at(entry.samples))
            if asked != planned:
                raise ValueError(
                    f"fixed tests after {entry.samples} samples are {sorted(asked)}, expected "
                    f"{sorted(planned)} (looks at {[look.samples for look in self.looks]})"
                )
            unknown = set(entry.log_evalues) - set(self.anytime)
            if unknown or entry.refuted - set(self.declared):
                raise ValueError(
                    f"evidence names {sorted(unknown | (entry.refuted - set(self.declared)))}, "
                    f"expected e-processes {sorted(self.anytime)} and deviations "
                    f"{sorted(self.declared)}"
                )
            values = [*entry.log_pvalues.values(), *entry.log_evalues.values()]
            if any(math.isnan(value) for value in values):
                raise ValueError(f"evidence after {entry.samples} samples holds a NaN")
