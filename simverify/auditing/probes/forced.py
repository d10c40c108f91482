"""Uniforms of our choosing in place of every random number that code under audit draws.

Uses the exact tier's twins of numpy's, Python's and torch's generators, with numbers instead
of symbols: whatever they can follow can be forced.
"""

import math
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import numpy as np

from simverify.symbolic.enumeration.paths import Path
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.stand_ins.intercept import intercepted
from simverify.symbolic.streams import Stream

Edge = Literal["first", "last"]
"""The first uniform, 0, or the last below 1: 1 - ulp of the type it is drawn in."""

DOUBLE_BITS = 53

# Kept here because the names in numpy.random are others while code is intercepted.
_Generator, _PCG64 = np.random.Generator, np.random.PCG64


class ForcedSource(Source):
    """Hands out seeded numbers, except that one draw, or every draw, is at an edge.

    ``count`` numbers were drawn since :meth:`start`; ``probability`` is that of drawing those
    at the edge: 2^-bits each, bits being the resolution of the type drawn (53 for float64, 24
    for float32, 8 for bfloat16). Discrete draws take their first or last possible outcome,
    exponentials what these uniforms give, at least one ulp.
    """

    def __init__(self) -> None:
        super().__init__(0.0, seed_once=True)
        self.start(0)

    def start(self, seed: int, edge: Edge | None = None, at: int | None = None) -> None:
        """Begin a call; ``at`` is the draw at the edge, None for all of them."""
        self.begin(Path())
        self._rng = _Generator(_PCG64(seed))
        self._edge, self._at = edge, at
        self.count = 0
        self.probability = 1.0

    def draw(self, bits: int = DOUBLE_BITS) -> float:
        """Return the next uniform, a multiple of 2^-bits in [0, 1)."""
        edge = self._edge if self._at in (None, self.count) else None
        self.count += 1
        if edge is None:
            return float(math.floor(self._rng.random() * 2**bits) / 2**bits)
        self.probability *= 2.0**-bits
        return 0.0 if edge == "first" else 1.0 - 2.0**-bits

    def draw_exponential(self, bits: int = DOUBLE_BITS) -> float:
        """Return the next standard exponential; no generator returns 0 or infinity."""
        return -math.log1p(-max(self.draw(bits), 2.0**-bits))

    def uniform(self, stream: Stream | None = None, *address: Any, **place: Any) -> float:
        """Return the next uniform, whatever was seeded."""
        return self.draw()

    def exponential(self, stream: Stream, *address: Any) -> float:
        """Return the next standard exponential, whatever was seeded."""
        return self.draw_exponential()

    def pick(self, weights: Sequence[float], stream: Stream, *address: Any) -> int:
        """Return an outcome of positive weight; no generator draws others."""
        u = self.draw() * math.fsum(weights)
        possible = [i for i, w in enumerate(weights) if w > 0]
        total = 0.0
        for i in possible:
            total += weights[i]
            if u < total:
                return i
        return possible[-1]


@contextmanager
def forced(code: Any) -> Iterator[tuple[ForcedSource, Callable[[], Any]]]:
    """Yield the source, and what makes the generator to hand to the code.

    To be entered after a plain run of the code, in which it may import things.
    """
    source = ForcedSource()
    with ExitStack() as stack:
        twin = stack.enter_context(intercepted(source, code, shadow_float=False, plain=True))
        if "torch" in sys.modules:
            from simverify.auditing.probes.forced_torch import ForcedTorch

            stack.enter_context(ForcedTorch(source.draw, source.draw_exponential))
        for owner, name in ((os, "urandom"), (random, "_urandom")):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, lambda n: bytes(int(256 * source.draw()) for _ in range(n)))

        class Generator(twin):  # type: ignore[misc, valid-type]
            """The twin, minding the type asked for: 1 - 2^-53 is no float32."""

            def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
                """Uniform on [0, 1)."""
                single = np.dtype(dtype) == np.float32
                bits = 24 if single else DOUBLE_BITS
                shape = np.shape(out) if out is not None else size
                if shape is None:
                    return source.draw(bits)
                values = np.empty(shape, dtype=np.float32 if single else np.float64)
                values.reshape(-1)[:] = [source.draw(bits) for _ in range(values.size)]
                if out is None:
                    return values
                out[...] = values
                return out

        yield source, Generator
