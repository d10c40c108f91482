"""A generator's state as code sees it: plain containers around a place that cannot be read.

Code that keeps a state and puts it back needs to move it about, copy it and compare it, which
works; its inside would be the generator's bits, and reading those is refused.
"""

from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, NoReturn

import numpy as np

from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.streams import Seed, State


class Inside:
    """What stands where a state keeps the generator's bits."""

    __array_ufunc__ = None

    def __init__(self, source: Source, family: str, state: State) -> None:
        self.source = source
        self.family = family
        self.state = state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inside) and self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def _place(self) -> tuple[str, Hashable, int, int]:
        return self.family, self.state.key, self.state.position, self.state.epoch

    def __copy__(self) -> "Inside":
        return self

    def __deepcopy__(self, memo: Any) -> "Inside":
        return self

    def __reduce__(self) -> Any:
        return pickled(lambda: self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__array"):
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        self.source.refuse(
            f"the inside of the state of {self.family} (put it back whole, or leave it alone)"
        )


for _name in (
    "getitem", "setitem", "iter", "len", "contains", "int", "index", "float", "bool", "repr",
    "str", "format", "bytes", "lt", "le", "gt", "ge", "add", "radd", "sub", "rsub", "mul", "rmul",
    "mod", "floordiv", "truediv", "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rshift",
):  # fmt: skip
    setattr(Inside, f"__{_name}__", Inside._refuse)


def inside_of(state: Any) -> Inside | None:
    """Return what a state made here holds; None for a state of plain numbers."""
    parts = state.values() if isinstance(state, dict) else state
    if isinstance(parts, str | bytes) or not hasattr(parts, "__iter__"):
        return None
    for part in parts:
        if isinstance(part, Inside):
            return part
        if isinstance(part, dict) and (found := inside_of(part)) is not None:
            return found
    return None


def plain_state(state: Any, family: str) -> Seed:
    """Name the draws that follow a state of plain numbers."""
    return Seed(("state", family, _image(state)), f"{family} is set to a constant state")


def _image(x: Any) -> Hashable:
    if isinstance(x, dict):
        return tuple((key, _image(x[key])) for key in sorted(x))
    if isinstance(x, list | tuple):
        return tuple(map(_image, x))
    return x.tobytes() if isinstance(x, np.ndarray) else repr(x)


_PICKLED: dict[int, Callable[[], Any]] = {}
_numbers = count()


def pickled(make: Callable[[], Any]) -> tuple[Any, tuple[int]]:
    """Return what ``__reduce__`` returns for an object that ``make`` makes again, here."""
    number = next(_numbers)
    _PICKLED[number] = make
    return _unpickled, (number,)


def forget_pickled() -> None:
    """Drop what was pickled: the code that did it is no longer followed."""
    _PICKLED.clear()


def _unpickled(number: int) -> Any:
    if number not in _PICKLED:
        raise ValueError("this generator was pickled while another code was followed")
    return _PICKLED[number]()
