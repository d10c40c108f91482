"""Integers mixed from a random one, as code mixes its seeds.

``(key + counter * 1_000_003) % 2**63`` is no monotone function of the counter, so nothing can be
followed that asks how large it is. A seed is asked for less: which other seeds are the same, and
of how many values, about equally likely, it is one. Both are known of remainders of ``a n + b``
and of what maps integers one to one. Whatever else is done with such a number is refused.
"""

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from simverify.symbolic.draws.whole.lines import Line, line_of

if TYPE_CHECKING:
    from simverify.symbolic.draws.base import Base
    from simverify.symbolic.draws.path import Atom

_UFUNCS = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.bitwise_xor: "xor",
    np.left_shift: "lshift", np.negative: "neg", np.invert: "invert", np.positive: "pos",
}  # fmt: skip


class Mixed:
    """An integer mixed from ``atom``: one of ``values``; equal ``name``, equal number.

    ``kind``: its type. One of numpy's wraps around: an even multiple is one of fewer values.
    """

    def __init__(self, atom: "Atom", name: tuple[Hashable, ...], values: int, kind: type) -> None:
        self.atom = atom
        self.name = name
        self.values = values
        self.kind = kind

    # Code may ask for its type.
    __class__ = property(lambda self: self.kind)

    def as_python(self) -> "Mixed":
        """Return it as Python's integer."""
        return Mixed(self.atom, self.name, self.values, int)

    def __pos__(self) -> "Mixed":
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = _UFUNCS.get(ufunc)
        # Of Python's integers alone ufuncs make numpy's.
        if name is None or method != "__call__" or kwargs or self.kind is int:
            self._refuse()
        forward = inputs[0] is self
        operation = getattr(self, f"__{name}__" if forward else f"__r{name}__")
        return operation(*(inputs[1:] if forward else inputs[:1]))

    def __getattr__(self, name: str) -> NoReturn:
        # numpy asks for protocols, which it does without.
        if name.startswith("__") or not hasattr(self.kind, name):
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        self._refuse()

    def _one_to_one(self, *step: Hashable) -> "Mixed":
        # Where it wraps around is a matter of the type.
        return Mixed(self.atom, (*self.name, self.kind, *step), self.values, self.kind)

    def _fits(self, x: Any) -> bool:
        """Whether what it makes of a number is of its own type, whichever value it has."""
        if type(x) is self.kind:
            return True
        ends = None if self.kind is int else np.iinfo(self.kind)
        return ends is not None and type(x) is int and int(ends.min) <= x <= int(ends.max)

    def _refuse(self, *_: Any) -> NoReturn:
        self.atom.source.refuse("a random integer mixed with % & or ^, used for more than a seed")


def _kept(name: str) -> Callable[..., Mixed]:
    def forward(self: Mixed, *other: Any) -> Mixed:
        wraps = self.kind is not int
        if not all(map(self._fits, other)):
            self._refuse()
        if name in ("mul", "rmul") and (other[0] == 0 or (wraps and other[0] % 2 == 0)):
            self._refuse()
        if name == "lshift" and wraps:
            self._refuse()
        return self._one_to_one(name, *map(int, other))

    return forward


for _name in (
    "add", "radd", "sub", "rsub", "mul", "rmul", "xor", "rxor", "lshift", "neg", "invert",
):  # fmt: skip
    setattr(Mixed, f"__{_name}__", _kept(_name))
for _name in (
    "eq", "ne", "lt", "le", "gt", "ge", "bool", "int", "index", "float", "hash", "repr", "str",
    "format", "iter", "len", "getitem", "contains", "abs", "round", "floor", "ceil", "trunc",
    "mod", "rmod", "divmod", "rdivmod", "floordiv", "rfloordiv", "truediv", "rtruediv", "pow",
    "rpow", "and", "rand", "or", "ror", "rshift", "rrshift", "rlshift", "array", "reduce_ex",
    "array_function",
):  # fmt: skip
    setattr(Mixed, f"__{_name}__", Mixed._refuse)


def remainder(draw: "Base", modulus: int, kind: type) -> Mixed | None:
    """Return a drawn integer modulo ``modulus`` > 0, of type ``kind``; None if it is not known."""
    line = _slanting(draw)
    if line is None:
        return None
    values = min(line.values, modulus // math.gcd(line.a, modulus))
    name = id(draw.atom), line.a % modulus, line.b % modulus, modulus
    return Mixed(draw.atom, name, values, kind)


def exclusive_or(draw: "Base", bits: int, kind: type) -> Mixed | None:
    """Return ``draw ^ bits``, of type ``kind``; None where it is not known what it is."""
    line = _slanting(draw)
    if line is None:
        return None
    return Mixed(draw.atom, (id(draw.atom), line.a, line.b, "xor", bits), line.values, kind)


def with_bits(draw: Any, name: str, other: Any, op: Callable[..., Any]) -> Mixed | None:
    """Return ``draw & other`` or ``draw ^ other``, which is a seed at most, computed as ``op``.

    None for few values, or where it is not known.
    """
    whole = draw.holds_integers() and isinstance(other, int | np.integer)
    if not whole or draw.settles():
        return None
    kind = type(op(type(draw.machine.sample)(1), other))
    bits = int(other)
    if name == "&" and bits >= 0 and bits & (bits + 1) == 0:
        # The lowest bits are a remainder.
        lowest: Mixed = draw.modulo(bits + 1, above_low_bits, op, other)
        return lowest
    if name == "^" and draw.gives(kind, other):
        return exclusive_or(draw, bits, kind)
    return None


def _slanting(draw: "Base") -> Line | None:
    line = line_of(draw.atom, draw.machine)
    return None if line is None or line.a == 0 else line


def above_low_bits(x: Any, mask: Any) -> int:
    """Return the bits above those of a mask of the lowest ones."""
    return int(x) // (int(mask) + 1)
