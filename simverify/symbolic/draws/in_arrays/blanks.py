"""What numpy itself says of a result: its type and shape, and what is raised.

Draws lie in arrays of objects, for which numpy knows neither. So it is asked: the same function is
called with ones in the place of draws, of the types and shapes that they have for the code.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.draws.in_arrays.arrays import (
    DrawArray,
    as_objects,
    common_type,
    holds_objects,
    of_objects,
    one_of,
)
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.draws.several.winners import Winner


def blank(x: Any) -> Any:
    """Return a value with ones in the place of draws: of their types, numbers of Python's too."""
    if isinstance(x, Draw):
        if type(x.machine.sample) is int:
            x.check_64_bits()
        return type(x.machine.sample)(1)
    if type(x) is Winner:
        return np.intp(1)
    if isinstance(x, list | tuple):
        return type(x)(map(blank, x)) if type(x) in (list, tuple) else x
    if not holds_objects(x):
        return x
    kind = x.dtype if type(x) is DrawArray else common_type(x.ravel().tolist())
    return np.ones(x.shape, kind)


def blank_copy(x: Any) -> Any:
    """Return the same of an array that is written into, which may have no draws yet."""
    return np.array(blank(x)) if isinstance(x, np.ndarray) else x


def type_given(func: Callable[..., Any], *args: Any, **kwargs: Any) -> np.dtype[Any]:
    """Return the type of what a function of numpy's gives; raises what it raises."""
    return np.asarray(blank_run(func, args, kwargs)).dtype


def blank_run(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Return what a function gives of ones; raises what it raises, for types and shapes."""
    with np.errstate(all="ignore"):
        return func(*map(blank, args), **{key: blank(x) for key, x in kwargs.items()})


def objects(x: Any, *, several: bool = False) -> Any:
    """Return a value as an array of objects, which numpy moves and leaves as they are.

    ``several``: a list is one of arrays.
    """
    if several and isinstance(x, list | tuple):
        return [objects(y) for y in x]
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray) if holds_objects(x) else x.astype(object)
    return as_objects(x) if isinstance(x, list | tuple | Draw | Winner) else x


def cast(x: Any, kind: np.dtype[Any], *, wraps: bool = True) -> Any:
    """Return an element as numpy casts that of an array: integers of Python's raise nothing.

    ``wraps``: nor do those that are draws.
    """
    if kind.kind in "iu":
        x = np.asarray(x)[()] if type(x) is int else as_int64(x) if wraps else x
    return one_of(x, kind)


def retyped(array: Any, kind: np.dtype[Any], *, wraps: bool) -> Any:
    """Return an array of objects, all of one type; see :func:`cast`."""
    flat = [cast(x, kind, wraps=wraps) for x in array.ravel().tolist()]
    return of_objects(flat).reshape(array.shape)


def as_int64(x: Any) -> Any:
    """Return an integer of Python's as numpy's arrays hold it; anything else as it is."""
    if not isinstance(x, Draw) or type(x.machine.sample) is not int:
        return x
    x.check_64_bits()
    return x.as_type(np.int64)
