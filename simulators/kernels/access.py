"""What a compiled rule may ask of a model: generic names, one implementation per table type.

A rule reads a model only through these functions. ``tables`` is a named tuple of arrays;
its type chooses the implementation when the caller is compiled, so one loop over blocks
serves every model. ``state`` is an int64 that stands for the context.

Every law a verifier samples has the form ``max(alpha p - beta q, 0)`` on a row: the target
is (1, 0), the token residual (1, 1), the block residual (weight, 1), and greedy block's
modified targets stay in that family, so :func:`mass` and :func:`correct` serve all rules.
"""

import inspect
from collections.abc import Callable
from typing import Any

from numba.extending import overload

_OPTIONS = {"error_model": "numpy", "forceinline": True, "_nrt": False}
"""Without ``_nrt=False`` every array taken from a table costs two atomic reference counts."""


def start(tables: Any, u: Any) -> Any:
    """State of the context chosen by the uniform ``u``."""
    raise NotImplementedError


def advance(tables: Any, state: Any, token: Any) -> Any:
    """State after ``token``."""
    raise NotImplementedError


def draft(tables: Any, state: Any, u: Any) -> Any:
    """Token drawn from the draft row by the uniform ``u``."""
    raise NotImplementedError


def ratio(tables: Any, state: Any, token: Any) -> Any:
    """Return p(token) / q(token): inf where q = 0 < p, 0 where p = 0."""
    raise NotImplementedError


def mass(tables: Any, state: Any, alpha: Any, beta: Any) -> Any:
    """Return sum over x of max(alpha p(x) - beta q(x), 0)."""
    raise NotImplementedError


def correct(tables: Any, state: Any, alpha: Any, beta: Any, u: Any) -> Any:
    """Token drawn from max(alpha p - beta q, 0), normalised, by the uniform ``u``.

    A mass of zero can only be rounding: the target row is sampled then.
    """
    raise NotImplementedError


def most_likely(tables: Any, state: Any) -> Any:
    """Token of the largest target probability, the lowest id among equals."""
    raise NotImplementedError


def target_prob(tables: Any, state: Any, token: Any) -> Any:
    """Return p(token)."""
    raise NotImplementedError


def pits(tables: Any, state: Any, token: Any, v: Any) -> Any:
    """Randomised PITs F(token-) + v p(token): in ascending q/p, and in token order."""
    raise NotImplementedError


def implements(generic: Callable[..., Any], tables_type: type) -> Callable[[Any], Any]:
    """Register the decorated function as ``generic`` for tables of ``tables_type``."""

    def register(function: Any) -> Any:
        def choose(tables: Any, *_: Any) -> Any:
            matches = getattr(tables, "instance_class", None) is tables_type
            return function if matches else None

        # numba compares the signatures of the generic name and of its implementation.
        choose.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        overload(generic, jit_options=_OPTIONS)(choose)
        return function

    return register
