"""numpy's generators, whose values the source chooses and whose types are numpy's own.

Each method is called twice: numpy's own says the type, the dtype, the shape and what it
refuses; the twin that the exact tier follows says which value the path needs. So code that
minds whether it was given an ``np.uint8``, a Python float or an array finds what it would
find anywhere else.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from simverify.symbolic.errors import CannotEnumerate
from simverify.symbolic.generators.numpy.rng import (
    Generator,
    RandomState,
    SymbolicGenerator,
    SymbolicRandomState,
)

_IN_PLACE = ("shuffle",)
"""Called once: numpy's own would move what the twin has to move."""

_NO_DRAW = ("spawn", "seed", "get_state", "set_state")

_RESOLUTION = {np.dtype(np.float64): 2.0**53, np.dtype(np.float32): 2.0**24}
"""Uniforms are multiples of one part in so many, and below 1."""


class PlainGenerator(SymbolicGenerator):
    """A ``numpy.random.Generator`` whose values the source chooses."""

    _calling: str | None = None


class PlainRandomState(SymbolicRandomState):
    """A ``numpy.random.RandomState`` whose values the source chooses."""

    _calling: str | None = None


def _fitted(name: str, real: Callable[..., Any], twin: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that gives the twin's value in the type of numpy's own."""

    @wraps(real)
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        # numpy's methods call one another, and so do the twin's.
        if self._calling is not None:
            return (real if self._calling == "real" else twin)(self, *args, **kwargs)
        try:
            self._calling = "real"
            shown = None if name in _IN_PLACE else real(self, *args, **kwargs)
            self._calling = "twin"
            if kwargs.get("out") is not None:
                kwargs["size"] = kwargs.pop("out").shape
            value = twin(self, *args, **kwargs)
        except Exception as error:
            if self._calling == "real" or isinstance(error, CannotEnumerate):
                raise
            self.source.refuse(f"{name}(), which numpy answers")
        finally:
            self._calling = None
        return value if name in _IN_PLACE else _fit(self, name, shown, value)

    return draw


def _fit(self: Any, name: str, shown: Any, value: Any) -> Any:
    """Return ``value`` in the type and shape of ``shown``."""
    if name == "random":
        steps = _RESOLUTION.get(np.asarray(shown).dtype)
        value = value if steps is None else np.floor(np.asarray(value) * steps) / steps
    if isinstance(shown, np.ndarray):
        values = np.asarray(value)
        if values.shape != shown.shape:
            self.source.refuse(f"{name}(), which numpy gives the shape {shown.shape}")
        np.copyto(shown, values, casting="unsafe")
        return shown
    if isinstance(shown, np.generic):
        return np.asarray(value).astype(shown.dtype)[()]
    return type(shown)(value) if isinstance(shown, bool | int | float) else value


for _plain, _twin, _real in (
    (PlainGenerator, SymbolicGenerator, Generator),
    (PlainRandomState, SymbolicRandomState, RandomState),
):
    for _name in dir(_real):
        _method = getattr(_real, _name)
        if not _name.startswith("_") and _name not in _NO_DRAW and callable(_method):
            setattr(_plain, _name, _fitted(_name, _method, getattr(_twin, _name)))
