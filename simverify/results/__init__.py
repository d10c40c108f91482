"""The result document of a run: what tools may rely on, one version number for all of it.

Frozen msgspec structs; ``reports/schema.json`` is generated from them. Same seed and inputs
give the same bytes but for ``meta``. A number that does not exist is null, never NaN.
"""

from simverify.results.audit import (
    AuditRun,
    Counterexample,
    Diagnosis,
    ExactInstance,
    Instance,
    Localisation,
    Probe,
    SampledTier,
)
from simverify.results.common import (
    SCHEMA_VERSION,
    Certificate,
    Meta,
    Test,
    Timing,
    Verdict,
    overall,
)
from simverify.results.comparison import (
    AfterCalls,
    Bounds,
    CompareResult,
    CompareRun,
    Curve,
    ExactCheck,
    Expected,
    Lossless,
    Measured,
    ModelInfo,
    Optimum,
    Speedup,
)

Document = CompareRun | AuditRun
"""What a result file holds; its field ``command`` says which."""

__all__ = [
    "SCHEMA_VERSION",
    "AfterCalls",
    "AuditRun",
    "Bounds",
    "Certificate",
    "CompareResult",
    "CompareRun",
    "Counterexample",
    "Curve",
    "Diagnosis",
    "Document",
    "ExactCheck",
    "ExactInstance",
    "Expected",
    "Instance",
    "Localisation",
    "Lossless",
    "Measured",
    "Meta",
    "ModelInfo",
    "Optimum",
    "Probe",
    "SampledTier",
    "Speedup",
    "Test",
    "Timing",
    "Verdict",
    "overall",
]
