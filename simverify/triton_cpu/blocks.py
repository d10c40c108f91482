"""Blocks and scalars of a kernel: numbers of one of Triton's types, or symbolic draws.

A :class:`Block` holds a numpy scalar, an array, or the first elements of a long row and the rest
as :class:`LazyLanes`. Its operators are Triton's: their types (:class:`Dtype`), integers that wrap,
division of integers toward zero. Under the exact tier elements may be draws.
"""

# ruff: noqa: D102, D103 - methods and functions whose name and types say what a docstring would

import functools
import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from simverify.errors import Unsupported
from simverify.symbolic.outcomes import active_source
from simverify.symbolic.provenance import is_kernel_runner_file, name_pairs

if TYPE_CHECKING:
    from types import FrameType


# Errors of kernels: one line with the kernel's own file and line.


class OutOfBounds(IndexError):
    """A kernel reads or writes beside a tensor, where no mask keeps it from that."""


def kernel_line() -> str:
    """Return ``file:line`` of the innermost frame that is not of what runs kernels."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_kernel_runner_file(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refuse_kernel(what: str) -> NoReturn:
    """Stop: this is not computed here (:class:`Unsupported`), or in the exact tier not followed."""
    source = active_source()
    if source is not None:
        source.refuse(what)
    raise Unsupported(f"{kernel_line()}: {what}")


# Lazy lanes: the elements of a block beyond those that are written out.
#
# A kernel takes blocks of thousands of lanes, of which a small vocabulary fills the first few; the
# others are masked off. So a :class:`Block` holds its first elements, and a rest that says
# what the others are without computing them: one number, a line (``tl.arange``), or a function that
# computes them if anything asks. Nothing is left out: what depends on the rest asks for it.


INTEGER_TYPES = frozenset(
    getattr(np, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)
)
"""Types of a number of numpy's that is whole."""

