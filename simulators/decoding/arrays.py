"""What is judged of a rule's run as arrays with names, and back: for files, which others write."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.simulators.decoding.emitted import Decoded
from simverify.simulators.decoding.expected import LaneMeans
from simverify.simulators.features import features

Arrays = dict[str, npt.NDArray[Any]]

_PARTS = ("accepted", "taus", "laws")


def to_arrays(found: Decoded) -> Arrays:
    """Return the numbers of ``found``, each array under the path of its field."""
    arrays = {name: getattr(found, name) for name in _PARTS}
    arrays |= {"worth.sums": found.worth.sums, "worth.counts": found.worth.counts}
    return arrays | _flat(found.features, "features")


def from_arrays(arrays: Arrays) -> Decoded:
    """Return what :func:`to_arrays` was given, to the last bit.

    Raises ``ValueError`` if an array is missing or of another type.
    """
    one = features([[0.5, 0.5]], [[0.5, 0.5]], [0], [0.5])
    try:
        return Decoded(
            features=_like(one, arrays, "features"),
            worth=LaneMeans.of(arrays["worth.sums"], arrays["worth.counts"]),
            **{name: arrays[name] for name in _PARTS},
        )
    except KeyError as error:
        raise ValueError(f"there is no array {error.args[0]!r}") from None


def _flat(value: Any, path: str) -> Arrays:
    if is_dataclass(value):
        parts = {f"{path}.{field.name}": getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, tuple):
        parts = {f"{path}.{i}": part for i, part in enumerate(value)}
    elif isinstance(value, str) or value is None:
        return {}  # the same for all: names of faults, no laws of contexts
    else:
        return {path: np.asarray(value)}
    return {name: array for at, part in parts.items() for name, array in _flat(part, at).items()}


def _like(pattern: Any, arrays: Arrays, path: str) -> Any:
    """Return an object built as ``pattern`` is, of the arrays under ``path``."""
    if is_dataclass(pattern) and not isinstance(pattern, type):
        names = [field.name for field in fields(pattern)]
        parts = {x: _like(getattr(pattern, x), arrays, f"{path}.{x}") for x in names}
        return replace(pattern, **parts)
    if isinstance(pattern, tuple):
        return tuple(_like(part, arrays, f"{path}.{i}") for i, part in enumerate(pattern))
    if isinstance(pattern, str) or pattern is None:
        return pattern
    found, due = arrays[path], np.asarray(pattern)
    if (found.dtype, found.ndim) != (due.dtype, due.ndim):
        raise ValueError(f"{path} is {found.dtype} of {found.ndim} axes, expected {due.dtype}")
    return found if isinstance(pattern, np.ndarray) else found.item()
