"""Say whether a speculative-decoding verifier is lossless, and how far it is from optimal.

Names load on first use: importing the package costs nothing but this file.
"""

import importlib

# As typing's own, which would load before the command line handles Ctrl-C.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from simverify.api.audit import audit, self_test
    from simverify.api.compare import compare
    from simverify.api.outputs import audit_outputs
    from simverify.api.replay import replay
    from simverify.errors import SimverifyError, UsageError
    from simverify.models import get_model, load_model
    from simverify.planning import plan
    from simverify.results import AuditRun, CompareRun, OutputRun, PlanRun, SelfTestRun
    from simverify.results.reading.document import load
    from simverify.symbolic import CannotEnumerate
    from simverify.symbolic.enumeration.outcomes import exact_law
    from simverify.verifiers import VERIFIERS, Verifier, get_verifier

__all__ = [
    "VERIFIERS",
    "AuditRun",
    "CannotEnumerate",
    "CompareRun",
    "OutputRun",
    "PlanRun",
    "SelfTestRun",
    "SimverifyError",
    "UsageError",
    "Verifier",
    "audit",
    "audit_outputs",
    "compare",
    "exact_law",
    "get_model",
    "get_verifier",
    "load",
    "load_model",
    "plan",
    "replay",
    "self_test",
]

_HOME = {
    "VERIFIERS": "verifiers",
    "AuditRun": "results",
    "CannotEnumerate": "symbolic",
    "CompareRun": "results",
    "OutputRun": "results",
    "PlanRun": "results",
    "SelfTestRun": "results",
    "SimverifyError": "errors",
    "UsageError": "errors",
    "Verifier": "verifiers",
    "audit": "api.audit",
    "audit_outputs": "api.outputs",
    "compare": "api.compare",
    "exact_law": "symbolic.enumeration.outcomes",
    "get_model": "models",
    "get_verifier": "verifiers",
    "load": "results.reading.document",
    "load_model": "models",
    "plan": "planning",
    "replay": "api.replay",
    "self_test": "api.audit",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'simverify' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"simverify.{_HOME[name]}"), name)
    # Kept: a name is looked up once.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