_INTEGER_BOUNDS = {
    kind: (int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in INTEGER_TYPES
}
"""The smallest and the largest number of each type."""

_INTEGER_TYPES = (int, np.integer)

LaneFunction = Callable[[int, int], Any]
"""``f(first, end)``: elements first..end - 1, an array."""


class LazyLanes:
    """Elements of a block from some place on; the last ones are kept, as ciphers reuse them."""

    __slots__ = ("_computed", "_made", "_span")

    def __init__(self, made: LaneFunction) -> None:
        self._made = made
        self._span: tuple[int, int] | None = None
        self._computed: Any = None

    def between(self, first: int, end: int) -> Any:
        """Return elements first..end - 1 of the block."""
        if self._span != (first, end):
            self._computed = self._made(first, end)
            self._span = first, end
        return self._computed


class ConstantLanes(LazyLanes):
    """All are one number, in the block's type."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def between(self, first: int, end: int) -> Any:
        if is_number(self.value):
            return np.full(end - first, self.value)
        if not hasattr(self.value, "as_type"):  # the winner of a race: it is read
            return np.full(end - first, int(self.value))
        return np.repeat(self.value[None], end - first)


class ArithmeticLanes(LazyLanes):
    """Element i is ``start + step * i``, integers that the type of the block, ``kind``, holds."""

    __slots__ = ("kind", "start", "step")

    def __init__(self, start: int, step: int, kind: Any) -> None:
        self.start, self.step, self.kind = start, step, kind

    def between(self, first: int, end: int) -> Any:
        if not self.step:
            return np.full(end - first, self.kind(self.start))
        start = self.start + self.step * first
        end = self.start + self.step * end
        return np.arange(start, end, self.step, dtype=self.kind)

    def fits(self, kind: Any, count: int) -> "ArithmeticLanes | None":
        """Return the line in another type of integers, if all ``count`` elements fit in it."""
        first, last = self.start, self.start + self.step * (count - 1)
        low, high = _INTEGER_BOUNDS[kind]
        if low <= first <= high and low <= last <= high:
            return ArithmeticLanes(self.start, self.step, kind)
        return None

    def moved(self, name: str, number: int, *, first: bool) -> "tuple[int, int] | None":
        """Return start and step after an operator, the line ``first`` or behind; None: no line."""
        if name == "add":
            return self.start + number, self.step
        if name == "sub":
            if first:
                return self.start - number, self.step
            return number - self.start, -self.step
        return (self.start * number, self.step * number) if name == "mul" else None

    def cut(self, name: str, number: Any, known: int, count: int) -> int | None:
        """Return from which element on, in known..count, a comparison is settled; None: unknown."""
        if self.step <= 0 or not isinstance(number, _INTEGER_TYPES):
            return None
        bound = int(number)
        if name in ("le", "gt"):
            bound += 1
        place = -((self.start - bound) // self.step)  # the first i with start + step i >= bound
        if name in ("eq", "ne"):
            place = place + 1 if self.start + self.step * place == bound else known
        return min(max(place, known), count)


def is_number(value: Any) -> bool:
    """Whether a value is a number of numpy's: a draw says that it is one, and is not."""
    return issubclass(type(value), np.generic)


_COMPUTED_LANES = frozenset({LazyLanes, ArithmeticLanes})


def combine_lanes(function: Callable[..., Any], rests: Sequence[Any]) -> LazyLanes:
    """Return the rest that ``function`` makes of others, element by element, when it is asked."""
    values = [x.value if type(x) is ConstantLanes else x for x in rests]
    if not _COMPUTED_LANES.intersection(map(type, values)):
        return ConstantLanes(function(*values))

    def made(first: int, end: int) -> Any:
        return function(*[x.between(first, end) if isinstance(x, LazyLanes) else x for x in rests])

    return LazyLanes(made)


# Triton's types of numbers, and which of them an operation computes in.


_NUMPY_TYPES = {kind.__name__: kind for kind in INTEGER_TYPES}
_NUMPY_TYPES |= {"bool_": np.bool_, "float16": np.float16}
_NUMPY_TYPES |= {"float32": np.float32, "float64": np.float64}


class Dtype:
    """One of Triton's types; ``rank``: bool < integers < floats, its ``kind``; ``bits``: width."""

    numpy_name = ""

    def __init__(self, name: str, rank: int, bits: int, *, signed: bool = True) -> None:
        self.name, self.rank, self.bits, self.signed = name, rank, bits, signed
        self.primitive_bitwidth = bits

    @property
    def kind(self) -> Any:
        return _NUMPY_TYPES[self.numpy_name]

    @property
    def scalar(self) -> "Dtype":
        return self

    def is_floating(self) -> bool:
        return self.rank == FLOAT_RANK

    def is_int(self) -> bool:
        """Whether it is a type of integers, bool among them as in Triton."""
        return self.rank < FLOAT_RANK

    def __repr__(self) -> str:
        return self.name


BOOL_RANK, INTEGER_RANK, FLOAT_RANK = 0, 1, 2


def _make_dtype(name: str, triton_name: str, numpy_name: str) -> Dtype:
    """Return a type, of a class of its own in this module.

    An audit that lifts coarser types to float64 rebinds strings that are attributes of a module's
    classes (:mod:`simverify.symbolic.bindings`), so float32 computes in float64 then.
    """
    kind = type(f"_{name.title()}", (Dtype,), {"numpy_name": numpy_name})
    globals()[kind.__name__] = kind
    rank = FLOAT_RANK if "fp" in triton_name else INTEGER_RANK if name != "int1" else BOOL_RANK
    signed = rank == FLOAT_RANK or (rank == INTEGER_RANK and not name.startswith("u"))
    dtype: Dtype = kind(triton_name, rank, int("".join(filter(str.isdigit, name))), signed=signed)
    return dtype


DTYPES = {
    name: _make_dtype(name, triton_name, "bool_" if name == "int1" else name)
    for name, triton_name in name_pairs(
        "int1:int1 int8:int8 int16:int16 int32:int32 int64:int64 uint8:uint8 uint16:uint16 "
        "uint32:uint32 uint64:uint64 float16:fp16 float32:fp32 float64:fp64"
    ).items()
}
int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64, *_ = DTYPES.values()
float16, float32, float64 = (DTYPES[name] for name in ("float16", "float32", "float64"))

DTYPE_BY_NUMPY_NAME = {"bool" if name == "int1" else name: kind for name, kind in DTYPES.items()}
"""By the name of a numpy or torch type."""


def python_number_dtype(value: Any) -> Dtype:
    """Return the type that a number of Python's becomes beside nothing else."""
    if isinstance(value, bool | np.bool_):
        return int1
    if isinstance(value, int):
        ends = ((int32, -(2**31), 2**31), (uint32, 0, 2**32), (int64, -(2**63), 2**63))
        return next((kind for kind, low, end in ends if low <= value < end), uint64)
    tiny, large = 2.0**-126, (2 - 2.0**-23) * 2.0**127
    plain = value != value or abs(value) in (0.0, np.inf) or tiny <= abs(value) <= large
    return float32 if plain else float64


_PROMOTION_CACHE: dict[tuple[Dtype, Dtype, bool], Dtype] = {}


def promoted_dtype(a: Dtype, b: Dtype, *, divides: bool = False) -> Dtype:
    """Return the type in which Triton computes with blocks of two types."""
    key = a, b, divides
    if key not in _PROMOTION_CACHE:
        _PROMOTION_CACHE[key] = _promote_dtypes(a, b, divides)
    return _PROMOTION_CACHE[key]


def _promote_dtypes(a: Dtype, b: Dtype, divides: bool) -> Dtype:
    if FLOAT_RANK in (a.rank, b.rank):
        widest = max((x for x in (a, b) if x.rank == FLOAT_RANK), key=lambda x: x.bits)
        return float32 if widest is float16 and divides else widest
    if divides and a.signed != b.signed:
        refuse_kernel(f"/, // or % of {a} and {b}, whose signs differ: Triton refuses that")
    if a.signed == b.signed:
        return a if a.bits > b.bits else b
    unsigned, signed = (a, b) if not a.signed else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed


def number_dtype(value: Any, other: Dtype, *, divides: bool = False) -> Dtype:
    """Return the type in which a number of Python's meets a block of type ``other``."""
    if not isinstance(value, int | float | np.generic):
        refuse_kernel(f"a {type(value).__name__} beside a block")
    dtype = python_number_dtype(value)
    if dtype.rank > other.rank:
        return promoted_dtype(dtype, other, divides=divides)
    return float32 if divides and other is float16 else other


NUMBER_TYPES = (int, float, np.generic)


class Block:
    """``data``, of type ``dtype``; with a ``rest`` the first of ``count`` elements."""

    __slots__ = ("count", "data", "dtype", "rest")

    def __init__(
        self, data: Any, dtype: Dtype, rest: LazyLanes | None = None, count: int = 0
    ) -> None:
        self.data = data
        self.dtype = dtype
        self.rest = rest
        self.count = count

    # -- what it is --

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count,) if self.rest is not None else np.shape(self.data)

    @property
    def type(self) -> Dtype:
        return self.dtype

    @property
    def is_scalar(self) -> bool:
        return self.rest is None and not isinstance(self.data, np.ndarray)

    def whole(self) -> Any:
        if self.rest is None:
            return self.data
        return concatenate(self.data, self.rest.between(len(self.data), self.count))

    def first(self, count: int) -> Any:
        """Return the first elements of a row, or the number of a scalar."""
        if self.rest is None:
            return self.data[:count] if isinstance(self.data, np.ndarray) else self.data
        known = len(self.data)
        if known >= count:
            return self.data[:count]
        return concatenate(self.data, self.rest.between(known, count))

    def to(self, dtype: Any, *, bitcast: bool = False, fp_downcast_rounding: Any = None) -> "Block":
        """Return the elements as another type; ``bitcast``: their bits."""
        if dtype is self.dtype:
            return self
        if bitcast:
            if self.dtype.is_floating() or dtype.is_floating():
                refuse_kernel("the bits of floats read as another type")
            return elementwise(lambda x: x.view(dtype.kind), dtype, self)
        kind = dtype.kind
        if self.rest is None and type(self.data) in INTEGER_TYPES and dtype.rank == INTEGER_RANK:
            return Block(self.data.astype(kind), dtype)
        if dtype is int1:
            return elementwise(lambda x: np.not_equal(x, 0), int1, self)
        if isinstance(self.rest, ArithmeticLanes) and not dtype.is_floating():
            line = self.rest.fits(kind, self.count)
            if line is not None:
                return Block(cast_data(self.data, kind), dtype, line, self.count)
        if self.rest is None:
            return Block(cast_data(self.data, kind), dtype)
        return elementwise(lambda x: cast_data(x, kind), dtype, self)

    # -- numbers of Python's --

    def __bool__(self) -> bool:
        if not self.is_scalar:
            refuse_kernel(
                f"`if` or `and` of a block of shape {self.shape}: Triton decides on scalars"
            )
        return bool(self.data)

    def __index__(self) -> int:
        if not self.is_scalar or self.dtype.is_floating():
            refuse_kernel(
                f"a block {self.dtype} of shape {self.shape} where a whole number is needed"
            )
        return operator.index(self.data if self.dtype is not int1 else int(self.data))

    __int__ = __index__

    def __iter__(self) -> Any:
        refuse_kernel("a loop over a block")

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> "Block":
        places = index if isinstance(index, tuple) else (index,)
        if not all(x is None or (isinstance(x, slice) and x == slice(None)) for x in places):
            refuse_kernel("an element of a block: Triton has [:, None] and the like alone")
        return Block(np.asanyarray(self.whole())[places], self.dtype)

    # -- operators: those with two operands are set below --

    if TYPE_CHECKING:

        def __add__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rshift__(self, other: Any) -> Any: ...

    def __neg__(self) -> "Block":
        return elementwise(_negate, self.dtype, self)

    def __invert__(self) -> "Block":
        return elementwise(operator.invert, self.dtype, self)

    def logical_not(self) -> "Block":
        return elementwise(lambda x: np.equal(x, 0), int1, self)


