"""A user's rule in a comparison: its row by its exact law where that is known, else by calls."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from simverify import results as doc
from simverify.battery.battery import TestReport, certify_output, judge_output, output_tokens
from simverify.comparing import documents
from simverify.comparing.sampled import NOT_JUDGED
from simverify.errors import UsageError
from simverify.models import Model
from simverify.simulators.decoding.loop import RuleCalls

NO_DECLARED_RULE = "no declared rule to hold it against"

USER_RULE_DETECT = 0.04
"""Deviation to find in code that is called, which is too slow for a kernel's .01."""

MIN_CALLS = 5_000  # so that the mean of tau has an interval of some hundredths

CERTIFICATE_DELTA = 1e-3

RuleCaller = Callable[[Model, int, int], RuleCalls]
"""``call_on(model, calls, tokens)``: makes calls on a model and returns their record."""


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
    settings: documents.ComparisonSettings,
    speedup: Callable[[float], doc.Speedup],
) -> tuple[doc.CompareResult, float]:
    """Judge and measure ``rule`` on ``model``; returns its row and its calls per second.

    ``optimum``: of rules of its kind. Without ``settings.blocks`` as many tokens are judged as find
    a deviation of ``detect``, and at least the calls that emit them are counted, ``MIN_CALLS`` or
    more. ``speedup``: the latency model of E[tau].

    Raises ``UsageError`` for a rule that accepts more than ``gamma`` tokens.
    """
    gamma, blocks, alpha, detect = settings.gamma, settings.blocks, settings.alpha, settings.detect
    tokens = output_tokens(detect, alpha) if blocks is None else blocks
    calls = max(-(-tokens // (gamma + 1)), MIN_CALLS) if blocks is None else blocks
    run = rule.call_on(model, calls, tokens)
    if len(run.accepted) > gamma + 1:
        raise UsageError(
            f"{rule.name} accepts {len(run.accepted) - 1} draft tokens in a call on "
            f"{model.name}: expected at most gamma, {gamma}; raise --gamma, or audit it by itself"
        )
    tau, exact = documents.measured_tau(run.accepted), run.exact
    if exact is None:
        accepted = tau.mean
        expected = documents.interval_document(tau.ci_low, tau.ci_high, "measured")
    else:
        accepted, off = exact.accepted, exact.uncertain
        low, high = max(accepted - off, 0.0), min(accepted + off, float(gamma))
        expected = doc.Expected(accepted, None, low, high, "enumeration")
    row = documents.result_document(
        model,
        rule.name,
        gamma,
        _lossless_document(run, alpha, detect),
        documents.acceptance_document(NOT_JUDGED, detect, NO_DECLARED_RULE),
        optimum,
        accepted,
        expected_accepted=expected,
        measured=tau,
        acceptance_ccdf=documents.curve_document(run.accepted),
        speedup=speedup(accepted),
    )
    return row, int(run.accepted.sum()) / max(run.seconds, 1e-9)


def _lossless_document(run: RuleCalls, alpha: float, detect: float) -> doc.Lossless:
    """Return the verdict: of the exact law where there is one, and of the tokens in any case.

    A law does not see what code keeps from call to call, so the promise is that of the tokens.
    """
    features, exact = run.features, run.exact
    if features is None:
        report = TestReport((), run.findings, math.inf, doc.ANY_DEVIATION)
    else:
        report = judge_output(features, alpha)
        report = replace(report, findings=(*run.findings, *report.findings))
    law, wrong_law = None, None
    if exact is not None:
        scope = f"{exact.scope}, tolerance {exact.tolerance:g}"
        law = doc.ExactCheck("paths", "float64", scope, exact.max_abs_deviation, exact.tv)
        if exact.deviates:
            wrong_law = (
                f"the rule's exact distribution differs from the target's by TV {exact.tv:.3g}"
            )
    return documents.lossless_document(
        report,
        detect,
        "output" if exact is None else "exact",
        exact=law,
        wrong_law=wrong_law,
        certificate=None
        if features is None
        else lambda: certify_output(features, CERTIFICATE_DELTA),
    )
