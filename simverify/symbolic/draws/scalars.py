"""Symbolic scalars: a uniform, and anything monotone in one.

Comparing a draw with a number forks the path and narrows the uniform's interval; the
narrowed uniform stays the same draw, so code that uses it twice gets what it deserves.
A draw is put together from :mod:`.base` (form and machine), :mod:`.integers`, :mod:`.pairs`
(two draws), :mod:`.operators`, :mod:`.comparisons` and :mod:`.attributes`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.attributes import Attributes
from simverify.symbolic.draws.base import Base


class Arrays:
    """What draws need of arrays of draws, which are built on them and fill this in."""

    apply_ufunc: Callable[..., Any]
    apply_function: Callable[..., Any]
    known: Callable[..., Any]
    of: Callable[..., Any]
    holding: Callable[..., Any]


ARRAYS = Arrays()


class Draw(Attributes):
    """``form`` of ``atom``, computed as ``machine`` says; all symbolic scalars."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        """Index as a numpy scalar is: ``u[..., None]`` is an array of one."""
        if not isinstance(self.machine.sample, np.generic):
            return self.machine.sample[index]  # which raises
        return ARRAYS.holding(self)[index]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ARRAYS.apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return ARRAYS.apply_function(func, types, args, kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise TypeError(f"{func.__name__} of a draw")  # the mode that follows torch comes first


Base.kind = Draw