def _negate(x: Any) -> Any:
    # As Triton: of 0.0 that is 0.0, and not -0.0.
    plain = type(x) is np.ndarray or isinstance(x, np.generic)
    return x.dtype.type(0) - x if plain else -x


def cast_data(data: Any, kind: Any) -> Any:
    """Return numbers or draws as a numpy type."""
    if isinstance(data, np.ndarray):
        return data.astype(kind)
    # An unread winner of a race stays one; a draw casts itself.
    cast = getattr(data, "as_type", kind)
    return cast(kind) if cast is not kind else kind(data)


def concatenate(head: Any, more: Any) -> Any:
    if not len(head):
        return more
    return np.concatenate([head, more]) if len(more) else head


def scalar_block(value: Any, dtype: Dtype | None = None) -> Block:
    if dtype is not None:
        return Block(dtype.kind(value), dtype)
    if type(value) is float or (type(value) is int and 0 <= value < _CACHED_INTEGERS):
        # Of equal numbers, 1 is another than 1.0, and 0.0 than -0.0.
        sort, sign = type(value).__name__, math.copysign(1.0, value)
        return _number_block(value, sort, sign, float32.numpy_name)
    return _number_block.__wrapped__(value)


_CACHED_INTEGERS = 65536


@functools.lru_cache(maxsize=4096)
def _number_block(value: Any, *_: Any) -> Block:
    kind = python_number_dtype(value)
    return Block(kind.kind(value), kind)


