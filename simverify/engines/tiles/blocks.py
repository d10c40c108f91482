"""Blocks and scalars of a kernel: numbers of one of Triton's types, or draws.

A :class:`Block` holds a scalar of numpy's, an array, or the first elements of a long row and a
rest (:mod:`.rests`). Its operators are Triton's: their types (:mod:`.types`), integers that wrap,
division of integers toward zero. Under the exact tier elements may be draws.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from simverify.engines.tiles.refusals import refuse
from simverify.engines.tiles.rests import Line, Rest, combined
from simverify.engines.tiles.types import (
    INTEGER,
    WHOLE,
    Dtype,
    beside,
    dtype_of,
    float32,
    int1,
    int32,
    promoted,
)

NUMBERS = (int, float, np.generic)


class Block:
    """``data``, of type ``dtype``; with a ``rest`` the first of ``count`` elements."""

    __slots__ = ("count", "data", "dtype", "rest")

    def __init__(self, data: Any, dtype: Dtype, rest: Rest | None = None, count: int = 0) -> None:
        self.data = data
        self.dtype = dtype
        self.rest = rest
        self.count = count

    # -- what it is --

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape; () of a scalar."""
        return (self.count,) if self.rest is not None else np.shape(self.data)

    @property
    def type(self) -> Dtype:
        """The type, as ``dtype``."""
        return self.dtype

    @property
    def is_scalar(self) -> bool:
        """Whether it is one number."""
        return self.rest is None and not isinstance(self.data, np.ndarray)

    def whole(self) -> Any:
        """Return all elements, written out."""
        if self.rest is None:
            return self.data
        return joined(self.data, self.rest.between(len(self.data), self.count))

    def first(self, count: int) -> Any:
        """Return the first elements of a row, or the number of a scalar."""
        if self.rest is None:
            return self.data[:count] if isinstance(self.data, np.ndarray) else self.data
        known = len(self.data)
        if known >= count:
            return self.data[:count]
        return joined(self.data, self.rest.between(known, count))

    def to(self, dtype: Any, *, bitcast: bool = False, fp_downcast_rounding: Any = None) -> "Block":
        """Return the elements as another type; ``bitcast``: their bits."""
        if dtype is self.dtype:
            return self
        if bitcast:
            if self.dtype.is_floating() or dtype.is_floating():
                refuse("the bits of floats read as another type")
            return elementwise(lambda x: x.view(dtype.kind), dtype, self)
        kind = dtype.kind
        if self.rest is None and type(self.data) in WHOLE and dtype.rank == INTEGER:
            return Block(self.data.astype(kind), dtype)
        if dtype is int1:
            return elementwise(lambda x: np.not_equal(x, 0), int1, self)
        if isinstance(self.rest, Line) and not dtype.is_floating():
            line = self.rest.fits(kind, self.count)
            if line is not None:
                return Block(cast(self.data, kind), dtype, line, self.count)
        if self.rest is None:
            return Block(cast(self.data, kind), dtype)
        return elementwise(lambda x: cast(x, kind), dtype, self)

    # -- numbers of Python's --

    def __bool__(self) -> bool:
        if not self.is_scalar:
            refuse(f"`if` or `and` of a block of shape {self.shape}: Triton decides on scalars")
        return bool(self.data)

    def __index__(self) -> int:
        if not self.is_scalar or self.dtype.is_floating():
            refuse(f"a block {self.dtype} of shape {self.shape} where a whole number is needed")
        return operator.index(self.data if self.dtype is not int1 else int(self.data))

    __int__ = __index__

    def __iter__(self) -> Any:
        refuse("a loop over a block")

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> "Block":
        places = index if isinstance(index, tuple) else (index,)
        if not all(x is None or (isinstance(x, slice) and x == slice(None)) for x in places):
            refuse("an element of a block: Triton has [:, None] and the like alone")
        return Block(np.asanyarray(self.whole())[places], self.dtype)

    # -- operators: those with two operands are in operators.py --

    if TYPE_CHECKING:

        def __add__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rshift__(self, other: Any) -> Any: ...

    def __neg__(self) -> "Block":
        return elementwise(_taken_from_zero, self.dtype, self)

    def __invert__(self) -> "Block":
        return elementwise(operator.invert, self.dtype, self)

    def logical_not(self) -> "Block":
        """Return whether each element is 0."""
        return elementwise(lambda x: np.equal(x, 0), int1, self)


def _taken_from_zero(x: Any) -> Any:
    # As Triton: of 0.0 that is 0.0, and not -0.0.
    plain = type(x) is np.ndarray or isinstance(x, np.generic)
    return x.dtype.type(0) - x if plain else -x


def cast(data: Any, kind: Any) -> Any:
    """Return numbers or draws as a numpy type."""
    if isinstance(data, np.ndarray):
        return data.astype(kind)
    kinds = getattr(data, "as_type", None)
    # An unread winner of a race stays one; a draw casts itself.
    if kinds is not None:
        return kinds(kind)
    return kind(data)


