"""``triton.language`` and ``triton``: the names that a kernel uses of them."""

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from simverify.engines.tiles import access, kernels, random, reductions
from simverify.engines.tiles.blocks import Block, block_of, constant, elementwise, operands
from simverify.engines.tiles.kernels import loop
from simverify.engines.tiles.refusals import refuse
from simverify.engines.tiles.rests import Constant, Line, is_number
from simverify.engines.tiles.types import DTYPES, Dtype, float32, int1, int32

FEW = 32
"""So many lanes are written out: what the others are of longer rows would take longer to say."""


class Names:
    """Names that stand for a module; one that is not there is refused, with the line it is on."""

    def __init__(self, name: str, names: dict[str, Any]) -> None:
        self.__name__ = name
        vars(self).update(names)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"{self.__name__}.{name}, which is not known here")


def arange(start: Any, end: Any) -> Block:
    """Return start..end - 1, int32."""
    first, count = int(start), int(end) - int(start)
    if count <= 0 or count & (count - 1):
        refuse(f"tl.arange of {count} elements: Triton takes powers of two")
    if count <= FEW:
        return Block(np.arange(first, first + count, dtype=int32.kind), int32)
    return Block(np.zeros(0, int32.kind), int32, Line(first, 1, int32.kind), count)


def full(shape: Any, value: Any, dtype: Dtype) -> Block:
    """Return a block of one number."""
    number = block_of(value).to(dtype)
    return broadcast_to(number, shape)


def zeros(shape: Any, dtype: Dtype) -> Block:
    """Return a block of zeros."""
    return full(shape, constant(0, int32), dtype)


def broadcast_to(block: Any, *shape: Any) -> Block:
    """Return a block spread to a shape."""
    given = block_of(block)
    sides = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    sides = tuple(int(n) for n in sides)
    if given.is_scalar:
        if not sides:
            return given
        if len(sides) == 1:
            return Block(np.zeros(0, given.dtype.kind), given.dtype, Constant(given.data), *sides)
        return Block(np.broadcast_to(np.asanyarray(given.data), sides), given.dtype)
    return (
        given if given.shape == sides else Block(np.broadcast_to(given.whole(), sides), given.dtype)
    )


def where(condition: Any, x: Any, y: Any) -> Block:
    """Return elements of ``x`` where the condition holds, and of ``y`` elsewhere."""
    gate = block_of(condition).to(int1)
    # A number of Python's is a block of its own type first: 0.1 is one of float32.
    one, other, kind = operands(block_of(x), block_of(y))
    if gate.is_scalar and one.is_scalar and other.is_scalar:
        return one if bool(gate.data) else other
    if isinstance(gate.rest, Constant) and is_number(gate.rest.value):
        known = len(gate.data)
        chosen = one if gate.rest.value else other
        if all(z.is_scalar or z.shape == gate.shape for z in (one, other)):
            head = np.zeros(0, kind.kind)
            if known:
                head = _chosen(gate.data, one.first(known), other.first(known))
            if chosen.is_scalar:
                return Block(head, kind, Constant(chosen.data), gate.count)
            if chosen.rest is not None and len(chosen.data) <= known:
                return Block(head, kind, chosen.rest, gate.count)
    return elementwise(_chosen, kind, gate, one, other)


def _chosen(gate: Any, x: Any, y: Any) -> Any:
    if not isinstance(gate, np.ndarray) and not any(isinstance(z, np.ndarray) for z in (x, y)):
        return x if gate else y
    return np.where(gate, x, y)


def _of_two(ufunc: Any) -> Callable[..., Block]:
    def apply(x: Any, y: Any, propagate_nan: Any = None) -> Block:
        one, other, kind = operands(block_of(x), block_of(y))
        return elementwise(ufunc, kind, one, other)

    return apply


def _of_one(ufunc: Any) -> Callable[..., Block]:
    def apply(x: Any) -> Block:
        given = block_of(x)
        if not given.dtype.is_floating() or given.dtype.bits < float32.bits:
            refuse(f"{ufunc.__name__} of a block {given.dtype}: Triton takes fp32 and fp64")
        return elementwise(ufunc, given.dtype, given)

    return apply


def _abs(x: Any) -> Block:
    given = block_of(x)
    return elementwise(abs, given.dtype, given)