def as_block(value: Any) -> Block:
    """Return an operand as a block. Refuses what is none."""
    if type(value) is Block:
        return value
    if isinstance(value, NUMBER_TYPES):
        return scalar_block(value + 0.0 if type(value) is float else value)  # as Triton: no -0.0
    return refuse_kernel(f"a {type(value).__name__} where a block or a number is expected")


@functools.lru_cache(maxsize=64)
def _empty_array(kind: Any) -> Any:
    return np.zeros(0, kind)


def elementwise(function: Callable[..., Any], dtype: Dtype, *blocks: Block) -> Block:
    """Return ``function`` of every element, in the operands' types; they spread as numpy's do."""
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
    head = function(*[x.first(known) for x in blocks]) if known else _empty_array(dtype.kind)
    if known == count:
        return Block(head, dtype)
    rest = combine_lanes(function, [x.data if x.rest is None else x.rest for x in blocks])
    return Block(head, dtype, rest, count)


def promote_operands(a: Any, b: Any, *, divides: bool = False) -> tuple[Block, Block, Dtype]:
    """Return two operands in the type that Triton computes with them in."""
    if type(a) is Block and type(b) is Block:
        if a.dtype is b.dtype and not divides:
            return a, b, a.dtype
        kind = promoted_dtype(a.dtype, b.dtype, divides=divides)
        return a.to(kind), b.to(kind), kind
    if type(a) is Block:
        number = _promoted_number(b, a.dtype, divides)
        return a.to(number.dtype), number, number.dtype
    if type(b) is Block:
        number = _promoted_number(a, b.dtype, divides)
        return number, b.to(number.dtype), number.dtype
    return promote_operands(as_block(a), as_block(b), divides=divides)


_SAME_TYPE_NUMBERS: dict[tuple[Any, ...], Block] = {}
_NUMBERS_CACHE: dict[tuple[Any, ...], Block] = {}
"""Numbers of Python's beside a type, which kernels are full of."""

_MAX_CACHED_NUMBERS = 4096


def cached_number(value: Any, other: Block) -> Block | None:
    """Return a number as it met a type before; None: not yet, no number, or of another type."""
    kind = other.dtype
    if type(value) is int:
        return _SAME_TYPE_NUMBERS.get((value, kind, kind.numpy_name))
    if type(value) is float:
        return _SAME_TYPE_NUMBERS.get((value, "float", kind, kind.numpy_name))
    return None


