"""An audit in a child process: code that ends, kills or blocks its process is a finding."""

from collections.abc import Callable

from simverify import results
from simverify.audit.child import Died, in_child
from simverify.audit.documents import stamped
from simverify.audit.exact_tier import TOLERANCE
from simverify.audit.run import audit
from simverify.audit.settings import AuditSettings
from simverify.audit.spec import Contract, Subject
from simverify.errors import SimverifyError


def supervised_audit(
    load: Callable[[], Subject],
    contract: Contract | None,
    settings: AuditSettings,
    *,
    spec: str,
    reproduce: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> results.AuditRun:
    """As :func:`~simverify.audit.run.audit` of what ``load`` returns, in a child process.

    A child that dies is a FAIL that says how and where. Raises ``SimverifyError`` if it dies
    while ``load`` runs, and as ``load`` and the audit do.
    """
    say = progress or (lambda _line: None)
    stamp = stamped()

    def work(told: Callable[[str], None]) -> results.AuditRun:
        subject = load()
        return audit(subject, contract, settings, reproduce=reproduce, progress=told)

    run: results.AuditRun | Died = in_child(work, say)
    if not isinstance(run, Died):
        return run
    if not run.place:
        raise SimverifyError(f"{spec} fails to load: {run.how}")
    return crash_document(run, spec, contract or "verify", settings, stamp())


def crash_document(
    died: Died, spec: str, contract: Contract, settings: AuditSettings, meta: results.Meta
) -> results.AuditRun:
    """Return the FAIL of code that took the process of its audit down."""
    kind = "hangs" if died.hung else "ends the process"
    return results.AuditRun(
        schema_version=results.SCHEMA_VERSION,
        spec=spec,
        contract=contract,
        seed=settings.seed,
        gamma=settings.gamma,
        vocab_size=settings.vocab_size,
        tolerance=settings.tolerance or TOLERANCE["float64"],
        verdict="FAIL",
        tier="exact",
        paths=0,
        instances=(),
        not_enumerable=None,
        inconclusive=None,
        sampled=None,
        counterexample=None,
        localisation=None,
        diagnosis=(),
        refuted=(),
        probes=(),
        findings=(f"{kind}: {died.how}, in {died.place}",),
        notes=(),
        reproduce=settings.command(spec, contract),
        meta=meta,
    )
