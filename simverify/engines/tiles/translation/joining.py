"""Values that two branches or two rounds of a loop give: one variable for both."""

from simverify.engines.tiles.language import FEW
from simverify.engines.tiles.translation.operations.rows import as_row, typed
from simverify.engines.tiles.translation.values import (
    Array,
    Known,
    Place,
    Row,
    Rows,
    Scalar,
    Several,
    Untranslatable,
    Value,
    is_number,
)
from simverify.engines.tiles.translation.writer import Body, Writer


def slot(w: Writer, x: Value) -> tuple[Value, list[tuple[str, str]]]:
    """Return what stands for values of this kind, and the variables with code of this one.

    The length of a row's variable is not known yet: :func:`ended` names it.
    """
    if isinstance(x, Several):
        made = [slot(w, item) for item in x.items]
        return Several(tuple(v for v, _ in made)), [pair for _, pairs in made for pair in pairs]
    if isinstance(x, Place):
        name = w.new("w")
        index, pairs = (None, []) if x.index is None else slot(w, x.index)
        return Place(x.memory, name, index), [(name, x.offset), *pairs]
    if isinstance(x, Known) and not is_number(x):
        return x, []
    block = typed(w, x)
    name = w.new("w")
    if isinstance(block, Scalar):
        return Scalar(name, block.dtype), [(name, block.code)]
    if isinstance(block, Array):
        return Array(name, block.dtype, block.shape), [(name, block.code)]
    row = as_row(w, block)
    length = row.length if row.length == str(row.count) and row.count <= FEW else ""
    return Row(name, row.dtype, row.count, length), [(name, row.code)]


def ended(w: Writer, x: Value) -> Value:
    """Return what a variable holds from here on."""
    if isinstance(x, Several):
        return Several(tuple(ended(w, item) for item in x.items))
    if isinstance(x, Row) and not x.length:
        return Row(x.code, x.dtype, x.count, w.name(f"len({x.code})", "m"))
    if isinstance(x, Place) and x.index is not None:
        return Place(x.memory, x.offset, ended(w, x.index))
    return x


def fitting(w: Writer, kept: Value, x: Value) -> list[tuple[str, str]]:
    """Return the variables of a slot with code of another value of its kind."""
    if isinstance(kept, Several):
        if not isinstance(x, Several) or len(x.items) != len(kept.items):
            raise Untranslatable("tuples of other lengths")
        pairs = [fitting(w, a, b) for a, b in zip(kept.items, x.items, strict=True)]
        return [pair for some in pairs for pair in some]
    if isinstance(kept, Place):
        if not isinstance(x, Place) or x.memory is not kept.memory:
            raise Untranslatable("pointers into other tensors")
        if (kept.index is None) != (x.index is None):
            raise Untranslatable("a pointer and a block of them")
        own = [] if kept.index is None or x.index is None else fitting(w, kept.index, x.index)
        return [(kept.offset, x.offset), *own]
    if isinstance(kept, Known):
        if not isinstance(x, Known) or x.value is not kept.value:
            raise Untranslatable("what is known one way and another")
        return []
    block = typed(w, x)
    if not isinstance(kept, Scalar | Array | Row) or block.dtype is not kept.dtype:
        raise Untranslatable("blocks of other types")
    if isinstance(kept, Row):
        if not isinstance(block, Rows) or block.count != kept.count:
            raise Untranslatable("rows of other lengths")
        return [(kept.code, as_row(w, block).code)]
    if type(block) is not type(kept):
        raise Untranslatable("a scalar and a block")
    if isinstance(kept, Array) and isinstance(block, Array) and block.shape != kept.shape:
        raise Untranslatable("blocks of other shapes")
    assert isinstance(block, Scalar | Array)
    return [(kept.code, block.code)]


def write(w: Writer, pairs: list[tuple[str, str]]) -> None:
    """Write an assignment to variables, all at once."""
    moved = [(name, code) for name, code in pairs if name != code]
    if moved:
        w.emit(f"{', '.join(n for n, _ in moved)} = {', '.join(c for _, c in moved)}")


def join(w: Writer, x: Value, y: Value, one: Body, two: Body) -> Value:
    """Return what two branches give, each of which writes it into one variable at its end."""
    if x is y or (isinstance(x, Known) and isinstance(y, Known) and same(x, y)):
        return x
    with w.captured(one):
        kept, pairs = slot(w, x)
        write(w, pairs)
    with w.captured(two):
        write(w, fitting(w, kept, y))
    return kept


def same(x: Known, y: Known) -> bool:
    """Whether two known values are one."""
    if x.value is y.value:
        return True
    plain = type(x.value) is type(y.value) and isinstance(x.value, int | str)
    return bool(plain and x.value == y.value)