def _promoted_number(value: Any, other: Dtype, divides: bool) -> Block:
    """Return a number of Python's as it meets a block of type ``other``."""
    # True is another number than 1.
    key = type(value), value, other.name, other.numpy_name, divides
    known = _NUMBERS_CACHE.get(key)
    if known is None:
        if len(_NUMBERS_CACHE) >= _MAX_CACHED_NUMBERS:
            _NUMBERS_CACHE.clear()
            _SAME_TYPE_NUMBERS.clear()
        known = _NUMBERS_CACHE[key] = _checked_number(
            value, number_dtype(value, other, divides=divides)
        )
        if known.dtype is other and type(value) in (int, float) and not divides:
            sort = () if type(value) is int else ("float",)  # 1.0 is another number than 1
            _SAME_TYPE_NUMBERS[value, *sort, other, other.numpy_name] = known
    return known


def _checked_number(value: Any, kind: Dtype) -> Block:
    if not kind.is_floating() and kind is not int1:
        ends = np.iinfo(kind.kind)
        if not ends.min <= value <= ends.max:
            refuse_kernel(
                f"{value} beside a block {kind}, which does not hold it: Triton refuses that"
            )
    return Block(kind.kind(value or 0), kind)  # as in Triton a zero has no sign


# Triton's operators on blocks.


COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_NEUTRAL_OPERAND = {"add": 0, "sub": 0, "mul": 1}
"""With which number an operation changes nothing."""

_NO_ANSWERS = np.zeros(0, np.bool_)

_SWAPPED_COMPARISON = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _binary_operator(
    name: str, function: Callable[..., Any], *, compares: bool = False
) -> tuple[Any, Any]:
    """Return an operator of a block and an operand, and the one whose operands are exchanged."""

    # Kernels are mostly arithmetic on scalars, which therefore comes first.
    def apply(a: Block, b: Any) -> Any:
        if type(b) is Block:
            x, y, kind = (a, b, a.dtype) if a.dtype is b.dtype else promote_operands(a, b)
        elif (known := cached_number(b, a)) is not None:
            x, y, kind = a, known, a.dtype
        elif not isinstance(b, NUMBER_TYPES) and hasattr(b, "is_pointer"):
            return NotImplemented
        else:
            x, y, kind = promote_operands(a, b)
        if x.rest is None and y.rest is None:
            return Block(function(x.data, y.data), int1 if compares else kind)
        return of_rows(x, y, kind)

    def exchanged(b: Block, a: Any) -> Any:
        if (known := cached_number(a, b)) is not None:
            x, y, kind = known, b, b.dtype
        else:
            x, y, kind = promote_operands(a, b)
        if y.rest is None and x.rest is None:
            return Block(function(x.data, y.data), int1 if compares else kind)
        return of_rows(x, y, kind)

    def of_rows(x: Block, y: Block, kind: Dtype) -> Block:
        result = int1 if compares else kind
        if (made := _combine_constant_tails(function, result, x, y)) is not None:
            return made
        line, number = (x, y) if isinstance(x.rest, ArithmeticLanes) else (y, x)
        if isinstance(line.rest, ArithmeticLanes):
            if compares:
                return _compare_line(
                    _SWAPPED_COMPARISON[name] if line is y else name, line, number, function, x, y
                )
            whole = None if kind.is_floating() else _single_integer(number)
            if whole is not None:
                shifted = _shift_line(name, function, x, y, line, whole, kind)
                if shifted is not None:
                    return shifted
        return elementwise(function, result, x, y)

    return apply, exchanged


def _combine_constant_tails(
    function: Callable[..., Any], kind: Dtype, x: Block, y: Block
) -> Block | None:
    """Return what :func:`elementwise` gives of numbers and constant tails, sooner; or None."""
    known = len(y.data if x.rest is None else x.data)
    tails = []
    for z in (x, y):
        if z.rest is None:
            if isinstance(z.data, np.ndarray):
                return None
            tails.append(z.data)
        elif type(z.rest) is not ConstantLanes or len(z.data) != known:
            return None
        else:
            tails.append(z.rest.value)
    last = function(*tails)
    head = function(x.data, y.data) if known else np.zeros(0, kind.kind)
    return Block(head, kind, ConstantLanes(last), x.count or y.count)


def _single_integer(block: Block) -> int | None:
    """Return the number of a scalar, or of a block that is one number; None if it is no such."""
    data = block.data
    if isinstance(block.rest, ConstantLanes) and not len(data):
        data = block.rest.value
    elif not block.is_scalar:
        return None
    return int(data) if issubclass(type(data), np.integer) else None


