"""Triton's types of numbers, and which of them an operation computes in."""

from typing import Any

import numpy as np

from simverify.engines.tiles.refusals import refuse

_NUMPY = {
    name: getattr(np, name)
    for name in (
        *("bool_", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"),
    )
}


WHOLE = frozenset(kind for kind in _NUMPY.values() if issubclass(kind, np.integer))
"""Types of a number of numpy's that is whole."""


class Dtype:
    """A type: its name as Triton's, its order among types, and the numpy type that computes it.

    ``rank``: bool < integers < floats, as Triton's ``kind``; ``bits``: its width.
    """

    numpy_name = ""

    def __init__(self, name: str, rank: int, bits: int, *, signed: bool = True) -> None:
        self.name, self.rank, self.bits, self.signed = name, rank, bits, signed
        self.primitive_bitwidth = bits

    @property
    def kind(self) -> Any:
        """The numpy type."""
        return _NUMPY[self.numpy_name]

    @property
    def scalar(self) -> "Dtype":
        """The type of an element, which is itself."""
        return self

    def is_floating(self) -> bool:
        """Whether it is a type of floats."""
        return self.rank == FLOAT

    def is_int(self) -> bool:
        """Whether it is a type of integers, bool among them as in Triton."""
        return self.rank < FLOAT

    def __repr__(self) -> str:
        return self.name


BOOL, INTEGER, FLOAT = 0, 1, 2


# The names are attributes of classes: an audit that lifts coarser types to float64 rebinds such
# strings (simverify.symbolic.stand_ins.lift), so float32 computes in float64 then.
class _Bool(Dtype):
    numpy_name = "bool_"


class _Int8(Dtype):
    numpy_name = "int8"


class _Int16(Dtype):
    numpy_name = "int16"


class _Int32(Dtype):
    numpy_name = "int32"


class _Int64(Dtype):
    numpy_name = "int64"


class _Uint8(Dtype):
    numpy_name = "uint8"


class _Uint16(Dtype):
    numpy_name = "uint16"


class _Uint32(Dtype):
    numpy_name = "uint32"


class _Uint64(Dtype):
    numpy_name = "uint64"


class _Float16(Dtype):
    numpy_name = "float16"


class _Float32(Dtype):
    numpy_name = "float32"


class _Float64(Dtype):
    numpy_name = "float64"


int1 = _Bool("int1", BOOL, 1, signed=False)
int8, int16 = _Int8("int8", INTEGER, 8), _Int16("int16", INTEGER, 16)
int32, int64 = _Int32("int32", INTEGER, 32), _Int64("int64", INTEGER, 64)
uint8 = _Uint8("uint8", INTEGER, 8, signed=False)
uint16 = _Uint16("uint16", INTEGER, 16, signed=False)
uint32 = _Uint32("uint32", INTEGER, 32, signed=False)
uint64 = _Uint64("uint64", INTEGER, 64, signed=False)
float16 = _Float16("fp16", FLOAT, 16)
float32 = _Float32("fp32", FLOAT, 32)
float64 = _Float64("fp64", FLOAT, 64)

DTYPES = {
    "int1": int1, "int8": int8, "int16": int16, "int32": int32, "int64": int64,
    "uint8": uint8, "uint16": uint16, "uint32": uint32, "uint64": uint64,
    "float16": float16, "float32": float32, "float64": float64,
}  # fmt: skip

OF_NUMPY = {
    "bool": int1,
    **{name: kind for name, kind in DTYPES.items() if name != "int1"},
}
"""By the name of a numpy or torch type."""


def dtype_of(value: Any) -> Dtype:
    """Return the type that a number of Python's becomes beside nothing else."""
    if isinstance(value, bool | np.bool_):
        return int1
    if isinstance(value, int):
        ends = ((int32, -(2**31), 2**31), (uint32, 0, 2**32), (int64, -(2**63), 2**63))
        return next((kind for kind, low, end in ends if low <= value < end), uint64)
    tiny, large = 2.0**-126, (2 - 2.0**-23) * 2.0**127
    plain = value != value or abs(value) in (0.0, np.inf) or tiny <= abs(value) <= large
    return float32 if plain else float64


_PROMOTED: dict[tuple[Dtype, Dtype, bool], Dtype] = {}


def promoted(a: Dtype, b: Dtype, *, divides: bool = False) -> Dtype:
    """Return the type in which Triton computes with blocks of two types."""
    key = a, b, divides
    if key not in _PROMOTED:
        _PROMOTED[key] = _promoted(a, b, divides)
    return _PROMOTED[key]


def _promoted(a: Dtype, b: Dtype, divides: bool) -> Dtype:
    if FLOAT in (a.rank, b.rank):
        widest = max((x for x in (a, b) if x.rank == FLOAT), key=lambda x: x.bits)
        return float32 if widest is float16 and divides else widest
    if divides and a.signed != b.signed:
        refuse(f"/, // or % of {a} and {b}, whose signs differ: Triton refuses that")
    if a.signed == b.signed:
        return a if a.bits > b.bits else b
    unsigned, signed = (a, b) if not a.signed else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed


def beside(value: Any, other: Dtype, *, divides: bool = False) -> Dtype:
    """Return the type in which a number of Python's meets a block of type ``other``."""
    if not isinstance(value, int | float | np.generic):
        refuse(f"a {type(value).__name__} beside a block")
    own = dtype_of(value)
    if own.rank > other.rank:
        return promoted(own, other, divides=divides)
    return float32 if divides and other is float16 else other