def _sigmoid(x: Any) -> Block:
    given = block_of(x)
    return elementwise(lambda z: 1 / (1 + np.exp(-z)), given.dtype, given)


def _reshaped(block: Any, *shape: Any, **hints: Any) -> Block:
    sides = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return Block(np.reshape(block_of(block).whole(), tuple(int(n) for n in sides)), block.dtype)


def _expanded(block: Any, axis: Any) -> Block:
    return Block(np.expand_dims(block_of(block).whole(), int(axis)), block.dtype)


def _cdiv(x: Any, y: Any) -> Any:
    if isinstance(x, Block) or isinstance(y, Block):
        return (x + (y - 1)) // y
    return -(-x // y)


def _to(x: Any, dtype: Dtype, *, bitcast: bool = False) -> Block:
    return block_of(x).to(dtype, bitcast=bitcast)


def _asserted(condition: Any, message: Any = "", **hints: Any) -> None:
    held = condition.whole() if isinstance(condition, Block) else condition
    if not np.all(held):
        raise AssertionError(message)


def power_of_two(number: Any) -> int:
    """Return the smallest power of two that is not below a number: ``triton.next_power_of_2``."""
    return 1 << (int(number) - 1).bit_length()


_FUNCTIONS: dict[str, Any] = {
    **{name: getattr(access, name) for name in ("load", "store")},
    **{name: getattr(kernels, name) for name in ("program_id", "num_programs")},
    **{name: getattr(random, name) for name in (
        "rand", "rand4x", "randint", "randint4x", "philox",
    )},
    "arange": arange, "full": full, "zeros": zeros, "broadcast_to": broadcast_to, "where": where,
    "minimum": _of_two(np.fmin), "maximum": _of_two(np.fmax),
    "exp": _of_one(np.exp), "log": _of_one(np.log), "exp2": _of_one(np.exp2),
    "log2": _of_one(np.log2), "sqrt": _of_one(np.sqrt), "floor": _of_one(np.floor),
    "ceil": _of_one(np.ceil), "abs": _abs, "sigmoid": _sigmoid, "cdiv": _cdiv, "cast": _to,
    "sum": reductions.total, "cumsum": reductions.running,
    "max": reductions.LARGEST.value, "min": reductions.SMALLEST.value,
    "argmax": reductions.LARGEST.place, "argmin": reductions.SMALLEST.place,
    "reshape": _reshaped, "view": _reshaped, "expand_dims": _expanded,
    "ravel": lambda x: _reshaped(x, -1),
    "zeros_like": lambda x: zeros(x.shape, x.dtype),
    "full_like": lambda x, value: full(x.shape, value, x.dtype),
    # A program runs alone, one operation after the other.
    "debug_barrier": lambda: None,
    "static_assert": _asserted, "device_assert": _asserted,
    "static_print": lambda *values, **named: None, "device_print": lambda *values, **named: None,
    "multiple_of": lambda x, *hints: x, "max_contiguous": lambda x, *hints: x,
    "assume": lambda condition: None,
    # A constant is its value.
    "constexpr": lambda value: value,
    "static_range": range, "range": loop, "dtype": Dtype, "tensor": Block,
    **DTYPES,
}  # fmt: skip

MATH = Names("libdevice", {
    "log1p": _of_one(np.log1p), "expm1": _of_one(np.expm1), "exp": _of_one(np.exp),
    "log": _of_one(np.log), "sqrt": _of_one(np.sqrt), "isnan": lambda x: x != x,
    "fast_expf": _of_one(np.exp), "fast_logf": _of_one(np.log), "abs": _abs,
})  # fmt: skip
"""Functions of ``libdevice``: those that CUDA calls fast are computed in full."""

_FUNCTIONS["math"] = MATH
tl = Names("tl", _FUNCTIONS)
triton = Names("triton", {
    "jit": kernels.jit, "autotune": kernels.autotune, "heuristics": kernels.heuristics,
    "Config": kernels.Config, "cdiv": _cdiv, "next_power_of_2": power_of_two, "language": tl,
})  # fmt: skip

for _name in ("sum", "max", "min", "argmax", "argmin", "cumsum"):
    setattr(Block, _name, _FUNCTIONS[_name])
for _name in ("exp", "log", "abs"):
    setattr(Block, _name, _FUNCTIONS[_name])
__all__ = ["MATH", "float32", "math", "tl", "triton"]
