"""What the probes and tiers of an audit come to: findings, notes, and one verdict."""

from simverify import results as doc
from simverify.auditing.comparison import TOLERANCE_BY_DTYPE, PrecisionCheck
from simverify.auditing.exact_tier import ExactTier, optimality_notes
from simverify.auditing.examiner import ExactResult
from simverify.auditing.invocation import make_finding
from simverify.auditing.probes import probe_findings
from simverify.auditing.sampled_tier import SampledAudit
from simverify.symbolic.engine import BY_SOURCE
from simverify.symbolic.equal_streams import drawn_equal_streams
from simverify.symbolic.streams import EQUAL_STREAMS, REUSED_BITS


def tier_notes(tier: ExactTier, sampled: SampledAudit | None, tolerance: float) -> list[str]:
    """What does not decide: how far from optimal, and what was left out."""
    notes = []
    if sampled is not None and sampled.hurried:
        notes.append(f"sampled: {sampled.hurried}")
    if line := getattr(tier.not_enumerable, "line", None):
        notes.append(f"asked when it broke: {line}")
    if tier.failure is None and (shared := equal_streams(tier)):
        notes.append(shared)
    if tier.unrepeated:
        notes.append(f"not counted: {tier.unrepeated}")
    found = (f for judged in tier.judged for f in judged.comparison.findings)
    notes += dict.fromkeys(f.message for f in found if f.kind in ("few-seeds", BY_SOURCE))
    if tier.failure is None:
        notes += optimality_notes(tier.judged, tolerance)
    if sampled is not None and sampled.tier.optimality and not sampled.tier.findings:
        notes.append(f"sampled: {sampled.tier.optimality}")
    for judged in tier.beyond:
        message = next(found.message for found in judged.comparison.findings)
        notes.append(
            f"not counted: on {judged.model.name} the code {message}: its own longest context, "
            "if that is what the number is"
        )
    if tier.skipped:
        count = f"{len(tier.skipped)} instances were" if tier.skipped[1:] else "1 instance was"
        large = f"; on the largest of them it {tier.too_large}" if tier.too_large else ""
        notes.append(
            f"{count} left out because the paths ran out; the first is {tier.skipped[0].name}: "
            f"raise --max-paths{large}"
        )
    return notes


def clock_stop(tier: ExactTier) -> doc.ClockStop | None:
    """How far the exact tier was when the clock stopped it, if it did.

    What was found by then is so on any machine, and so is the law on what was judged; how much
    that is, is not. So this stands beside every verdict.
    """
    if tier.aborted is None:
        return None
    count = len(tier.judged) + len(tier.skipped) + len(tier.late)
    first = tier.late[0].name
    return doc.ClockStop(tier.aborted, len(tier.judged), count, first)


def is_complete(tier: ExactTier) -> bool:
    """Whether the exact tier ran on the core of the instances, and met nothing it cannot follow.

    What else was left out, as paths or time ran out, is told and takes nothing back.
    """
    undecided = any(judged.undecided for judged in tier.judged)
    core_left_out = any(model.core for model in (*tier.skipped, *tier.late))
    return bool(tier.judged) and tier.not_enumerable is None and not undecided and not core_left_out


def needs_sampling(findings: list[doc.Finding], tier: ExactTier, batch: int | None) -> bool:
    """Whether the sampled tier decides: what was not enumerated, and rows of a batch together."""
    return not findings and (batch is not None or not is_complete(tier))


def exact_tier_limit(tier: ExactTier) -> str:
    """Why the exact tier is not enough."""
    if tier.not_enumerable is not None:
        return str(tier.not_enumerable)
    if tier.aborted is not None:
        of = len(tier.judged) + len(tier.skipped) + len(tier.late)
        return (
            f"the clock stopped it after {tier.aborted:g} s and {len(tier.judged)} of {of} "
            "instances, before those that a pass needs: raise --seconds"
        )
    if (doubtful := _doubtful(tier)) is not None:
        return f"on {doubtful.model.name} {doubtful.held.doubt}"
    if any(judged.undecided for judged in tier.judged):
        pruned = max(judged.comparison.pruned for judged in tier.judged)
        return f"branches of mass {pruned:.1e} could not be told from rounding"
    if tier.skipped:
        return f"more paths than the budget on {tier.skipped[0].name}: raise --max-paths"
    return "no instance could be run"