def joined(head: Any, more: Any) -> Any:
    """Return an array after another."""
    if not len(head):
        return more
    return np.concatenate([head, more]) if len(more) else head


def constant(value: Any, dtype: Dtype | None = None) -> Block:
    """Return a number of Python's as a scalar block."""
    if dtype is not None:
        return Block(dtype.kind(value), dtype)
    if type(value) is int and 0 <= value < _FEW:
        return _small(value, int32.numpy_name)
    if type(value) is float:
        return _float(value, math.copysign(1.0, value), float32.numpy_name)
    kind = dtype_of(value)
    return Block(kind.kind(value), kind)


_FEW = 65536


@functools.lru_cache(maxsize=4096)
def _small(value: int, name: str) -> Block:
    return Block(int32.kind(value), int32)


@functools.lru_cache(maxsize=4096)
def _float(value: float, sign: float, name: str) -> Block:
    kind = dtype_of(value)
    return Block(kind.kind(value), kind)


def block_of(value: Any) -> Block:
    """Return an operand as a block. Refuses what is none."""
    if type(value) is Block:
        return value
    if isinstance(value, NUMBERS):
        return constant(value + 0.0 if type(value) is float else value)  # as Triton: no -0.0
    return refuse(f"a {type(value).__name__} where a block or a number is expected")


@functools.lru_cache(maxsize=64)
def _none(kind: Any) -> Any:
    return np.zeros(0, kind)


def elementwise(function: Callable[..., Any], dtype: Dtype, *blocks: Block) -> Block:
    """Return ``function`` of every element; blocks are spread as numpy's arrays are.

    The operands have the types that ``function`` is to see; it must work element by element.
    """
    for x in blocks:
        if x.rest is not None:
            count = x.count
            break
    else:
        return Block(function(*[x.data for x in blocks]), dtype)
    known = 0
    for x in blocks:
        if x.rest is not None:
            known = max(known, len(x.data))
        elif isinstance(x.data, np.ndarray):
            known = count
            if x.data.shape != (count,):
                return Block(function(*[x.whole() for x in blocks]), dtype)
    head = function(*[x.first(known) for x in blocks]) if known else _none(dtype.kind)
    if known == count:
        return Block(head, dtype)
    rest = combined(function, [x.data if x.rest is None else x.rest for x in blocks])
    return Block(head, dtype, rest, count)


def extended(block: Block, known: int) -> Block:
    """Return a block with more of its elements written out."""
    if block.rest is None or known <= len(block.data):
        return block
    if known >= block.count:
        return Block(block.whole(), block.dtype)
    return Block(block.first(known), block.dtype, block.rest, block.count)


def operands(a: Any, b: Any, *, divides: bool = False) -> tuple[Block, Block, Dtype]:
    """Return two operands in the type that Triton computes with them in."""
    if type(a) is Block and type(b) is Block:
        if a.dtype is b.dtype and not divides:
            return a, b, a.dtype
        kind = promoted(a.dtype, b.dtype, divides=divides)
        return a.to(kind), b.to(kind), kind
    if type(a) is Block:
        number = _number(b, a.dtype, divides)
        return a.to(number.dtype), number, number.dtype
    if type(b) is Block:
        number = _number(a, b.dtype, divides)
        return number, b.to(number.dtype), number.dtype
    return operands(block_of(a), block_of(b), divides=divides)


_BESIDE: dict[tuple[Any, ...], Block] = {}
_KNOWN: dict[tuple[Any, ...], Block] = {}
"""Numbers of Python's beside a type, which kernels are full of."""

_MOST = 4096


def beside_known(value: Any, other: Block) -> Block | None:
    """Return a number of Python's in the type of the block it meets, as it was found before.

    None for what was not met yet, is no such number, or has another type beside it.
    """
    kind = other.dtype
    if type(value) is int:
        return _BESIDE.get((value, kind, kind.numpy_name))
    if type(value) is float:
        return _BESIDE.get((value, "float", kind, kind.numpy_name))
    return None


def _number(value: Any, other: Dtype, divides: bool) -> Block:
    """Return a number of Python's as it meets a block of type ``other``."""
    # True is another number than 1.
    key = type(value), value, other.name, other.numpy_name, divides
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
            _BESIDE.clear()
        known = _KNOWN[key] = _made(value, beside(value, other, divides=divides))
        if known.dtype is other and type(value) in (int, float) and not divides:
            sort = () if type(value) is int else ("float",)  # 1.0 is another number than 1
            _BESIDE[value, *sort, other, other.numpy_name] = known
    return known


def _made(value: Any, kind: Dtype) -> Block:
    if not kind.is_floating() and kind is not int1:
        ends = np.iinfo(kind.kind)
        if not ends.min <= value <= ends.max:
            refuse(f"{value} beside a block {kind}, which does not hold it: Triton refuses that")
    return Block(kind.kind(value or 0), kind)  # as in Triton a zero has no sign
