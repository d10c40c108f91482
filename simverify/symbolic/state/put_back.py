"""Puts back what code kept before it was followed: draws that it keeps are no numbers."""

import collections
import types
from typing import Any

import numpy as np

from simverify.symbolic.state.images import Names


def put_back(x: Any, held: Any) -> None:
    """Let an object hold again what a look into it gave, as :class:`.Kept` looks.

    What cannot be written, or is not written in place, is left as it is.
    """
    if type(x) is Names:
        _put_names(x, held)
    elif isinstance(x, dict):
        count = (len(held) - 1) // 2
        x.clear()
        x.update(zip(held[:count], held[count : 2 * count], strict=True))
    elif isinstance(x, list):
        x[:] = held
    elif isinstance(x, set):
        x.clear()
        x.update(held)
    elif isinstance(x, collections.deque):
        x.clear()
        x.extend(held)
    elif isinstance(x, types.CellType) and held:
        x.cell_contents = held[0]
    elif isinstance(x, np.ndarray) and x.dtype.hasobject:
        for place, item in zip(np.ndindex(x.shape), held, strict=False):
            x[place] = item
    elif isinstance(held, list):
        # What is in its attributes is held by their dictionary, which is an object of its own.
        for name, item in zip(slots_of(x), held, strict=False):
            if name != "__dict__":
                setattr(x, name, item)


def slots_of(x: Any) -> tuple[str, ...]:
    """Return the names of an object's slots, with that of its dictionary; none without slots."""
    slots = [
        name
        for base in type(x).__mro__
        for name, slot in vars(base).items()
        if isinstance(slot, types.MemberDescriptorType)
    ]
    return tuple([*slots, "__dict__"] if slots and hasattr(x, "__dict__") else slots)


def _put_names(names: Names, held: list[Any]) -> None:
    for name, value in zip(names.names, held, strict=True):
        if name not in names.space or names.space[name] is value:
            continue
        if names.owner is not None:
            setattr(names.owner, name, value)
        elif isinstance(names.space, dict):
            names.space[name] = value
