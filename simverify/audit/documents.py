"""From what a test returned to what the result document says of it."""

import math

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
