"""What stands for a value of a kernel while it is translated: its type, and the code of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simverify.engines.tiles.types import Dtype, int1


class Untranslatable(Exception):
    """A kernel does what is not translated; its blocks are computed one by one then."""


class Value:
    """A value of a kernel."""


@dataclass(frozen=True, eq=False)
class Known(Value):
    """A value that is known: a constant, a type, a function, a module."""

    value: Any


NOTHING, YES, NO = Known(None), Known(True), Known(False)


@dataclass(frozen=True, eq=False)
class Scalar(Value):
    """A number of one of numpy's types; ``known``: what it is, where an assignment said that."""

    code: str
    dtype: Dtype
    known: Any = None


@dataclass(frozen=True, eq=False)
class Row(Value):
    """A row of ``count`` elements; an array holds the first ``length``, the others are as its last.

    Kernels take rows of thousands of lanes, of which a small vocabulary fills the first few.
    ``length`` is code: a variable, or the number itself where all are in the array.
    """

    code: str
    dtype: Dtype
    count: int
    length: str


@dataclass(frozen=True, eq=False)
class Lazy(Value):
    """A row of which elements are computed when they are asked for: ``make(length)`` is their code.

    ``line``: code of start and step, where element i is ``start + step * i``, and does not wrap.
    """

    dtype: Dtype
    count: int
    make: Callable[[str], str]
    line: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Prefix(Value):
    """A row of truths: the first ``kept`` hold, and no others. ``length`` as of a row."""

    count: int
    length: str
    kept: str
    dtype: Dtype = int1


@dataclass(frozen=True, eq=False)
class Array(Value):
    """A block of several dimensions."""

    code: str
    dtype: Dtype
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Tensor:
    """The memory of an argument: code of its elements and of how many they are."""

    name: str
    code: str
    size: str
    dtype: Dtype


@dataclass(frozen=True, eq=False)
class Place(Value):
    """A pointer: ``offset`` is code of a whole number of Python's, ``index`` a block on it."""

    memory: Tensor
    offset: str = "0"
    index: Value | None = None


@dataclass(frozen=True, eq=False)
class Several(Value):
    """A tuple."""

    items: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Method(Value):
    """A method of a block, which is called."""

    owner: Value
    name: str


Rows = Row | Lazy | Prefix
Block = Scalar | Array | Rows


def is_number(value: Any) -> bool:
    """Whether a value is a known number."""
    return isinstance(value, Known) and isinstance(value.value, int | float)
