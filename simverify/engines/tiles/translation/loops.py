"""Loops of translated kernels: what a round leaves to the next is in variables."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from simverify.engines.tiles import kernels
from simverify.engines.tiles.language import tl
from simverify.engines.tiles.translation import joining
from simverify.engines.tiles.translation.expressions import Expressions
from simverify.engines.tiles.translation.operations.rows import known_whole, whole
from simverify.engines.tiles.translation.values import (
    Known,
    Scalar,
    Untranslatable,
    Value,
)
from simverify.engines.tiles.translation.writer import Body, Writer
from simverify.engines.tiles.types import Dtype, int32

LONGEST = 1024
"""Rounds of a ``tl.static_range`` that are written out."""


class Loops(Expressions):
    """The loops of one function.

    ``decisions``: in how many branches and loops it stands; ``loops``: variables of those loops;
    ``unrolled``: how many loops around are written out.
    """

    def __init__(self, w: Writer, space: dict[str, Any], read: list[Any]) -> None:
        super().__init__(w, space, read)
        self.decisions = self.unrolled = 0
        self.loops: list[dict[str, Value]] = []

    def run(self, body: list[ast.stmt]) -> bool:
        """Write statements; return whether none behind them is reached."""
        raise NotImplementedError

    def _for(self, node: ast.For) -> None:
        if node.orelse or not isinstance(node.iter, ast.Call):
            raise Untranslatable("a loop over something else")
        function = self.value(node.iter.func)
        bounds = [self.value(x) for x in node.iter.args]
        if not isinstance(function, Known) or not isinstance(node.target, ast.Name):
            raise Untranslatable("a loop over something else")
        if function.value is vars(tl)["static_range"]:
            self._written_out(node, range(*map(known_whole, bounds)))
            return
        if function.value not in (kernels.loop, vars(tl)["range"]):
            raise Untranslatable("a loop over something else")
        wide = [x.dtype for x in bounds if isinstance(x, Scalar) and x.dtype.bits > int32.bits]
        kind: Dtype = wide[0] if wide else int32
        ends = ", ".join(whole(self.w, x) for x in bounds)
        line, counter = self.w.line, self.w.new("i")
        kept = self._slots(node.body, node.target.id)
        with self._round(kept) as body:
            name = self.w.name(f"{self.w.constant(kind.kind, kind.name)}({counter})")
            number = Scalar(name, kind)
            self.w.once(f"int({name})", lambda: counter)
            self.env[node.target.id] = number
            if not self.run(node.body):
                self._next(kept)
        self._behind(kept, node, line, f"for {counter} in range({ends})", body)

    def _written_out(self, node: ast.For, numbers: range) -> None:
        if len(numbers) > LONGEST:
            raise Untranslatable("a loop of too many rounds")
        assert isinstance(node.target, ast.Name)
        self.unrolled += 1
        for i in numbers:
            self.env[node.target.id] = Known(i)
            if self.run(node.body):
                raise Untranslatable("a loop that is left")
        self.unrolled -= 1

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise Untranslatable("a loop with else")
        line = self.w.line
        kept = self._slots(node.body, None)
        with self._round(kept) as body:
            held = self.truth(node.test)
            if held is False:
                raise Untranslatable("a loop without a round")
            if held is not True:
                self.w.emit(f"if not {held}: break")
            if not self.run(node.body):
                self._next(kept)
        self._behind(kept, node, line, "while True", body)

    def _break(self, node: ast.Break) -> bool:
        return self._leave("break")

    def _continue(self, node: ast.Continue) -> bool:
        return self._leave("continue")

    def _leave(self, word: str) -> bool:
        if not self.loops or self.unrolled:
            raise Untranslatable(f"{word} of a loop that is written out")
        self._next(self.loops[-1])
        self.w.emit(word)
        return True

    def _slots(self, body: list[ast.stmt], counter: str | None) -> dict[str, Value]:
        """Give each name that a loop changes a variable, and return those."""
        kept: dict[str, Value] = {}
        for name in sorted(_assigned(body) - {counter}):
            held = self.env.get(name)
            if held is not None:
                kept[name], pairs = joining.slot(self.w, held)
                joining.write(self.w, pairs)
        return kept

    @contextmanager
    def _round(self, kept: dict[str, Value]) -> Iterator[Body]:
        """Write a round, at whose beginning variables hold what they were given before it."""
        with self.w.captured() as body:
            self.decisions += 1
            self.w.loops += 1
            self.loops.append(kept)
            for name, x in kept.items():
                self.env[name] = joining.ended(self.w, x)
            yield body
            self.decisions -= 1
            self.w.loops -= 1
            self.loops.pop()

    def _next(self, kept: dict[str, Value]) -> None:
        pairs = []
        for name, slot in kept.items():
            held = self.env.get(name)
            if held is None:
                raise Untranslatable(f"{name}, which is not one thing in a loop")
            pairs += joining.fitting(self.w, slot, held)
        joining.write(self.w, pairs)

    def _behind(
        self, kept: dict[str, Value], node: ast.For | ast.While, line: int, head: str, body: Body
    ) -> None:
        self.w.line = line
        self.w.put(head, body)
        for name in _assigned([node]):
            slot = kept.get(name)
            self.env[name] = None if slot is None else joining.ended(self.w, slot)


def _assigned(body: list[Any]) -> set[str]:
    return set(_names(body))


def _names(body: list[Any]) -> Iterator[str]:
    for node in body:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id
