"""What a comparison says of one verifier on real models, from what its run kept."""

import numpy as np

from simverify import results as doc
from simverify import stats
from simverify.battery.by_position import certify_output, judge_output
from simverify.battery.judgement import (
    certificate_document,
    faults_document,
    finite,
    suspect_document,
    test_document,
)
from simverify.battery.shares import output_shares
from simverify.simulators.decoding.emitted import Decoded
from simverify.simulators.decoding.expected import RULES, Interval
from simverify.simulators.features import Features
from simverify.simulators.latency import predicted_speedup
from simverify.verifiers import Verifier

CONFIDENCE = 0.999
POWER = 0.9
DETECT = 0.04
"""Deviation that a run on real models is to find: they are too slow for a simulation's .01."""

_DELTA = 1e-3
REFUTED = float(np.log(1.0 / (1.0 - POWER)))
WORDS: dict[doc.Verdict, str] = {
    "PASS": "accepts as the declared rule does",
    "FAIL": "not the declared rule",
    "INCONCLUSIVE": "too few blocks to tell it from other rules",
}


def pair_row(
    model: str,
    vocab_size: int,
    rule: Verifier,
    seen: Decoded,
    *,
    share: float,
    detect: float,
    cost_ratio: float,
    baseline: Decoded | None,
) -> doc.CompareResult:
    """Judge one verifier's tokens and acceptance at level ``share``.

    ``baseline``: the run of the token rule, on whose blocks the rules are paired.
    """
    gamma = seen.gamma
    lossless = lossless_of_tokens(seen.features, share, detect)
    acceptance = _acceptance(seen, output_shares(share)["acceptance"], detect)
    expected = expected_accepted(seen, rule.name)
    coupling = rule.contract == "step"
    optimum = _worth(seen, "greedy" if coupling else "block").mean
    tau = seen.worth.interval(_picked(gamma, None), CONFIDENCE)
    curve = [
        seen.worth.interval(_picked(gamma, rule.name, level), CONFIDENCE) for level in range(gamma)
    ]
    # The debt of a rule with state is paid in later calls, so its whole generation counts.
    kept = tau.mean if coupling else _worth(seen, rule.name).mean
    return doc.CompareResult(
        model=model,
        verifier=rule.name,
        gamma=gamma,
        vocab_size=vocab_size,
        verdict=doc.overall([lossless.verdict, acceptance.verdict]),
        expected_accepted=expected,
        measured=doc.Measured(
            mean=tau.mean, ci_low=max(tau.low, 0.0), ci_high=min(tau.high, gamma),
            confidence=CONFIDENCE, blocks=seen.worth.blocks,
        ),
        block_efficiency=kept + 1.0,
        optimum=doc.Optimum(name="coupling" if coupling else "block", expected_accepted=optimum),
        optimality=_worth(seen, rule.name).mean / optimum if optimum > 0 else 1.0,
        lossless=lossless,
        acceptance=acceptance,
        acceptance_ccdf=doc.Curve(
            exact=None,
            lower=tuple(max(level.low, 0.0) for level in curve),
            upper=tuple(min(level.high, 1.0) for level in curve),
            measured=tuple((seen.tails / seen.worth.blocks).tolist()),
        ),
        speedup=doc.Speedup(
            cost_ratio=cost_ratio, predicted=predicted_speedup(kept, gamma, cost_ratio)
        ),
        calls=(),
        paired=None if baseline is None or rule.name == "token" else _paired(baseline, rule),
    )  # fmt: skip


def lossless_of_tokens(found: Features, share: float, detect: float) -> doc.Lossless:
    """Judge emitted tokens, each against its own target row, at level ``share``."""
    judged = judge_output(found, share)
    verdict = judged.verdict(detect)
    bound = certificate_document(certify_output(found, _DELTA)) if verdict == "PASS" else None
    return doc.Lossless(
        verdict=verdict,
        tier="output",
        max_abs_deviation=None,
        tv=None,
        exact=None,
        tests=tuple(test_document(test) for test in judged.tests),
        detectable=finite(judged.detectable),
        deviation=judged.deviation,
        beside=(),
        certificate=bound,
        faults=faults_document(judged.named),
        localisation=suspect_document(judged.located),
        findings=judged.findings,
    )


def _acceptance(seen: Decoded, alpha: float, detect: float) -> doc.Acceptance:
    """Test the tau of every block against its law, which coins alone leave open."""
    values, laws = np.arange(seen.gamma + 1), seen.laws
    sums = stats.score_sums_of_contexts(
        (values == seen.taus[:, None]).astype(np.int64),
        laws / laws.sum(axis=1, keepdims=True),
        np.broadcast_to(values.astype(np.float64), laws.shape),
    )
    test = stats.score_test(sums, alpha=alpha, name="accepted tokens of a first call")
    each = test.min_detectable / seen.gamma
    if sums.variance == 0.0:
        # No coin decides, as at temperature 0: one call that is off shows it.
        each = REFUTED / test.n
    findings = []
    if wrong := int((laws[np.arange(test.n), seen.taus] == 0.0).sum()):
        findings.append(f"accepts what its rule cannot accept, in {wrong:,} of {test.n:,} blocks")
    if test.rejected:
        way = "more" if test.statistic > 0.0 else "fewer"
        findings.append(
            f"accepts {abs(test.statistic):.3g} tokens a call {way} than its rule would, on "
            f"{test.n:,} blocks"
        )
    verdict: doc.Verdict = "FAIL" if findings else "PASS" if each <= detect else "INCONCLUSIVE"
    return doc.Acceptance(
        verdict=verdict,
        words=WORDS[verdict],
        tests=(test_document(test),),
        detectable=finite(each),
        deviation="shift of E[tau] / gamma",
        findings=tuple(findings),
    )


def _picked(gamma: int, rule: str | None, level: int | None = None) -> list[float]:
    """Weights of what :class:`Emitted` keeps: a rule's curve, one level of it, or tau (None)."""
    weights = np.zeros(len(RULES) * gamma + 1)
    if rule is None:
        weights[-1] = 1.0
        return weights.tolist()
    first = RULES.index(rule) * gamma
    weights[first : first + gamma] = 1.0
    if level is not None:
        weights[first : first + gamma] = np.arange(gamma) == level
    return weights.tolist()


def _worth(seen: Decoded, rule: str) -> Interval:
    """E[tau] of a rule on the blocks of a run."""
    return seen.worth.interval(_picked(seen.gamma, rule), CONFIDENCE)


def _paired(baseline: Decoded, rule: Verifier) -> doc.Paired:
    weights = np.subtract(_picked(baseline.gamma, rule.name), _picked(baseline.gamma, "token"))
    found = baseline.worth.interval(weights, CONFIDENCE)
    return doc.Paired(
        baseline="token", difference=found.mean, ci_low=found.low, ci_high=found.high,
        confidence=CONFIDENCE, blocks=baseline.worth.blocks,
    )  # fmt: skip


def expected_accepted(seen: Decoded, rule: str) -> doc.Expected:
    """Return the document's entry of E[tau] of ``rule`` on the blocks of a run."""
    found = _worth(seen, rule)
    return doc.Expected(
        exact=None, fraction=None, lower=max(found.low, 0.0), upper=min(found.high, seen.gamma),
        method="rao-blackwell", confidence=CONFIDENCE,
    )  # fmt: skip
