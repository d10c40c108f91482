"""Operators of translated kernels: in which type they compute, and which rows stay lines."""

import operator
from typing import Any

import numpy as np

from simverify.engines.tiles.language import FEW
from simverify.engines.tiles.translation.operations.lines import line, literal
from simverify.engines.tiles.translation.operations.rows import (
    as_row,
    at,
    cast,
    constant,
    every,
    longest,
    typed,
    whole,
)
from simverify.engines.tiles.translation.values import (
    Block,
    Known,
    Lazy,
    Place,
    Prefix,
    Row,
    Rows,
    Scalar,
    Several,
    Untranslatable,
    Value,
    is_number,
)
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import Dtype, beside, float32, int1, int64, promoted

SIGNS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%",
    "Pow": "**", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>",
    "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=",
}  # fmt: skip
OF_PYTHON = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "**": operator.pow,
}  # fmt: skip
_COMPARES = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""Comparisons, and what they are when their operands are exchanged."""


def alike(w: Writer, a: Value, b: Value, *, divides: bool = False) -> tuple[Block, Block, Dtype]:
    """Return two operands in the type that Triton computes with them in."""
    if is_number(a) and not is_number(b):
        other, one, kind = alike(w, b, a, divides=divides)
        return one, other, kind
    if is_number(b) and not is_number(a):
        assert isinstance(b, Known)
        x = typed(w, a)
        kind = beside(b.value, x.dtype, divides=divides)
        if not kind.is_floating() and kind is not int1:
            ends = np.iinfo(kind.kind)
            if not ends.min <= b.value <= ends.max:
                raise Untranslatable(f"{b.value} beside a block {kind}")
        return cast(w, x, kind), constant(w, b.value, kind), kind
    x, y = typed(w, a), typed(w, b)
    kind = x.dtype if x.dtype is y.dtype and not divides else promoted(x.dtype, y.dtype,
                                                                      divides=divides)  # fmt: skip
    return cast(w, x, kind), cast(w, y, kind), kind


def binary(w: Writer, sign: str, a: Value, b: Value) -> Value:
    """Return ``a sign b``."""
    if isinstance(a, Place) or isinstance(b, Place):
        return _pointed(w, sign, a, b)
    if isinstance(a, Several) and isinstance(b, Several) and sign == "+":
        return Several(a.items + b.items)
    if isinstance(a, Known) and isinstance(b, Known):
        return Known(OF_PYTHON[sign](a.value, b.value))
    if sign in _COMPARES:
        return _compared(w, sign, *alike(w, a, b)[:2])
    if sign in ("/", "//", "%"):
        return _divided(w, sign, a, b)
    x, y, kind = alike(w, a, b)
    if sign in ("+", "-", "*"):
        return _moved(w, sign, x, y, kind) or _applied(w, sign, kind, x, y)
    if sign not in ("&", "|", "^", "<<", ">>") or kind.is_floating():
        raise Untranslatable(f"{sign} of blocks {kind}")
    if sign == "&" and kind is int1:
        return _both(w, x, y)
    return _applied(w, sign, kind, x, y)


def _applied(w: Writer, sign: str, dtype: Dtype, x: Block, y: Block) -> Block:
    return every(w, lambda a, b: f"{a} {sign} {b}", dtype, x, y)


def _divided(w: Writer, sign: str, a: Value, b: Value) -> Value:
    x, y, kind = alike(w, a, b, divides=True)
    if sign == "/":
        if not kind.is_floating():
            x, y, kind = cast(w, x, float32), cast(w, y, float32), float32
        return _applied(w, "/", kind, x, y)
    if kind.is_floating():
        raise Untranslatable(f"{sign} of floats")
    name = "toward_zero" if sign == "//" else "remainder"
    return every(w, lambda a, b: f"{name}({a}, {b})", kind, x, y)


def _pointed(w: Writer, sign: str, a: Value, b: Value) -> Place:
    place, moved = (a, b) if isinstance(a, Place) else (b, a)
    if sign == "-" and place is a:
        moved = negative(w, moved)
    elif sign != "+":
        raise Untranslatable(f"{sign} of a pointer")
    assert isinstance(place, Place)
    if is_number(moved) or isinstance(moved, Scalar):
        by = whole(w, moved)
        if by == "0":
            return place
        offset = by if place.offset == "0" else w.named_once(f"{place.offset} + {by}", "o")
        return Place(place.memory, offset, place.index)
    block = typed(w, moved)
    if block.dtype.is_floating():
        raise Untranslatable("a pointer and what is no whole number")
    wide: Value = cast(w, block, int64)
    index = wide if place.index is None else binary(w, "+", place.index, wide)
    return Place(place.memory, place.offset, index)


def _moved(w: Writer, sign: str, x: Block, y: Block, kind: Dtype) -> Value | None:
    """Return a line after an operation with a scalar, if it is one still."""
    if kind.is_floating() or not (isinstance(x, Scalar) or isinstance(y, Scalar)):
        return None
    row, number = (x, y) if isinstance(y, Scalar) else (y, x)
    if not isinstance(row, Lazy) or row.line is None or not isinstance(number, Scalar):
        return None
    start, step = row.line
    by = whole(w, number)
    if sign == "*":
        return line(w, _times(w, start, by), _times(w, step, by), kind, row.count)
    if sign == "-" and row is y:
        return None
    return line(w, _plus(w, start, by, sign), step, kind, row.count)


def _plus(w: Writer, a: str, b: str, sign: str) -> str:
    if literal(a) and literal(b):
        return str(int(a) + int(b) if sign == "+" else int(a) - int(b))
    if b == "0":
        return a
    if a == "0" and sign == "+":
        return b
    return w.named_once(f"{a} {sign} {b}", "i")


def _times(w: Writer, a: str, b: str) -> str:
    if literal(a) and literal(b):
        return str(int(a) * int(b))
    if "0" in (a, b):
        return "0"
    return b if a == "1" else a if b == "1" else w.named_once(f"{a} * {b}", "i")


def _compared(w: Writer, sign: str, x: Block, y: Block) -> Value:
    if isinstance(y, Lazy) and y.line is not None and isinstance(x, Scalar):
        x, y, sign = y, x, _COMPARES[sign]
    if isinstance(x, Lazy) and x.line is not None and x.line[1] == "1" and isinstance(y, Scalar):
        start = x.line[0]
        if sign in ("<", "<="):
            bound = _plus(w, whole(w, y), "1", "+") if sign == "<=" else whole(w, y)
            return first(w, start, bound, x.count)
    return _applied(w, sign, int1, x, y)


def first(w: Writer, start: str, bound: str, count: int) -> Prefix:
    """Return the truths that a line of step 1 is below a bound."""
    if literal(start) and literal(bound):
        kept = str(min(max(int(bound) - int(start), 0), count))
    else:
        kept = w.named_once(f"cut({start}, {bound}, {count})", "k")
    return prefix(w, kept, count)


def prefix(w: Writer, kept: str, count: int, length: str | None = None) -> Prefix:
    """Return truths of which the first ``kept`` hold; those behind are one where they are many."""
    if count <= FEW:
        return Prefix(count, str(count), kept)
    if length is None:
        if literal(kept):
            length = str(min(int(kept) + 1, count))
        else:
            length = w.named_once(f"{kept} + 1 if {kept} < {count} else {count}", "m")
    return Prefix(count, length, kept)


def _both(w: Writer, x: Block, y: Block) -> Value:
    """Return ``x & y`` of truths: what is cut off stays so."""
    gate, other = (x, y) if isinstance(x, Prefix) else (y, x)
    if not isinstance(gate, Prefix):
        return _applied(w, "&", int1, x, y)
    if isinstance(other, Scalar):
        kept = w.named_once(f"{gate.kept} if {other.code} else 0", "k")
        return Prefix(gate.count, gate.length, kept)
    if isinstance(other, Rows):
        if other.count != gate.count:
            raise Untranslatable("rows of other lengths")
        if isinstance(other, Prefix):
            kept = w.named_once(f"min({gate.kept}, {other.kept})", "k")
            return prefix(w, kept, gate.count, longest(w, gate.length, other.length))
        code = w.named_once(f"{at(w, gate, gate.length)} & {at(w, other, gate.length)}")
        return Row(code, int1, gate.count, gate.length)
    return _applied(w, "&", int1, x, y)


def negative(w: Writer, x: Value) -> Value:
    """Return ``-x``."""
    if isinstance(x, Known):
        return Known(-x.value)
    block = typed(w, x)
    if block.dtype is int1:
        raise Untranslatable("- of truths")
    zero = constant(w, 0, block.dtype).code
    return every(w, lambda a: f"{zero} - {a}", block.dtype, block)


def inverted(w: Writer, x: Value) -> Value:
    """Return ``~x``."""
    if isinstance(x, Known):
        return Known(~x.value)
    block = typed(w, x)
    if block.dtype.is_floating():
        raise Untranslatable("~ of floats")
    return every(w, lambda a: f"~{a}", block.dtype, block)


def is_zero(w: Writer, x: Value) -> Value:
    """Return whether each element is 0: ``not x`` of a scalar."""
    if isinstance(x, Known):
        return Known(not x.value)
    return every(w, lambda a: f"{a} == 0", int1, typed(w, x))


def chosen(w: Writer, gate: Value, one: Value, other: Value) -> Value:
    """Return elements of ``one`` where the gate holds, and of ``other`` elsewhere: ``tl.where``."""
    door = cast(w, typed(w, gate), int1)
    x, y, kind = alike(w, typed(w, one), typed(w, other))
    if all(isinstance(z, Scalar) for z in (door, x, y)):
        codes = [z.code for z in (door, x, y) if isinstance(z, Scalar)]
        return Scalar(w.named_once("{1} if {0} else {2}".format(*codes)), kind)
    lazy = isinstance(x, Lazy), isinstance(y, Lazy)
    rows = all(isinstance(z, Scalar | Rows) for z in (x, y))
    asked = isinstance(door, Rows) and door.count > FEW and any((*lazy, isinstance(door, Lazy)))
    if isinstance(door, Rows) and rows and asked:
        made = _chosen_of_long(w, door, x, y, lazy)
        if made is not None:
            code, length = made
            return Row(code, kind, door.count, length)
    return every(w, _where, kind, door, x, y)


def _where(a: Any, b: Any, c: Any) -> str:
    return f"where({a}, {b}, {c})"


def _chosen_of_long(
    w: Writer, door: Any, x: Block, y: Block, lazy: tuple[bool, bool]
) -> tuple[str, str] | None:
    """Return code and length of a choice behind which one number stands; None if that is not so."""
    count = door.count
    if all(lazy):
        return None
    if isinstance(door, Lazy):
        # Where what is chosen from ends in the number that is chosen else, all ends in it.
        row, number = (x, y) if isinstance(y, Scalar) else (y, x)
        if any(lazy) or not isinstance(number, Scalar) or not isinstance(row, Row):
            return None
        length = w.named_once(f"ending({row.code}, {number.code}, {count})", "m")
        return w.named_once(_where(at(w, door, length), at(w, x, length), at(w, y, length))), length
    if lazy[1]:
        held = as_row(w, door)
        code = w.named_once(f"opened({held.code}, {count})")
        length = w.named_once(f"len({code})", "m")
    elif isinstance(door, Prefix):
        code, length = at(w, door, door.length), door.length
    else:
        code = w.named_once(f"closed({door.code}, {count})")
        length = w.named_once(f"len({code})", "m")
    ended = x if lazy[1] else y
    if isinstance(ended, Row | Prefix) and ended.length != length:
        longer = longest(w, length, ended.length)
        code, length = w.named_once(f"stretched({code}, {longer})"), longer
    return w.named_once(_where(code, at(w, x, length), at(w, y, length))), length
