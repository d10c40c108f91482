"""What a number can be asked for beyond arithmetic: every attribute, method and conversion.

One rule for all of them. What depends on the type alone is answered by a sample of that type;
a few methods have a rule of their own, below; what the real type lacks raises what it raises;
and the rest is done on each value, where few are left, or is refused by name.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from simverify.symbolic.draws.whole.bits import Bits
from simverify.symbolic.errors import ArrayOfDraws, FloatOfDraw

_OF_THE_TYPE = {
    "base", "device", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides",
}  # fmt: skip

_ROUNDED = {"__floor__": "floored", "__ceil__": "ceiled", "__trunc__": "__int__"}
"""What only some types have, so that no draw has it of its own: what answers for those."""

OBJECT_LOOPS: dict[str, Callable[[Any], Any]] = {}
"""What numpy calls by name on the elements of an array of objects, filled by :mod:`.ufuncs`."""


_BOXING: list[bool] = []
"""Holds something while this package makes an array of objects itself."""


def boxed(data: Any) -> "np.ndarray[Any, Any]":
    """Return nested lists as an array of objects, which keep the types that they have."""
    _BOXING.append(True)
    try:
        return np.array(data, dtype=object)
    finally:
        _BOXING.pop()


class Attributes(Bits):
    """Answers or refusals to everything that a number can be asked for."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in _ROUNDED and hasattr(self.machine.sample, name):
            return getattr(self, _ROUNDED[name])
        # numpy asks for protocols, by which an array of draws would become numbers.
        if name.startswith("__"):
            if name == "__array_struct__" and self.source.refuses_arrays and not _BOXING:
                self.refuse("an array that numpy makes of draws", ArrayOfDraws)
            raise AttributeError(f"a draw has no attribute {name!r}")
        if name in OBJECT_LOOPS:
            return lambda: OBJECT_LOOPS[name](self)
        if isinstance(vars(np).get(name), np.ufunc) and not hasattr(self.machine.sample, name):
            self.refuse(f"np.{name} of draws")
        answer = getattr(self.machine.sample, name)
        if name in _OF_THE_TYPE:
            return answer
        rule = _RULES.get(name)
        if rule is not None:
            return rule(self)
        return self.on_values(lambda x: getattr(x, name), name=f".{name}")

    def __float__(self) -> float:
        return self.refuse("float() of a draw", FloatOfDraw)

    def __complex__(self) -> complex:
        return self.refuse("complex() of a draw")

    def __hash__(self) -> int:
        if self.settles():
            return hash(self.settle())
        return self.refuse("hash() of a draw (in a set, as a key, in a cache)")

    def __str__(self) -> str:
        return str(self.on_values(str, name="str()"))

    def __repr__(self) -> str:
        return str(self.on_values(repr, name="repr()"))

    def __format__(self, spec: str) -> str:
        return str(self.on_values(format, spec, name="formatting"))

    def __reduce__(self) -> NoReturn:
        self.refuse("pickling of a draw")

    def __copy__(self) -> "Attributes":
        return self

    def __deepcopy__(self, memo: Any) -> "Attributes":
        return self

    @property
    def _numba_type_(self) -> NoReturn:
        self.refuse("a draw passed to a function compiled by numba")

    # Python would otherwise iterate by index, and find nothing.
    __iter__ = None

    # -- rounding --

    def floored(self) -> Any:
        """Return what ``math.floor`` gives."""
        return self.floor(int) if self.range()[0] >= 0 else self.floor(_floor)

    def ceiled(self) -> Any:
        """Return what ``math.ceil`` gives."""
        return self.ceiling(_ceil)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self.nearest(round)
        if digits == 0:
            return self.nearest(round, 0)
        return self.rounded_to(digits, round)

    def rounded_to(self, digits: int, op: Callable[..., Any]) -> Any:
        """Return it with so many decimals, as ``op`` rounds."""
        if self.holds_integers():
            return self.on_values(op, digits, name="round()")
        scale = 10.0**digits
        form = self.form
        step = self.map(lambda: form.affine(scale, 0.5).floor().affine(1 / scale, 0.0), op, digits)
        if isinstance(step, Attributes):
            step.machine.blur = float("inf")
        return step

    def as_type(self, dtype: Any) -> Any:
        """Return it as a number of numpy's type: a draw, or one of few integers."""
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return np.bool_(bool(self))
        return self.whole(kind.type) if kind.kind in "iu" else self.cast(kind)

    def as_python(self) -> Any:
        """Return it as Python's number."""
        if isinstance(self.machine.sample, np.generic):
            return self.map(lambda: self.form, _item)
        return self


def _item(x: Any) -> Any:
    return x.item()


def _floor(x: Any) -> int:
    return int(np.floor(x))


def _ceil(x: Any) -> int:
    return int(np.ceil(x))


def _round(draw: Attributes) -> Callable[..., Any]:
    return lambda decimals=0, out=None: np.round(draw, decimals, out)


def _astype(draw: Attributes) -> Callable[..., Any]:
    def astype(dtype: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            draw.machine.sample.astype(dtype, *args, **kwargs)  # for what it raises
        return draw.as_type(dtype)

    return astype


def _is_integer(draw: Attributes) -> Callable[[], bool]:
    if draw.holds_integers() or draw.has_values():
        return draw.on_values(lambda x: x.is_integer, name=".is_integer()")  # type: ignore[no-any-return]
    return lambda: False


_RULES: dict[str, Callable[[Any], Any]] = {
    "real": lambda draw: draw,
    "imag": lambda draw: draw.machine.sample.imag,
    "conjugate": lambda draw: lambda: draw,
    "conj": lambda draw: lambda: draw,
    "copy": lambda draw: lambda: draw,
    "numerator": lambda draw: draw,
    "denominator": lambda draw: draw.machine.sample.denominator,
    "item": lambda draw: draw.as_python,
    "tolist": lambda draw: draw.as_python,
    "astype": _astype,
    "round": _round,
    "clip": lambda draw: lambda *bounds, **given: np.clip(draw, *bounds, **given),
    "is_integer": _is_integer,
}
