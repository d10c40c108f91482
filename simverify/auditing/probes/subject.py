"""The edge probes of a subject: what comes before every tier of an audit."""

import inspect
from collections.abc import Sequence

from msgspec.structs import replace

from simverify.auditing.probes import run_probes
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject
from simverify.errors import UsageError
from simverify.results import Finding, Probe


def probes_of(
    whole: Subject, subject: Subject, contract: Contract, settings: AuditSettings
) -> tuple[Probe, ...]:
    """Probe ``subject``, which of batched code is one row of ``whole``.

    Raises ``UsageError`` if the code cannot be called under the contract at all.
    """
    if subject.coin_bits is not None:
        message = "the code takes its coins as arguments: no random source to force"
        return (Probe(name="edges", outcome="not run", message=message),)
    if contract == "verify":
        _signature_iv(subject)
    fatal = ("violation", "warning") if settings.strict_probes else ("violation",)
    try:
        probes = run_probes(
            subject.rule,
            contract,
            eos=settings.eos,
            batched=whole.rule if settings.batch else None,
            rows=settings.batch,
        )
    except ValueError as error:
        raise UsageError(f"{subject.name}: {error}") from None
    return tuple(replace(probe, failed=probe.outcome in fatal) for probe in probes)


def probe_findings(probes: Sequence[Probe]) -> list[Finding]:
    """What the probes that failed the audit found."""
    return [
        Finding(kind="probe", text=f"probe {probe.name}: {probe.message}")
        for probe in probes
        if probe.failed
    ]


def _signature_iv(subject: Subject) -> None:
    """Refuse code that cannot take the four arguments of ``verify``."""
    try:
        signature = inspect.signature(subject.rule)
    except (TypeError, ValueError):
        return
    if not _takes(signature, 4):
        hint = "; it looks like a step rule: --contract step" if _takes(signature, 5) else ""
        raise UsageError(
            f"{subject.name}{signature} cannot be called as verify(target_probs, draft_probs, "
            f"draft_tokens, rng){hint}"
        )


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