def inconclusive_reason(tier: ExactTier, sampled: SampledAudit | None) -> str:
    """Why there is no verdict."""
    if sampled is None or (sampled.verdict == "PASS" and _doubtful(tier) is not None):
        return exact_tier_limit(tier)
    return sampled.reason or "the promised power was not reached"


def _doubtful(tier: ExactTier) -> ExactResult | None:
    """Return the instance that deviates most by what may be rounding or a fault, if one does.

    Samples tell less: they pass a fault of that size.
    """
    doubtful = (judged for judged in tier.judged if judged.held.doubt)
    return max(doubtful, key=lambda x: x.comparison.max_abs_deviation, default=None)


def audit_findings(tier: ExactTier, probes: tuple[doc.Probe, ...]) -> list[doc.Finding]:
    """What fails the audit; the probes come first."""
    findings = probe_findings(probes)
    recorded = [f for judged in tier.failures for f in judged.comparison.findings]
    if tier.not_enumerable is not None:
        recorded += tier.not_enumerable.findings
    findings += [
        make_finding("contract", f"{f.kind}: {f.message}", f.kind)
        for f in recorded
        if f.severity == "violation"
    ]
    findings += [_deviation_finding(judged) for judged in tier.failures if judged.deviates]
    return list(dict.fromkeys(findings))


def equal_streams_findings(
    findings: list[doc.Finding], tier: ExactTier, sampled: SampledAudit | None
) -> list[doc.Finding]:
    """Return the finding that two generators yield the same numbers, where tokens are wrong."""
    wrong = tier.failure is not None and tier.failure.deviates
    wrong |= sampled is not None and sampled.verdict == "FAIL"
    wrong |= any("draws are used again" in finding.text for finding in findings)
    shared = equal_streams(tier) if wrong else ""
    text = f"{EQUAL_STREAMS}: {shared}"
    return [make_finding("contract", text, EQUAL_STREAMS)] if shared else []


def equal_streams(tier: ExactTier) -> str:
    """Which generators yield the same numbers, in words; "" if none are known to."""
    found = [f for judged in (*tier.failures, *tier.judged) for f in judged.comparison.findings]
    if tier.not_enumerable is not None:
        found += tier.not_enumerable.findings
    return next((f.message for f in found if f.kind == EQUAL_STREAMS), drawn_equal_streams())


def _deviation_finding(judged: ExactResult) -> doc.Finding:
    held = judged.held
    why = _tolerance_advice(held)
    if held.lifted:
        why = f", although computed in float64: no rounding of {held.dtype}"
    if judged.comparison.call is not None:
        return doc.Finding(
            kind="law",
            text=f"the tokens drafted on {judged.model.name} do not follow the distribution that "
            f"is reported with them: they are off by TV {judged.comparison.tv:.3g}{why}",
        )
    return doc.Finding(
        kind="law",
        text=f"the exact distribution on {judged.model.name} differs from the target's by TV "
        f"{judged.comparison.tv:.3g}{why}{_named_cause(judged)}",
    )


def _tolerance_advice(held: PrecisionCheck) -> str:
    """Say which tolerance accepts a deviation as small as float32's rounding, and what that costs.

    By default float32 has to be seen: to meet a draw, or to cause what is gone in float64.
    """
    single, gap = TOLERANCE_BY_DTYPE["float32"], held.comparison.max_abs_deviation
    if not held.tolerance < gap <= single:
        return ""
    return (
        f". It may be rounding, but the tolerance is {held.tolerance:g}, since nothing shows that "
        "float32 causes it: no draw meets a float32, and in float64 the deviation stays. If the "
        f"code rounds to float32, --tolerance {single:g} accepts this and any fault of that size"
    )


def _named_cause(judged: ExactResult) -> str:
    """Return what is known to have made draws depend on each other, or nothing."""
    findings = judged.comparison.findings
    return "".join(f": {found.message}" for found in findings if found.kind == REUSED_BITS)


def decide_verdict(
    findings: list[doc.Finding], tier: ExactTier, sampled: SampledAudit | None
) -> doc.Verdict:
    """PASS, FAIL or INCONCLUSIVE."""
    if findings or tier.failure is not None:
        return "FAIL"
    if sampled is not None and not (sampled.verdict == "PASS" and _doubtful(tier)):
        return sampled.verdict
    return "PASS" if is_complete(tier) else "INCONCLUSIVE"
