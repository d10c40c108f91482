"""Casts that a kernel asks for, and options that must be known."""

from typing import Any

from simverify.engines.tiles.translation.operations.rows import cast, every, typed
from simverify.engines.tiles.translation.values import Block, Known, Untranslatable, Value
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import Dtype


def type_of(x: Value) -> Dtype:
    """Return a type that a kernel names."""
    if isinstance(x, Known) and isinstance(x.value, Dtype):
        return x.value
    raise Untranslatable("a type that is not known")


def is_exactly(x: Value, value: Any) -> bool:
    """Whether it is known that a value is this one."""
    return isinstance(x, Known) and x.value is value


def converted(w: Writer, x: Value, dtype: Value, **more: Value) -> Block:
    """Return a block in another type: ``x.to(dtype)``."""
    block, kind = typed(w, x), type_of(dtype)
    bitcast = more.pop("bitcast", Known(False))
    if not isinstance(bitcast, Known) or any(not is_exactly(v, None) for v in more.values()):
        raise Untranslatable("options of a cast")
    if not bitcast.value or kind is block.dtype:
        return cast(w, block, kind)
    if kind.is_floating() or block.dtype.is_floating() or kind.bits != block.dtype.bits:
        raise Untranslatable("the bits of floats")
    name = w.constant(kind.kind, kind.name)
    return every(w, lambda a: f"{a}.view({name})", kind, block)
