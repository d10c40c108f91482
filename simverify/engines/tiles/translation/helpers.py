"""What translated kernels call: rows that are stretched, loads and stores that are checked."""

from typing import Any, NoReturn

import numpy as np

from simverify.engines.tiles import random
from simverify.engines.tiles.refusals import OutOfBounds, kernel_line

PAIRED = 128
"""Elements that numpy adds in one go; it halves longer rows until they are no longer than that."""


class Wraps(Exception):
    """Numbers of a row wrap in their type, so that it is no line."""


def beside(name: str, place: Any, size: int) -> NoReturn:
    """Raise: an access outside a tensor."""
    raise OutOfBounds(
        f"{name}[{int(place)}] of {size} elements is loaded or stored without a mask "
        f"({kernel_line()})"
    )


def straight(start: int, step: int, count: int, low: int, high: int) -> None:
    """Refuse a line whose numbers wrap."""
    last = start + step * (count - 1)
    if not (low <= start <= high and low <= last <= high):
        raise Wraps


def cut(start: int, bound: int, count: int) -> int:
    """Return how many numbers of a line of step 1 are below a bound."""
    kept = bound - start
    return 0 if kept < 0 else count if kept > count else kept


def stretched(row: Any, length: int) -> Any:
    """Return the first elements of a row whose last element stands for those behind it."""
    have = len(row)
    if have >= length:
        return row if have == length else row[:length]
    made = np.empty(length, row.dtype)
    made[:have] = row
    made[have:] = row[-1]
    return made


def until(length: int, kept: int) -> Any:
    """Return truths of which the first ``kept`` hold."""
    made = np.zeros(length, np.bool_)
    made[:kept] = True
    return made


def closed(gate: Any, count: int) -> Any:
    """Return truths behind which none holds, or all of them."""
    return stretched(gate, count) if gate[-1] else gate


def opened(gate: Any, count: int) -> Any:
    """Return truths behind which all hold, or all of them."""
    return gate if gate[-1] else stretched(gate, count)


def ending(row: Any, number: Any, count: int) -> int:
    """Return behind which element a row and a number are one, as far as that is known."""
    return len(row) if row[-1].tobytes() == number.tobytes() else count


def total(row: Any, count: int, kind: Any) -> Any:
    """Return the sum of a row, in the order in which numpy adds all of its elements.

    Zeros behind a power of two of them change nothing: numpy adds halves.
    """
    have = len(row)
    if have < count and not row[-1]:
        size = PAIRED
        while size < have:
            size *= 2
        if size < count:
            return np.add.reduce(stretched(row, size), dtype=kind) + row[-1]
    return np.add.reduce(stretched(row, count), dtype=kind)


def running(row: Any, count: int) -> Any:
    """Return running sums of a row."""
    if len(row) < count and row[-1]:
        row = stretched(row, count)
    return np.add.accumulate(row, dtype=row.dtype)


def loaded(
    name: str, elements: Any, first: int, step: int, kept: int, length: int, filling: Any
) -> Any:
    """Return ``kept`` elements that lie in a line, and behind them what fills a row."""
    made = np.empty(length, elements.dtype)
    if kept:
        last = first + step * (kept - 1)
        size = len(elements)
        if not (0 <= first < size and 0 <= last < size):
            beside(name, first if not 0 <= first < size else last, size)
        if step == 1:
            made[:kept] = elements[first : first + kept]
        elif step > 0:
            made[:kept] = elements[first : last + 1 : step]
        else:
            made[:kept] = elements[first + step * np.arange(kept)]
    if kept < length:
        made[kept:] = filling if filling.ndim == 0 else filling[kept:]
    return made


def picked(name: str, elements: Any, places: Any, kept: int, length: int, filling: Any) -> Any:
    """Return elements at the first ``kept`` places, and behind them what fills a row."""
    made = np.empty(length, elements.dtype)
    if kept:
        made[:kept] = taken(name, elements, places[:kept])
    if kept < length:
        made[kept:] = filling if filling.ndim == 0 else filling[kept:]
    return made


