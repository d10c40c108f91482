"""From what a test returned to what the result document says of it."""

import math
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

from simverify import results, stats


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
