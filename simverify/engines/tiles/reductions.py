"""Sums, extremes and running sums of blocks: Triton's, with its ties."""

from typing import Any

import numpy as np

from simverify.engines.tiles.blocks import Block, block_of, joined
from simverify.engines.tiles.refusals import refuse
from simverify.engines.tiles.rests import Constant, is_number
from simverify.engines.tiles.types import Dtype, float32, int1, int32, uint32
from simverify.symbolic.draws.in_arrays.arrays import DrawArray


def total(block: Any, axis: Any = None, *, keep_dims: bool = False, dtype: Any = None) -> Block:
    """Return the sum along an axis, of all elements without one: ``tl.sum``.

    Short integers are added as int32, as Triton does.
    """
    given = block_of(block)
    kind = dtype or sums_in(given.dtype)
    given = given.to(kind)
    if given.is_scalar:
        return given
    row = given.data
    if given.rest is not None and not (_is_all(given.rest, 0) and type(row) is DrawArray):
        row = given.whole()  # zeros too: they decide in which order numpy adds
    return _reduced(np.add, row, kind, axis, keep_dims)


def sums_in(kind: Dtype) -> Dtype:
    """Return the type in which numbers of a type are added."""
    if kind.is_floating() or kind.bits >= int32.bits:
        return kind
    return int32 if kind.signed or kind is int1 else uint32


def _reduced(ufunc: Any, row: Any, kind: Dtype, axis: Any, keep_dims: bool) -> Block:
    where = None if axis is None else _axis(axis, row.ndim)
    # In the block's own type: numpy would add short integers in long ones.
    plain = {} if type(row) is DrawArray else {"dtype": kind.kind}
    data = ufunc.reduce(row, axis=where, keepdims=keep_dims, **plain)
    return Block(data, kind)


def _is_all(rest: Any, number: Any) -> bool:
    return isinstance(rest, Constant) and is_number(rest.value) and bool(rest.value == number)


def _axis(axis: Any, dims: int) -> int:
    place = int(axis)
    if not -dims <= place < dims:
        refuse(f"axis {place} of a block of {dims} dimensions")
    return place


class _Extreme:
    """``tl.max`` or ``tl.min``, and the place of it."""

    def __init__(self, name: str, worst: float) -> None:
        self._ufunc = np.fmax if name == "max" else np.fmin
        self._place = f"arg{name}"
        self._worst = worst

    def value(
        self,
        block: Any,
        axis: Any = None,
        return_indices: Any = False,
        return_indices_tie_break_left: Any = True,
        keep_dims: bool = False,
    ) -> Any:
        """Return the extreme along an axis; with ``return_indices`` also its first place."""
        given = _wide(block_of(block))
        if return_indices:
            if axis is None:
                refuse("indices of an extreme without an axis")
            row = self._row(given)
            place = self.place(given, axis, bool(return_indices_tie_break_left), keep_dims)
            if row.ndim == 1 and not keep_dims:
                return Block(row[int(place.data)], given.dtype), place
            where = _axis(axis, row.ndim)
            index = place.data if keep_dims else np.expand_dims(place.data, where)
            found = np.take_along_axis(row, np.asarray(index, dtype=np.intp), axis=where)
            return Block(found if keep_dims else found.squeeze(where), given.dtype), place
        if given.is_scalar:
            return given
        return _reduced(self._ufunc, self._row(given), given.dtype, axis, keep_dims)

    def place(
        self, block: Any, axis: Any, tie_break_left: Any = True, keep_dims: bool = False
    ) -> Block:
        """Return the place of the extreme along an axis, of equal ones the first; int32."""
        given = _wide(block_of(block))
        row = self._row(given) if tie_break_left else np.asanyarray(given.whole())
        where = _axis(axis, row.ndim)
        found = getattr(row, self._place)(axis=where)
        if isinstance(found, np.ndarray) and not found.ndim:
            found = found.view(np.ndarray)[()]  # the winner of a race, which is not read yet
        if not tie_break_left and _ties(row, found, where):
            refuse("which of equal elements comes out, where the kernel leaves it open")
        if isinstance(found, np.ndarray) and type(found) is not DrawArray:
            found = found.astype(np.int32)
        elif is_number(found) and type(found) is not np.int32:
            found = np.int32(int(found))
        return Block(np.expand_dims(found, where) if keep_dims else found, int32)

    def _row(self, given: Block) -> Any:
        """Return elements among which the extreme of all, and its first place, are found."""
        if given.rest is None:
            if given.is_scalar:
                refuse("the place of an extreme of a scalar")
            return given.data
        if not isinstance(given.rest, Constant) or not is_number(given.rest.value):
            return given.whole()
        if len(given.data) and _is_all(given.rest, self._worst):
            return given.data
        return joined(given.data, given.rest.between(len(given.data), len(given.data) + 1))


def _wide(block: Block) -> Block:
    # As Triton: 16-bit floats are compared as float32, short integers as int32.
    if block.dtype.is_floating():
        return block.to(float32) if block.dtype.bits < float32.bits else block
    return block.to(int32) if block.dtype.bits < int32.bits else block


def _ties(row: Any, found: Any, where: int) -> bool:
    if type(row) is DrawArray:
        return False
    best = np.take_along_axis(row, np.expand_dims(np.asarray(found), where), axis=where)
    return bool(np.any(np.sum(row == best, axis=where) > 1))


LARGEST = _Extreme("max", -np.inf)
SMALLEST = _Extreme("min", np.inf)


def running(block: Any, axis: Any = 0, *, reverse: bool = False, dtype: Any = None) -> Block:
    """Return the running sums along an axis: ``tl.cumsum``."""
    given = block_of(block)
    given = given.to(dtype or sums_in(given.dtype))
    if bool(reverse):
        row = given.whole()
        if np.ndim(row) != 1:
            refuse("reversed running sums of more than one dimension")
        return Block(np.flip(np.add.accumulate(np.flip(row))), given.dtype)
    if given.rest is not None and _is_all(given.rest, 0) and len(given.data):
        sums = np.add.accumulate(given.data)
        return Block(sums, given.dtype, Constant(sums[-1]), given.count)
    row = given.whole()
    return Block(np.add.accumulate(row, axis=_axis(axis, row.ndim)), given.dtype)
