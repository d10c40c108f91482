"""Rows of whole numbers that rise by one step: ``tl.arange``, moved and stretched."""

import numpy as np

from simverify.engines.tiles.translation.values import Lazy
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import Dtype, int1


def line(w: Writer, start: str, step: str, dtype: Dtype, count: int) -> Lazy | None:
    """Return a row whose element i is ``start + step * i``, if it is known not to wrap.

    Where that is known only when the kernel runs, it is checked there.
    """
    if dtype.is_floating() or dtype is int1:
        return None
    ends = np.iinfo(dtype.kind)
    low, high = int(ends.min), int(ends.max)
    if literal(start) and literal(step):
        last = int(start) + int(step) * (count - 1)
        if not (low <= int(start) <= high and low <= last <= high):
            return None
    elif step == "1":
        text = f"if not {low} <= {start} <= {high - count + 1}: raise Wraps"
        w.once(text, lambda: _check(w, text))
    else:
        text = f"straight({start}, {step}, {count}, {low}, {high})"
        w.once(text, lambda: _check(w, text))
    return plain(w, start, step, dtype, count)


def plain(w: Writer, start: str, step: str, dtype: Dtype, count: int) -> Lazy:
    """Return a line that does not wrap."""
    kind = w.constant(dtype.kind, dtype.name)

    def make(length: str) -> str:
        if all(map(literal, (start, step, length))):
            first, by, n = int(start), int(step), int(length)
            known = (first + by * np.arange(n, dtype=np.int64)).astype(dtype.kind)
            return w.constant(known, ("line", dtype.name, first, by, n))
        if step == "1":
            return w.named_once(f"arange({start}, {start} + {length}, dtype={kind})")
        return w.named_once(f"({start} + {step} * arange({length})).astype({kind})")

    return Lazy(dtype, count, make, (start, step))


def _check(w: Writer, text: str) -> bool:
    w.checked()
    w.emit(text)
    return True


def literal(code: str) -> bool:
    """Whether code is a whole number itself."""
    return code.lstrip("-").isdigit()
