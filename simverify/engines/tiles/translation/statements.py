"""Statements of translated kernels: branches, loops and what is left of them behind."""

import ast
from collections.abc import Iterator
from typing import Any

from simverify.engines.tiles import kernels
from simverify.engines.tiles.kernels import Kernel
from simverify.engines.tiles.language import tl
from simverify.engines.tiles.translation import joining
from simverify.engines.tiles.translation.arithmetic import SIGNS
from simverify.engines.tiles.translation.expressions import Expressions
from simverify.engines.tiles.translation.rows import known_whole, typed, whole
from simverify.engines.tiles.translation.values import (
    Known,
    Scalar,
    Several,
    Untranslatable,
    Value,
    is_number,
)
from simverify.engines.tiles.translation.writer import Writer
from simverify.engines.tiles.types import Dtype, int32

LONGEST = 1024
"""Rounds of a ``tl.static_range`` that are written out."""


class Statements(Expressions):
    """The statements of a kernel, or of one that it calls, which is written where it is called."""

    def __init__(
        self, w: Writer, kernel: Kernel, given: dict[str, Value], read: list[Any],
        caller: "Statements | None" = None,
    ) -> None:  # fmt: skip
        super().__init__(w, kernel.fn.__globals__, read)
        if kernel.node is None or kernel.fn.__closure__:
            raise Untranslatable(f"{kernel.__name__}, whose source is not known")
        self.kernel, self.node, self.caller = kernel, kernel.node, caller
        self.env.update(given)
        self.result: Value = Known(None)
        self._decisions = self._unrolled = 0
        self._loops: list[dict[str, Value]] = []
        self._reads: dict[str, list[int]] = {}
        for part in ast.walk(self.node):
            if isinstance(part, ast.Name):
                self._reads.setdefault(part.id, []).append(part.lineno)
        file = kernel.fn.__code__.co_filename
        self._lines = caller is None or caller.file == file
        self.file = file if caller is None else caller.file

    def call(self, kernel: Kernel, args: list[Value], named: dict[str, Value]) -> Value:
        """Write what another kernel does where it is called."""
        above: Statements | None = self
        while above is not None:
            if above.kernel is kernel:
                raise Untranslatable("a kernel that calls itself")
            above = above.caller
        given = {name: Known(value) for name, value in kernel.defaults.items()}
        if len(args) > len(kernel.arg_names) or set(named) - set(kernel.arg_names):
            raise Untranslatable("a call with other arguments")
        filled: dict[str, Value] = {**given, **dict(zip(kernel.arg_names, args, strict=False))}
        filled.update(named)
        if set(filled) != set(kernel.arg_names):
            raise Untranslatable("a call with other arguments")
        line = self.w.line
        inner = Statements(self.w, kernel, filled, self.read, self)
        inner.run(inner.node.body)
        self.w.line = line
        return inner.result

    def run(self, body: list[ast.stmt]) -> bool:
        """Write statements; return whether none behind them is reached."""
        return any(self._statement(node) for node in body)

    def _statement(self, node: ast.stmt) -> bool:
        if self._lines:
            self.w.line = node.lineno
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            raise Untranslatable(f"a {type(node).__name__}")
        return bool(handler(node))

    def _pass(self, node: ast.Pass) -> None: ...

    def _expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _assert(self, node: ast.Assert) -> None:
        if self.truth(node.test) is not True:
            raise Untranslatable("an assertion that is not known to hold")

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise Untranslatable("several targets")
        x = self.value(node.value)
        # As in Triton a number that is assigned is a block of its own type from here on.
        if is_number(x):
            x = typed(self.w, x)
        self._bind(node.targets[0], x)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, self.value(node.value))

    def _bind(self, target: ast.expr, x: Value) -> None:
        if isinstance(target, ast.Name):
            self.env[target.id] = x
            return
        if not isinstance(target, ast.Tuple) or not isinstance(x, Several):
            raise Untranslatable("what is assigned to")
        if len(target.elts) != len(x.items):
            raise Untranslatable("what is assigned to")
        for one, item in zip(target.elts, x.items, strict=True):
            self._bind(one, item)

    def _augassign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise Untranslatable("what is assigned to")
        held = self.value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
        sign = SIGNS.get(type(node.op).__name__, "**")
        self.env[node.target.id] = self.applied(sign, held, self.value(node.value))

    def _return(self, node: ast.Return) -> bool:
        if self.caller is None:
            if node.value is not None and not isinstance(node.value, ast.Constant):
                raise Untranslatable("a kernel that returns something")
            self.w.emit("return")
            return True
        if self._decisions:
            raise Untranslatable("a return that depends on what is computed")
        self.result = Known(None) if node.value is None else self.value(node.value)
        return True

    def _if(self, node: ast.If) -> bool:
        held = self.truth(node.test)
        if isinstance(held, bool):
            return self.run(node.body if held else node.orelse)
        before, line = dict(self.env), self.w.line
        self._decisions += 1
        with self.w.captured() as one:
            ended_one = self.run(node.body)
        after_one, self.env = self.env, dict(before)
        with self.w.captured() as two:
            ended_two = self.run(node.orelse)
        after_two = self.env
        self._decisions -= 1
        if ended_one or ended_two:
            self.env = after_two if ended_one else after_one
            joined = False
        else:
            self.env = {}
            for name in after_one.keys() & after_two.keys():
                if self._needed(name, node):
                    self.env[name] = self._joined(after_one[name], after_two[name], one, two)
            for name in after_one.keys() ^ after_two.keys():
                self.env[name] = None
            joined = True
        self.w.line = line
        self.w.put(f"if {held}", one)
        if two.lines:
            self.w.put("else", two)
        if joined:
            for name, x in self.env.items():
                if x is not None and x is not before.get(name):
                    self.env[name] = joining.ended(self.w, x)
        return ended_one and ended_two

    def _needed(self, name: str, node: ast.stmt) -> bool:
        """Whether a name is read behind a statement, or in a loop's next round."""
        last = node.end_lineno or 0
        return bool(self._loops or self._unrolled) or any(
            line > last for line in self._reads.get(name, ())
        )

    def _joined(self, x: Value | None, y: Value | None, one: Any, two: Any) -> Value | None:
        if x is None or y is None:
            return None
        try:
            return joining.join(self.w, x, y, one, two)
        except Untranslatable:
            return None  # it may not be used any more

    # -- loops --

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
        self._unrolled += 1
        for i in numbers:
            self.env[node.target.id] = Known(i)
            if self.run(node.body):
                raise Untranslatable("a loop that is left")
        self._unrolled -= 1

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
        if not self._loops or self._unrolled:
            raise Untranslatable(f"{word} of a loop that is written out")
        self._next(self._loops[-1])
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

    def _round(self, kept: dict[str, Value]) -> Any:
        return _Round(self, kept)

    def enter(self, kept: dict[str, Value]) -> None:
        """Begin a round: variables hold what they were given before it."""
        self._decisions += 1
        self.w.loops += 1
        self._loops.append(kept)
        for name, x in kept.items():
            self.env[name] = joining.ended(self.w, x)

    def leave(self) -> None:
        """End a round."""
        self._decisions -= 1
        self.w.loops -= 1
        self._loops.pop()

    def _next(self, kept: dict[str, Value]) -> None:
        pairs = []
        for name, slot in kept.items():
            held = self.env.get(name)
            if held is None:
                raise Untranslatable(f"{name}, which is not one thing in a loop")
            pairs += joining.fitting(self.w, slot, held)
        joining.write(self.w, pairs)

    def _behind(
        self, kept: dict[str, Value], node: ast.For | ast.While, line: int, head: str, body: Any
    ) -> None:
        self.w.line = line
        self.w.put(head, body)
        for name in _assigned([node]):
            slot = kept.get(name)
            self.env[name] = None if slot is None else joining.ended(self.w, slot)


class _Round:
    def __init__(self, of: Statements, kept: dict[str, Value]) -> None:
        self._of, self._kept = of, kept
        self._body = of.w.captured()

    def __enter__(self) -> Any:
        body = self._body.__enter__()
        self._of.enter(self._kept)
        return body

    def __exit__(self, *error: Any) -> None:
        self._of.leave()
        self._body.__exit__(*error)


def _assigned(body: list[Any]) -> set[str]:
    return set(_names(body))


def _names(body: list[Any]) -> Iterator[str]:
    for node in body:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id
