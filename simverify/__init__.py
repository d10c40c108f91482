"""Say whether a speculative-decoding verifier is lossless, and how far it is from optimal.

Names load on first use: importing the package costs nothing but this file.
"""

__simverify_role__ = "shared"

import importlib

# As typing's own, which would load before the command line handles Ctrl-C.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from simverify.api.audit import audit as audit
    from simverify.api.compare import compare as compare
    from simverify.api.replay import replay as replay
    from simverify.api.self_test import self_test as self_test
    from simverify.api.served.against import audit_against as audit_against
    from simverify.api.served.matrix import matrix as matrix
    from simverify.api.served.outputs import audit_outputs as audit_outputs
    from simverify.api.served.triage import triage as triage
    from simverify.api.served.watch import watch as watch
    from simverify.api.surveys.bisect import bisect as bisect
    from simverify.api.surveys.sweep import sweep as sweep
    from simverify.api.surveys.table import table as table
    from simverify.baselines.check import check_baseline as check_baseline
    from simverify.errors import SimverifyError as SimverifyError
    from simverify.errors import UsageError as UsageError
    from simverify.models import get_model as get_model
    from simverify.models import load_model as load_model
    from simverify.planning import plan as plan
    from simverify.record.store import runs as runs
    from simverify.results import AgainstRun as AgainstRun
    from simverify.results import AuditRun as AuditRun
    from simverify.results import BisectRun as BisectRun
    from simverify.results import CompareRun as CompareRun
    from simverify.results import MatrixRun as MatrixRun
    from simverify.results import OutputRun as OutputRun
    from simverify.results import PlanRun as PlanRun
    from simverify.results import SelfTestRun as SelfTestRun
    from simverify.results import SweepRun as SweepRun
    from simverify.results import TableRun as TableRun
    from simverify.results import TriageRun as TriageRun
    from simverify.results import WatchRun as WatchRun
    from simverify.results.reading.document import load as load
    from simverify.symbolic import CannotEnumerate as CannotEnumerate
    from simverify.symbolic.enumeration.outcomes import exact_law as exact_law
    from simverify.verifiers import VERIFIERS as VERIFIERS
    from simverify.verifiers import Verifier as Verifier
    from simverify.verifiers import get_verifier as get_verifier

_HOME = {
    "VERIFIERS": "verifiers",
    "AgainstRun": "results",
    "AuditRun": "results",
    "BisectRun": "results",
    "CannotEnumerate": "symbolic",
    "CompareRun": "results",
    "MatrixRun": "results",
    "OutputRun": "results",
    "PlanRun": "results",
    "SelfTestRun": "results",
    "SimverifyError": "errors",
    "SweepRun": "results",
    "TableRun": "results",
    "TriageRun": "results",
    "UsageError": "errors",
    "Verifier": "verifiers",
    "WatchRun": "results",
    "audit": "api.audit",
    "audit_against": "api.served.against",
    "audit_outputs": "api.served.outputs",
    "bisect": "api.surveys.bisect",
    "check_baseline": "baselines.check",
    "compare": "api.compare",
    "exact_law": "symbolic.enumeration.outcomes",
    "get_model": "models",
    "get_verifier": "verifiers",
    "load": "results.reading.document",
    "load_model": "models",
    "matrix": "api.served.matrix",
    "plan": "planning",
    "replay": "api.replay",
    "runs": "record.store",
    "self_test": "api.self_test",
    "sweep": "api.surveys.sweep",
    "table": "api.surveys.table",
    "triage": "api.served.triage",
    "watch": "api.served.watch",
}
"""Names by module; the imports above say the same to type checkers."""

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'simverify' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"simverify.{_HOME[name]}"), name)
    # Kept: a name is looked up once.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