def _shift_line(
    name: str, function: Any, x: Block, y: Block, line: Block, whole: int, kind: Dtype
) -> Block | None:
    """Return a line after an operation with a number, if it is a line still and does not wrap."""
    assert isinstance(line.rest, ArithmeticLanes)
    if whole == _NEUTRAL_OPERAND.get(name) and (name != "sub" or line is x):
        return line
    ends = line.rest.moved(name, whole, first=line is x)
    fits = None if ends is None else ArithmeticLanes(*ends, kind.kind).fits(kind.kind, line.count)
    if fits is None:
        return None
    known = len(line.data)
    head = function(x.first(known), y.first(known)) if known else line.data
    return Block(head, kind, fits, line.count)


def _compare_line(
    name: str, line: Block, number: Block, function: Any, x: Block, y: Block
) -> Block:
    """Compare a line with a number: from some element on there is one answer."""
    assert isinstance(line.rest, ArithmeticLanes)
    value = _single_integer(number)
    place = None if value is None else line.rest.cut(name, value, len(line.data), line.count)
    if place is None:
        return elementwise(function, int1, x, y)
    # A line that rises: below the place it is smaller, and from it on it is not.
    answer = name in ("ge", "gt", "ne")
    if len(line.data) or name in ("eq", "ne"):
        if place > len(line.data):
            # More of the line's elements are written out.
            whole = place >= line.count
            rest = None if whole else line.rest
            written = Block(line.first(place), line.dtype, rest, 0 if whole else line.count)
            x, y = (written if z is line else z for z in (x, y))
        head = function(x.first(place), y.first(place)) if place else _NO_ANSWERS
    else:
        head = np.full(place, not answer)
    if place == line.count:
        return Block(head, int1)
    return Block(head, int1, ConstantLanes(np.bool_(answer)), line.count)


def truncated_division(x: Any, y: Any) -> Any:
    """Return ``x // y`` of integers as C does it."""
    # Triton divides integers as C does. By zero the result is undefined; here it is numpy's.
    if type(x) in INTEGER_TYPES and x >= 0 and y > 0:
        return x // y
    return (x - np.fmod(x, y)) // y


def truncated_remainder(x: Any, y: Any) -> Any:
    if type(x) in INTEGER_TYPES and x >= 0 and y > 0:
        return x % y
    return np.fmod(x, y)


def _division(function: Callable[..., Any], name: str) -> tuple[Any, Any]:
    def divide(a: Any, b: Any) -> Any:
        x, y, kind = promote_operands(a, b, divides=True)
        if name == "truediv" and not kind.is_floating():
            x, y, kind = x.to(float32), y.to(float32), float32
        if name == "floordiv" and kind.is_floating():
            refuse_kernel("// of floats, which Triton refuses too")
        return elementwise(function, kind, x, y)

    return divide, lambda b, a: divide(a, b)


def _bitwise_operator(name: str, function: Callable[..., Any]) -> tuple[Any, Any]:
    def whole(apply: Callable[[Block, Any], Any]) -> Callable[[Block, Any], Any]:
        def bitwise(a: Block, b: Any) -> Any:
            other = b.dtype.rank == FLOAT_RANK if type(b) is Block else isinstance(b, float)
            if other or a.dtype.rank == FLOAT_RANK:
                refuse_kernel(f"`{name}` of floats, which Triton refuses too")
            return apply(a, b)

        return bitwise

    apply, exchanged = _binary_operator(name, function)
    return whole(apply), whole(exchanged)


def _install_operator(name: str, both: tuple[Any, Any]) -> None:
    function, exchanged = both
    setattr(Block, f"__{name}__", function)
    setattr(Block, f"__r{name}__", exchanged)


for _name in COMPARISONS:
    setattr(
        Block, f"__{_name}__", _binary_operator(_name, getattr(operator, _name), compares=True)[0]
    )
for _name in ("add", "sub", "mul"):
    _install_operator(_name, _binary_operator(_name, getattr(operator, _name)))
for _name, _function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
    _install_operator(_name, _bitwise_operator(_name, _function))
for _name in ("lshift", "rshift"):
    _install_operator(_name, _bitwise_operator(_name, getattr(operator, _name)))
for _name, _function in (
    ("truediv", operator.truediv),
    ("floordiv", truncated_division),
    ("mod", truncated_remainder),
):
    _install_operator(_name, _division(_function, _name))
