"""The result document of a run: what tools may rely on, one version number for all of it.

Frozen msgspec structs; ``reading/schema.json`` is generated from them. Same seed and inputs
give the same bytes but for ``meta``. A number that does not exist is null, never NaN.
"""

__simverify_role__ = "machinery"

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
    Bridge,
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
    DraftingTime,
    FaultAtStrength,
    Latency,
    Meta,
    NamedFaults,
    OnDevices,
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
from simverify.results.drafting import DraftAcceptance, LayerParallel, LayerSimilarity, Loss
from simverify.results.plan import PlanLine, PlanMeta, PlanRun
from simverify.results.run import Judged, Run
from simverify.results.served.against import AgainstRun, AskedFor
from simverify.results.served.matrix import CellOutcome, MatrixCell, MatrixRun, matrix_verdict
from simverify.results.served.outputs import (
    AtPlace,
    FormatPower,
    OutputRun,
    PlaceOf,
    Processing,
    Reported,
    Rescoring,
    Retokenised,
    WorstToken,
)
from simverify.results.served.triage import (
    TriageCase,
    TriageCause,
    TriageClass,
    TriageCount,
    TriageRun,
    TriageSide,
)
from simverify.results.served.watch import WatchDelay, WatchRun
from simverify.results.surveys import (
    BisectRun,
    EngineRow,
    InstanceLaw,
    LawDifference,
    LeastShare,
    SelfTestRun,
    State,
    TableMeta,
    TableRun,
    Tried,
    Visited,
    table_verdict,
)
from simverify.results.sweeps import (
    SweepAudit,
    SweepCell,
    SweepRun,
    SweepVersions,
    sweep_verdict,
)

Document = (
    CompareRun
    | AuditRun
    | OutputRun
    | TriageRun
    | WatchRun
    | AgainstRun
    | SelfTestRun
    | PlanRun
    | TableRun
    | BisectRun
    | SweepRun
    | MatrixRun
)
"""What a result file holds; its field ``command`` says which."""

__all__ = [
    "ANY_DEVIATION",
    "SCHEMA_VERSION",
    "Acceptance",
    "AfterCalls",
    "AgainstRun",
    "AskedFor",
    "AtPlace",
    "AuditRun",
    "BisectRun",
    "Bounds",
    "Branch",
    "Breach",
    "Bridge",
    "CellOutcome",
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
    "DraftAcceptance",
    "DraftCall",
    "DraftTrees",
    "Drafter",
    "DraftingTime",
    "EngineRow",
    "ExactCheck",
    "ExactInstance",
    "Expected",
    "FailingRows",
    "FailingTrial",
    "FaultAtStrength",
    "Finding",
    "FormatPower",
    "Instance",
    "InstanceLaw",
    "Judged",
    "Latency",
    "LawDifference",
    "LayerParallel",
    "LayerSimilarity",
    "LeastShare",
    "Localisation",
    "Loss",
    "Lossless",
    "MatrixCell",
    "MatrixRun",
    "Measured",
    "Meta",
    "MissedLines",
    "ModelInfo",
    "NamedFaults",
    "NodeCounts",
    "OnDevices",
    "Optimum",
    "OutputRun",
    "Pair",
    "Paired",
    "PitCurve",
    "PlaceOf",
    "PlanLine",
    "PlanMeta",
    "PlanRun",
    "Power",
    "Probe",
    "Processing",
    "Reported",
    "Rescoring",
    "Retokenised",
    "Run",
    "SampledModel",
    "SampledTier",
    "SelfTestRun",
    "Speedup",
    "State",
    "Suspect",
    "SweepAudit",
    "SweepCell",
    "SweepRun",
    "SweepVersions",
    "TableMeta",
    "TableRun",
    "Test",
    "Timing",
    "TriageCase",
    "TriageCause",
    "TriageClass",
    "TriageCount",
    "TriageRun",
    "TriageSide",
    "Tried",
    "Verdict",
    "Visited",
    "WatchDelay",
    "WatchRun",
    "WorstToken",
    "matrix_verdict",
    "overall",
    "sweep_verdict",
    "table_verdict",
]
