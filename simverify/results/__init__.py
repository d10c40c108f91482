"""The result document of a run: what tools may rely on, one version number for all of it.

Frozen msgspec structs; ``reading/schema.json`` is generated from them. Same seed and inputs
give the same bytes but for ``meta``. A number that does not exist is null, never NaN.
"""

from simverify.results.accepted import (
    AfterCalls,
    Curve,
    Expected,
    Measured,
    Optimum,
    Paired,
    Speedup,
)
from simverify.results.audit import (
    AuditRun,
    ClockStop,
    Diagnosis,
    ExactInstance,
    FailingRows,
    FailingTrial,
    Finding,
    Localisation,
    Pair,
    Probe,
    SampledModel,
    SampledTier,
)
from simverify.results.common import (
    SCHEMA_VERSION,
    Certificate,
    FaultAtStrength,
    Latency,
    Meta,
    NamedFaults,
    Suspect,
    Test,
    Timing,
    Verdict,
    overall,
)
from simverify.results.comparison import (
    ANY_DEVIATION,
    Acceptance,
    Bounds,
    CompareResult,
    CompareRun,
    Decoding,
    Drafter,
    DraftTrees,
    ExactCheck,
    Lossless,
    ModelInfo,
    NodeCounts,
    PitCurve,
    Power,
)
from simverify.results.counterexample import (
    Branch,
    Breach,
    Counterexample,
    DraftCall,
    Instance,
)
from simverify.results.coverage import Coverage, MissedLines
from simverify.results.outputs import OutputRun, Rescoring, Retokenised
from simverify.results.plan import PlanLine, PlanMeta, PlanRun
from simverify.results.run import Judged, Run
from simverify.results.self_test import SelfTestRun, Tried

Document = CompareRun | AuditRun | OutputRun | SelfTestRun | PlanRun
"""What a result file holds; its field ``command`` says which."""

__all__ = [
    "ANY_DEVIATION",
    "SCHEMA_VERSION",
    "Acceptance",
    "AfterCalls",
    "AuditRun",
    "Bounds",
    "Branch",
    "Breach",
    "Certificate",
    "ClockStop",
    "CompareResult",
    "CompareRun",
    "Counterexample",
    "Coverage",
    "Curve",
    "Decoding",
    "Diagnosis",
    "Document",
    "DraftCall",
    "DraftTrees",
    "Drafter",
    "ExactCheck",
    "ExactInstance",
    "Expected",
    "FailingRows",
    "FailingTrial",
    "FaultAtStrength",
    "Finding",
    "Instance",
    "Judged",
    "Latency",
    "Localisation",
    "Lossless",
    "Measured",
    "Meta",
    "MissedLines",
    "ModelInfo",
    "NamedFaults",
    "NodeCounts",
    "Optimum",
    "OutputRun",
    "Pair",
    "Paired",
    "PitCurve",
    "PlanLine",
    "PlanMeta",
    "PlanRun",
    "Power",
    "Probe",
    "Rescoring",
    "Retokenised",
    "Run",
    "SampledModel",
    "SampledTier",
    "SelfTestRun",
    "Speedup",
    "Suspect",
    "Test",
    "Timing",
    "Tried",
    "Verdict",
    "overall",
]
