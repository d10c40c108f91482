"""From what a test returned to what the result document says of it."""

import math
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

from simverify import results, stats
from simverify.battery.localise import Located
from simverify.battery.naming import BETA, Named


def test_document(test: stats.TestResult) -> results.Test:
    """Return the document's entry of ``test``."""
    return results.Test(
        name=test.name,
        statistic=test.statistic,
        log_pvalue=finite(test.log_pvalue),
        alpha=test.alpha,
        n=test.n,
        df=test.df,
        method=test.method,
        min_detectable=finite(test.min_detectable),
        deviation=test.deviation,
        rejected=test.rejected,
    )


def certificate_document(certificate: stats.Certificate) -> results.Certificate:
    """Return the document's entry of ``certificate``."""
    return results.Certificate(
        bound=certificate.bound,
        delta=certificate.delta,
        method=certificate.method,
        assumption=certificate.assumption,
    )


def faults_document(named: Named | None) -> results.NamedFaults | None:
    """Return the document's entry of what the tokens say of the catalogue."""
    if named is None:
        return None
    return results.NamedFaults(
        refuted=tuple(_at_strength(fault) for fault in named.refuted),
        not_refuted=named.not_refuted,
        beta=BETA,
        best=None if named.best is None else _at_strength(named.best),
        explains=None if named.best is None else named.explains,
    )


def _at_strength(fault: stats.FaultAtStrength) -> results.FaultAtStrength:
    return results.FaultAtStrength(
        fault=fault.fault, strength=fault.strength, log_evalue=finite(fault.log_evalue)
    )


def suspect_document(located: Located | None) -> results.Suspect | None:
    """Return the document's entry of where a fault sits."""
    if located is None:
        return None
    return results.Suspect(part=located.part, position=located.position, why=located.why)


def finite(value: float) -> float | None:
    """Return ``value``, or None where there is no finite number."""
    return value if math.isfinite(value) else None


def stamped() -> Callable[[], results.Meta]:
    """Note when a run starts; what is returned gives the ``meta`` of its document at its end."""
    started, clock = datetime.now(UTC), time.perf_counter()
    return lambda: results.Meta(
        version=version("simverify"),
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - clock,
        machine=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        threads=1,
        timings=(),
    )
