"""Random numbers of translated kernels: Triton's Philox, by seed and offset."""

from collections.abc import Callable

from simverify.engines.tiles.translation.operations.arithmetic import binary
from simverify.engines.tiles.translation.operations.conversions import converted
from simverify.engines.tiles.translation.operations.rows import (
    cast,
    constant,
    every,
    known_whole,
    typed,
)
from simverify.engines.tiles.translation.values import (
    Known,
    Several,
    Untranslatable,
    Value,
)
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import Dtype, float32, int32, int64, uint32, uint64

ROUNDS = Known(10)


def _words(w: Writer, seed: Value, counters: list[Value], rounds: Value, count: int) -> Value:
    key = cast(w, cast(w, typed(w, seed), int64), uint64)
    words = [typed(w, c) for c in counters]
    if any(c.dtype.is_floating() or c.dtype.bits != uint32.bits for c in words):
        raise Untranslatable("counters that are not of 32 bits")
    given = [key, *(converted(w, c, Known(uint32), bitcast=Known(True)) for c in words)]
    n = known_whole(rounds)
    made = [
        every(w, lambda *x, i=i: f"{_once(w, x, n)}[{i}]", uint32, *given) for i in range(count)
    ]
    return Several(tuple(made))


def _once(w: Writer, codes: tuple[str, ...], rounds: int) -> str:
    return w.named_once(f"philox({', '.join(codes)}, {rounds})")


def philox(
    w: Writer, seed: Value, a: Value, b: Value, c: Value, d: Value, n_rounds: Value = ROUNDS
) -> Value:
    """Return the four words of Philox 4x32: ``tl.philox``."""
    return _words(w, seed, [a, b, c, d], n_rounds, 4)


def uniform(count: int, kind: Dtype) -> Callable[..., Value]:
    """Return what writes ``tl.rand`` or ``tl.randint``, or those that give four blocks."""

    def apply(w: Writer, seed: Value, offset: Value, n_rounds: Value = ROUNDS) -> Value:
        place = typed(w, offset)
        low = cast(w, place, uint32)
        zero: Value = constant(w, 0, uint32)
        high = zero
        if place.dtype.bits > uint32.bits:
            high = cast(w, typed(w, binary(w, ">>", place, Known(32))), uint32)
        words = _words(w, seed, [low, high, zero, zero], n_rounds, count)
        assert isinstance(words, Several)
        if kind is float32:
            made = tuple(every(w, lambda a: f"unit({a})", kind, typed(w, x)) for x in words.items)
        else:
            made = tuple(converted(w, x, Known(int32), bitcast=Known(True)) for x in words.items)
        return made[0] if count == 1 else Several(made)

    return apply
