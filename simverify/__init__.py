"""Say whether a speculative-decoding verifier is lossless, and how far it is from optimal.

Names load on first use: importing the package costs nothing but this file.
"""

__simverify_role__ = "shared"


import importlib

# As typing's own, which would load before the command line handles Ctrl-C.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from simverify.api.audit import audit as audit
    from simverify.api.audit import replay as replay
    from simverify.api.audit import self_test as self_test
    from simverify.api.compare import compare as compare
    from simverify.api.compare import plan as plan
    from simverify.api.samplers import sampler as sampler
    from simverify.api.served import audit_against as audit_against
    from simverify.api.served import audit_engine as audit_engine
    from simverify.api.served import audit_outputs as audit_outputs
    from simverify.api.served import matrix as matrix
    from simverify.api.served import triage as triage
    from simverify.api.served import watch as watch
    from simverify.api.surveys import bisect as bisect
    from simverify.api.surveys import sweep as sweep
    from simverify.api.surveys import table as table
    from simverify.errors import SimverifyError as SimverifyError
    from simverify.errors import UsageError as UsageError
    from simverify.history.baseline import check_baseline as check_baseline
    from simverify.history.record import runs as runs
    from simverify.models import get_model as get_model
    from simverify.models import load_model as load_model
    from simverify.results import AgainstRun as AgainstRun
    from simverify.results import AuditRun as AuditRun
    from simverify.results import BisectRun as BisectRun
    from simverify.results import CompareRun as CompareRun
    from simverify.results import MatrixRun as MatrixRun
    from simverify.results import OutputRun as OutputRun
    from simverify.results import PlanRun as PlanRun
    from simverify.results import SamplerRun as SamplerRun
    from simverify.results import SelfTestRun as SelfTestRun
    from simverify.results import SweepRun as SweepRun
    from simverify.results import TableRun as TableRun
    from simverify.results import TriageRun as TriageRun
    from simverify.results import WatchRun as WatchRun
    from simverify.results.reading import load as load
    from simverify.symbolic import CannotEnumerate as CannotEnumerate
    from simverify.symbolic.engine import exact_law as exact_law
    from simverify.verifiers import VERIFIERS as VERIFIERS
    from simverify.verifiers import Verifier as Verifier
    from simverify.verifiers import get_verifier as get_verifier

_HOME = {
    "AgainstRun": "results",
    "AuditRun": "results",
    "BisectRun": "results",
    "CannotEnumerate": "symbolic",
    "CompareRun": "results",
    "MatrixRun": "results",
    "OutputRun": "results",
    "PlanRun": "results",
    "SamplerRun": "results",
    "SelfTestRun": "results",
    "SimverifyError": "errors",
    "SweepRun": "results",
    "TableRun": "results",
    "TriageRun": "results",
    "UsageError": "errors",
    "VERIFIERS": "verifiers",
    "Verifier": "verifiers",
    "WatchRun": "results",
    "audit": "api.audit",
    "audit_against": "api.served",
    "audit_engine": "api.served",
    "audit_outputs": "api.served",
    "bisect": "api.surveys",
    "check_baseline": "history.baseline",
    "compare": "api.compare",
    "exact_law": "symbolic.engine",
    "get_model": "models",
    "get_verifier": "verifiers",
    "load": "results.reading",
    "load_model": "models",
    "matrix": "api.served",
    "plan": "api.compare",
    "replay": "api.audit",
    "runs": "history.record",
    "sampler": "api.samplers",
    "self_test": "api.audit",
    "sweep": "api.surveys",
    "table": "api.surveys",
    "triage": "api.served",
    "watch": "api.served",
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