def taken(name: str, elements: Any, places: Any) -> Any:
    """Return the elements at some places."""
    inside(name, elements, places)
    return elements[places]


def inside(name: str, elements: Any, places: Any) -> None:
    """Raise where a place is outside a tensor."""
    size = len(elements)
    if places.size and (
        np.minimum.reduce(places, axis=None) < 0 or np.maximum.reduce(places, axis=None) >= size
    ):
        beside(name, places[(places < 0) | (places >= size)].ravel()[0], size)


def gathered(name: str, elements: Any, places: Any, gate: Any, filling: Any) -> Any:
    """Return the elements at places that a gate lets in, and what fills the others."""
    if places.shape != gate.shape:
        places, gate = np.broadcast_arrays(places, gate)
    safe = np.where(gate, places, 0)
    size = len(elements)
    if not size or (
        np.minimum.reduce(safe, axis=None) < 0 or np.maximum.reduce(safe, axis=None) >= size
    ):
        inside(name, elements, places[gate])
        made = np.empty(gate.shape, elements.dtype)
        made[...] = filling
        return made
    return np.where(gate, elements[safe], filling)


def put(name: str, elements: Any, first: int, step: int, kept: int, values: Any, undo: Any) -> None:
    """Write the first ``kept`` values into a line."""
    if not kept:
        return
    size, last = len(elements), first + step * (kept - 1)
    if not (0 <= first < size and 0 <= last < size):
        beside(name, first if not 0 <= first < size else last, size)
    if step <= 0:
        put_at(name, elements, first + step * np.arange(kept), values, undo)
        return
    line = slice(first, last + 1, step)
    if undo is not None:
        undo.append((elements, line, elements[line].copy()))
    elements[line] = values if values.ndim == 0 else values[:kept]


def put_at(name: str, elements: Any, places: Any, values: Any, undo: Any) -> None:
    """Write values to some places."""
    if values.ndim and len(values) > len(places):
        values = values[: len(places)]
    inside(name, elements, places)
    if undo is not None:
        undo.append((elements, places, elements[places]))
    elements[places] = values


def put_where(name: str, elements: Any, places: Any, gate: Any, values: Any, undo: Any) -> None:
    """Write values to the places that a gate lets in."""
    if values.ndim or places.shape != gate.shape:
        places, gate, values = np.broadcast_arrays(places, gate, values)
        values = values[gate]
    put_at(name, elements, places[gate], values, undo)


def first_of(row: Any, place: str) -> Any:
    """Return the place of the extreme of a row, of equal ones the first."""
    return np.int32(getattr(row, place)())


_ROUND_A, _ROUND_B, _KEY_A, _KEY_B, _LOW = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, 2**32 - 1


def philox(key: Any, c0: Any, c1: Any, c2: Any, c3: Any, rounds: int) -> tuple[Any, ...]:
    """Return the four words of Philox 4x32; of scalars in Python's numbers, which are quicker."""
    given = (key, c0, c1, c2, c3)
    if any(isinstance(x, np.ndarray) for x in given):
        return random.ciphered(*given, rounds=rounds)
    key, a, b, c, d = map(int, given)
    k0, k1 = key & _LOW, key >> 32
    for _ in range(rounds):
        one, other = a * _ROUND_A, c * _ROUND_B
        a, b = (other >> 32) ^ b ^ k0, other & _LOW
        c, d = (one >> 32) ^ d ^ k1, one & _LOW
        k0, k1 = (k0 + _KEY_A) & _LOW, (k1 + _KEY_B) & _LOW
    return tuple(map(np.uint32, (a, b, c, d)))


_SCALE = np.float32(random.SCALE)


def unit(word: Any) -> Any:
    """Return a uniform of a word, or of each."""
    if isinstance(word, np.ndarray):
        return random.unit(word)
    bits = int(word)
    return _SCALE * np.float32(bits if bits < 2**31 else 2**32 - 1 - bits)
