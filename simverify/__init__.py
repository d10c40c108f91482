"""Say whether a speculative-decoding verifier is lossless, and how far it is from optimal.

Names load on first use: importing the package costs nothing but this file.
"""

import importlib

# As typing's own, which would load before the command line handles Ctrl-C.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from simverify.comparing.comparison import compare
    from simverify.errors import SimverifyError, UsageError
    from simverify.models import get_model, load_model
    from simverify.results import CompareRun
    from simverify.verifiers import VERIFIERS, Verifier, get_verifier

__all__ = [
    "VERIFIERS",
    "CompareRun",
    "SimverifyError",
    "UsageError",
    "Verifier",
    "compare",
    "get_model",
    "get_verifier",
    "load_model",
]

_HOME = {
    "VERIFIERS": "verifiers",
    "CompareRun": "results",
    "SimverifyError": "errors",
    "UsageError": "errors",
    "Verifier": "verifiers",
    "compare": "comparing.comparison",
    "get_model": "models",
    "get_verifier": "verifiers",
    "load_model": "models",
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
