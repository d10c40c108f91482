"""The probes that need the code's random numbers in hand: edge uniforms, kept state.

Uniforms of our choosing then stand in place of every random number that the code draws. That
uses the exact tier's twins of numpy's, Python's and torch's generators, with numbers instead of
symbols: whatever they can follow can be forced.
"""

import itertools
import math
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simverify.auditing.probes.calls import Caller, Contract, Line, Outcome
from simverify.auditing.probes.cases import EQUAL, MIXED, OTHER, PLAIN, SHORT, Case
from simverify.auditing.probes.gpu import GpuLost
from simverify.symbolic.enumeration.endings import Tokens
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
        self.at_once = True  # nothing waits: every draw is a number
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


LIKELY = 1e-6
"""An event of more probability a draw is no edge: what it shows is a violation."""

MAX_PLACES = 24
SEEDS = range(3)
ROUNDS = 32
UNLIKELY_ROUNDS = 24
"""Differences in as many rounds of ``ROUNDS``, and none in as many controls: C(32, 24) /
C(64, 24) = 4e-11 for untracked randomness, which does not know what was called before."""

LAW_CALLS, LAW_LEAST, LAW_ERROR = 300, 10, 1e-9
"""Calls before and after one on other inputs, outcomes below which they are counted together, and
the p-value under which the two laws differ."""


@dataclass(frozen=True)
class Forced:
    """Calls of the code on numbers of ours."""

    call: Caller
    contract: Contract
    source: ForcedSource
    generator: Callable[[], Any]

    def run(
        self, line: Line, case: Case, drafted: Tokens, seed: int,
        edge: Edge | None = None, at: int | None = None,
    ) -> Outcome:  # fmt: skip
        """Run it once; raises ``CannotEnumerate`` where a draw cannot be forced."""
        self.source.start(seed, edge, at)
        rng = self.generator()
        outcome = line.call(lambda: self.call(case, rng, drafted))
        if self.source.failure is not None:
            raise self.source.failure  # the code may have swallowed it
        return outcome


def edge_uniforms(line: Line, forced: Forced, edge: Edge) -> str:
    """One draw at the edge at a time, then all of them; the rest are seeded."""
    drawn = sound = False
    for case, drafted in _blocks(forced.contract):
        for seed in SEEDS:
            plain = forced.run(line, case, drafted, seed)
            count = forced.source.count
            drawn |= count > 0
            if plain.fault or plain.impossible:
                continue  # not the edge's doing; other probes say it
            sound = True
            places = range(0, count, max(1, -(-count // MAX_PLACES)))
            for at in (*places, None):
                try:
                    outcome = forced.run(line, case, drafted, seed, edge, at)
                except GpuLost as lost:
                    raise GpuLost(f"{lost.text} ({case.name})", grade=_grade(forced)) from None
                problem = outcome.fault or outcome.impossible
                if problem:
                    line.add(_grade(forced), f"{problem} ({case.name})")
    if not sound:
        line.add("not run", "the code breaks its contract on ordinary numbers too")
    elif not drawn:
        line.add("not run", "no draw of the code could be forced: it makes none that is known")
    return "every draw in turn, and all at once"


def _grade(forced: Forced) -> Literal["warning", "violation"]:
    return "violation" if forced.source.probability > LIKELY else "warning"


def _blocks(contract: Contract) -> Iterator[tuple[Case, Tokens]]:
    for case in (MIXED, EQUAL, SHORT):
        if contract == "step":
            yield case, ()
            continue
        supports = [[x for x in range(case.vocab_size) if row[x] > 0] for row in case.block()[1]]
        if case is MIXED:
            yield from ((case, drafted) for drafted in itertools.product(*supports))
        else:
            yield case, tuple(support[0] for support in supports)
            yield case, tuple(support[-1] for support in supports)


def repeated_calls(line: Line, forced: Forced) -> str:
    """Same inputs and same draws before and after a call on something else."""

    def one(seed: int) -> Outcome:
        return forced.run(line, PLAIN, (0, 1, 2), seed)

    def another(seed: int) -> None:
        forced.run(line, OTHER, (4, 1), seed + 1)

    moved = restless = None
    drawn = sound = False
    for seed in range(16):
        one(seed)
        before, again = one(seed), one(seed)
        drawn |= forced.source.count > 0
        sound |= before.tokens is not None
        another(seed)
        after = one(seed)
        if again != before:
            restless = seed, before, again
        elif after != before and moved is None:
            moved = seed, before, after
    if not sound:
        line.add("not run", "the code breaks its contract on ordinary numbers too")
    elif moved is not None and _depends(one, another, moved[0]):
        found = (
            "depends on earlier calls: the same inputs and draws gave "
            f"{_said(moved[1])}, and {_said(moved[2])} after a call on other inputs"
        )
        # Draws that one call leaves to the next, as random.gauss does, change no law.
        line.add("warning", f"{found}; its law stays the same")
        if _law_moves(one, another):
            line.add("violation", found)
    elif not drawn and (moved or restless):
        line.add("not run", "no draw of the code could be forced: it draws from elsewhere")
    elif twice := (restless or moved):
        line.add(
            "warning",
            f"the same inputs and draws gave {_said(twice[1])} and then {_said(twice[2])}: it "
            "keeps state between calls, or draws from a source that is not known",
        )
    return "the same inputs and draws gave the same tokens"


def _depends(one: Callable[[int], Outcome], another: Callable[[int], None], seed: int) -> bool:
    """Tell state from untracked randomness."""
    differences = 0
    for _ in range(ROUNDS):
        one(seed)
        before = one(seed)
        if one(seed) != before:
            return False
        another(seed)
        differences += one(seed) != before
    return differences >= UNLIKELY_ROUNDS


def _law_moves(one: Callable[[int], Outcome], another: Callable[[int], None]) -> bool:
    """Whether outcomes after a call on other inputs have another law than those that follow none.

    Each on random numbers of its own, compared by a chi-square test for homogeneity.
    """
    counts: dict[tuple[Tokens | None, str], list[int]] = {}
    for after in (0, 1):
        for seed in range(1_000, 1_000 + LAW_CALLS):
            if after:
                another(3 * LAW_CALLS + seed)
            outcome = one(seed + after * LAW_CALLS)
            counts.setdefault((outcome.tokens, outcome.fault), [0, 0])[after] += 1
    many = [pair for pair in counts.values() if sum(pair) >= LAW_LEAST]
    rest = [sum(pair[i] for pair in counts.values() if sum(pair) < LAW_LEAST) for i in (0, 1)]
    table = [*many, rest] if any(rest) else many
    if len(table) < 2:
        return False
    from scipy.stats import chi2_contingency  # half a second that few processes need

    return bool(chi2_contingency(np.array(table)).pvalue < LAW_ERROR)


def _said(outcome: Outcome) -> str:
    return outcome.fault if outcome.tokens is None else str(list(outcome.tokens))
