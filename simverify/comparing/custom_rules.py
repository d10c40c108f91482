"""A user's rule in a comparison: its row by its exact law where that can be had, else by calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simverify import results as doc
from simverify import stats
from simverify.arrays import Ints
from simverify.battery.battery import (
    TestReport,
    certificate_document,
    certify_output,
    faults_document,
    finite_or_none,
    judge_output,
    output_tokens,
    suspect_document,
    test_document,
)
from simverify.comparing.curves import CONFIDENCE
from simverify.comparing.documents import measured_mean
from simverify.comparing.sampled import NOT_JUDGED_DEVIATION
from simverify.errors import UsageError
from simverify.models import Model
from simverify.simulators.decoding.loop import RuleCalls

NO_DECLARED_RULE = "no declared rule to hold it against"

USER_RULE_DETECT = 0.04
"""Deviation that is to be found of code that is called, which is too slow for a kernel's .01."""

MIN_CALLS = 5_000
"""So that the mean of tau has an interval of some hundredths."""

_DELTA = 1e-3

RuleCaller = Callable[[Model, int, int], RuleCalls]
"""``call_on(model, calls, tokens)``: what so many calls on a model left behind."""


@dataclass(frozen=True)
class UserRule:
    """Someone's own rule by its ``name``, a SPEC as an audit takes it, under ``contract``."""

    name: str
    contract: Literal["verify", "step", "tree"]
    call_on: RuleCaller


def judge_user_rule(
    rule: UserRule,
    model: Model,
    optimum: doc.Optimum,
    *,
    gamma: int,
    blocks: int | None,
    alpha: float,
    detect: float,
    speedup: Callable[[float], doc.Speedup],
) -> tuple[doc.CompareResult, float]:
    """Judge and measure ``rule`` on ``model``; returns its row and its calls per second.

    ``optimum``: of rules of its kind. ``blocks``: how many calls are counted, and tokens judged;
    None: as many tokens as find a deviation of ``detect``, and so many calls as emit them at
    least, ``MIN_CALLS`` or more. ``speedup``: what the latency model makes of E[tau].

    Raises ``UsageError`` for a rule that accepts more than ``gamma`` tokens.
    """
    tokens = output_tokens(detect, alpha) if blocks is None else blocks
    calls = max(-(-tokens // (gamma + 1)), MIN_CALLS) if blocks is None else blocks
    run = rule.call_on(model, calls, tokens)
    if len(run.accepted) > gamma + 1:
        raise UsageError(
            f"{rule.name} accepts {len(run.accepted) - 1} draft tokens in a call on "
            f"{model.name}: expected at most gamma, {gamma}; raise --gamma, or audit it by itself"
        )
    lossless = _lossless_document(run, alpha, detect)
    tau = _measured_tau_document(run.accepted)
    accepted = tau.mean if run.exact is None else run.exact.accepted
    best = optimum.expected_accepted
    row = doc.CompareResult(
        model=model.name,
        verifier=rule.name,
        gamma=gamma,
        vocab_size=model.vocab_size,
        verdict=lossless.verdict,
        expected_accepted=_expected_document(run, tau, gamma),
        measured=tau,
        block_efficiency=accepted + 1,
        optimum=optimum,
        optimality=accepted / best if best > 0 else 1.0,
        lossless=lossless,
        acceptance=doc.Acceptance(
            verdict="PASS",
            words=NO_DECLARED_RULE,
            tests=(),
            detectable=0.0,
            deviation=NOT_JUDGED_DEVIATION,
            findings=(),
        ),
        acceptance_ccdf=_curve_document(run.accepted),
        speedup=speedup(accepted),
        calls=(),
    )
    return row, int(run.accepted.sum()) / max(run.seconds, 1e-9)


def _lossless_document(found: RuleCalls, alpha: float, detect: float) -> doc.Lossless:
    """Return the verdict: of the exact law where there is one, and of the tokens in any case.

    A law says nothing of what code keeps from call to call; so the promise is that of the tokens.
    """
    judged = None if found.features is None else judge_output(found.features, alpha)
    findings = [*found.findings, *(judged.findings if judged else ())]
    exact = found.exact
    if exact is not None and exact.deviates:
        findings.insert(0, f"the rule's own law differs from the target's by TV {exact.tv:.3g}")
    detectable = None if judged is None else finite_or_none(judged.detectable)
    verdict: doc.Verdict = "PASS"
    if findings:
        verdict = "FAIL"
    elif detectable is None or detectable > detect:
        verdict = "INCONCLUSIVE"
    return doc.Lossless(
        verdict=verdict,
        tier="output" if exact is None else "exact",
        max_abs_deviation=None if exact is None else exact.max_abs_deviation,
        tv=None if exact is None else exact.tv,
        exact=None
        if exact is None
        else doc.ExactCheck(
            method="paths",
            arithmetic="float64",
            scope=f"{exact.scope}, tolerance {exact.tolerance:g}",
            max_abs_deviation=exact.max_abs_deviation,
            tv=exact.tv,
        ),
        tests=() if judged is None else tuple(test_document(test) for test in judged.tests),
        detectable=detectable,
        deviation=doc.ANY_DEVIATION if judged is None else judged.deviation,
        beside=(),
        certificate=_user_rule_certificate(found, judged) if verdict == "PASS" else None,
        faults=None if judged is None else faults_document(judged.named),
        localisation=None if judged is None else suspect_document(judged.located),
        findings=tuple(findings),
    )


def _user_rule_certificate(found: RuleCalls, judged: TestReport | None) -> doc.Certificate | None:
    if judged is None or found.features is None:
        return None
    return certificate_document(certify_output(found.features, _DELTA))


def _expected_document(found: RuleCalls, tau: doc.Measured, gamma: int) -> doc.Expected:
    if found.exact is None:
        return doc.Expected(
            exact=None,
            fraction=None,
            lower=tau.ci_low,
            upper=tau.ci_high,
            method="measured",
            confidence=CONFIDENCE,
        )
    middle, off = found.exact.accepted, found.exact.uncertain
    return doc.Expected(
        exact=middle,
        fraction=None,
        lower=max(middle - off, 0.0),
        upper=min(middle + off, float(gamma)),
        method="enumeration",
    )


def _measured_tau_document(accepted: Ints) -> doc.Measured:
    """Mean of tau with its interval; no calls at all leave it anywhere."""
    n, most = int(accepted.sum()), len(accepted) - 1
    if n == 0:
        return doc.Measured(
            mean=0.0, ci_low=0.0, ci_high=float(most), confidence=CONFIDENCE, blocks=0
        )
    values = np.arange(most + 1)
    return measured_mean(int(accepted @ values), int(accepted @ values**2), n, low=0, high=most)


def _curve_document(accepted: Ints) -> doc.Curve:
    """Pr(tau >= l) by frequencies, each with an interval of its own."""
    n = int(accepted.sum())
    tails = np.cumsum(accepted[::-1])[::-1][1:]
    low, high = np.zeros(len(tails)), np.ones(len(tails))
    if n:
        low, high = stats.rate_interval(tails, n, error=1.0 - CONFIDENCE)
    return doc.Curve(
        exact=None,
        lower=tuple(low.tolist()),
        upper=tuple(high.tolist()),
        measured=tuple((tails / max(n, 1)).tolist()),
    )
