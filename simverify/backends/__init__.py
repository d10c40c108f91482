"""Verification on tensors, whole batches at a time: torch on any device, Triton on a GPU.

``verify`` takes the fused kernels where the tensors lie on a GPU and torch everywhere else; both
read their uniforms from the addresses that the compiled kernels use. Needs torch, which loads
with the first of these names: listing engines looks into this package, and costs nothing.
"""

__simverify_role__ = "under test"


import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simverify.backends.batch import RULES as RULES
    from simverify.backends.batch import Verified as Verified
    from simverify.backends.philox import draft_uniforms as draft_uniforms
    from simverify.backends.philox import uniforms as uniforms
    from simverify.backends.rules import verify as verify

_HOME = {
    "RULES": "batch",
    "Verified": "batch",
    "draft_uniforms": "philox",
    "uniforms": "philox",
    "verify": "rules",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
