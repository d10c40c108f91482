"""Integers mixed from a random one, as code mixes its seeds.

``(key + counter * 1_000_003) % 2**63`` is no monotone function of the counter, so nothing can be
followed that asks how large it is. A seed is asked for less: which other seeds are the same, and
of how many values, about equally likely, it is one. Both are known of remainders of ``a n + b``
and of what maps integers one to one. Whatever else is done with such a number is refused.
"""

import math
import operator
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from simverify.symbolic.draws.machine import OVERFLOWS

if TYPE_CHECKING:
    from simverify.symbolic.draws.base import Base
    from simverify.symbolic.draws.path import Atom

_UFUNCS = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.bitwise_xor: "xor",
    np.left_shift: "lshift", np.negative: "neg", np.invert: "invert", np.positive: "pos",
}  # fmt: skip
_AFFINE = (operator.add, operator.sub, operator.mul, operator.lshift, operator.neg, operator.pos)


class Mixed:
    """An integer mixed from ``atom``: one of ``values``; equal ``name``, equal number.

    ``wraps``: it has a type of so many bits, in which an even multiple is one of fewer values.
    """

    def __init__(
        self, atom: "Atom", name: tuple[Hashable, ...], values: int, *, wraps: bool
    ) -> None:
        self.atom = atom
        self.name = name
        self.values = values
        self.wraps = wraps

    # Code may ask for its type.
    __class__ = property(lambda self: int)

    def __pos__(self) -> "Mixed":
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = _UFUNCS.get(ufunc)
        if name is None or method != "__call__" or kwargs:
            self._refuse()
        forward = inputs[0] is self
        operation = getattr(self, f"__{name}__" if forward else f"__r{name}__")
        return operation(*(inputs[1:] if forward else inputs[:1]))

    def _one_to_one(self, *step: Hashable) -> "Mixed":
        return Mixed(self.atom, (*self.name, *step), self.values, wraps=self.wraps)

    def _refuse(self, *_: Any) -> NoReturn:
        self.atom.source.refuse("a random integer mixed with % & or ^, used for more than a seed")


def _kept(name: str) -> Callable[..., Mixed]:
    def forward(self: Mixed, *other: Any) -> Mixed:
        if not all(type(x) is int or isinstance(x, np.integer) for x in other):
            self._refuse()
        if name in ("mul", "rmul") and (other[0] == 0 or (self.wraps and other[0] % 2 == 0)):
            self._refuse()
        if name == "lshift" and self.wraps:
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


def remainder(draw: "Base", modulus: int) -> Mixed | None:
    """Return a drawn integer modulo ``modulus`` > 0; None where it is not known what it is."""
    affine = _affine(draw)
    if affine is None:
        return None
    a, b, count = affine
    values = min(count, modulus // math.gcd(a, modulus))
    name = id(draw.atom), a % modulus, b % modulus, modulus
    return Mixed(draw.atom, name, values, wraps=_wraps(draw))


def exclusive_or(draw: "Base", bits: int) -> Mixed | None:
    """Return ``draw ^ bits``; None where it is not known what it is."""
    affine = _affine(draw)
    if affine is None:
        return None
    a, b, count = affine
    return Mixed(draw.atom, (id(draw.atom), a, b, "xor", bits), count, wraps=_wraps(draw))


def _affine(draw: "Base") -> tuple[int, int, int] | None:
    """Return ``(a, b, count)`` where the draw is exactly a n + b, n one of ``count`` in a row.

    A form is made of floats, and 2**62 integers have more digits. So the operations of the
    machine are done again, on exact integers.
    """
    atom = draw.atom
    if not atom.single or atom.owner is not None:
        return None
    steps, root = [], draw.machine
    while root.before is not None:
        steps.append(root)
        root = root.before
    try:
        first, last = root.op(0), root.op(atom.points - 1)
    except OVERFLOWS:  # of a uniform that is 0
        return None
    if not isinstance(first, int | np.integer) or isinstance(first, bool):
        return None
    if not all(step.op in _AFFINE or _passes(step.op) for step in steps):
        return None

    def exact(n: int) -> int:
        for step in reversed(steps):
            n = n if _passes(step.op) else int(step.apply(n))
        return n

    # More integers than points of the grid: all of them are meant, and the last point is the
    # first of as many as come between two points.
    count = int(last) - int(first) + 1
    count += (count - 1) >> 53
    b = exact(0)
    a = exact(1) - b
    value = draw.machine.values()
    wraps = any(int(value(k)) != exact(int(root.op(k))) for k in (0, atom.points - 1))
    if a == 0 or wraps:
        return None
    return a, b, math.floor(count * (atom.high - atom.low))


def _wraps(draw: "Base") -> bool:
    return isinstance(draw.machine.sample, np.integer)


def _passes(op: Any) -> bool:
    """Whether an operation only makes another type of the same integer."""
    return isinstance(op, type) or getattr(op, "__name__", "") == "_item"
