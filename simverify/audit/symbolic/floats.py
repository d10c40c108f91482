"""A stand-in for the name ``float`` that leaves draws as they are.

``float(rng.random())`` must return a float, which a draw cannot be; where code was stopped
by that, the name itself is replaced in the code's modules. It still passes for the type: in
``isinstance``, as a dtype, for its class methods.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from simverify.audit.symbolic.draws import Draw
from simverify.audit.symbolic.names import namespaces

if TYPE_CHECKING:
    from contextlib import ExitStack

REFUSALS = ("float() of a draw", "torch's __float__ of a random tensor")
"""What code that needs the stand-in is stopped by."""


class _LikeFloat(type):
    def __call__(cls, x: Any = 0.0) -> Any:
        if isinstance(x, Draw):
            return x
        item = getattr(x, "item", None)
        if item is not None and isinstance(value := item(), Draw):
            return value
        return float(x)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, float | Draw)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, float)


class Float(float, metaclass=_LikeFloat):
    """See the module."""

    dtype = np.dtype(np.float64)


def replace_float(code: Any, stack: "ExitStack") -> None:
    """Shadow the builtin in the modules of ``code`` until ``stack`` closes."""
    for namespace in namespaces(code):
        if "float" not in namespace:
            namespace["float"] = Float
            stack.callback(namespace.pop, "float")
