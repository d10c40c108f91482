"""Statements of translated kernels: branches, loops and what is left of them behind."""

import ast
from typing import Any

from simverify.engines.tiles.kernels import Kernel
from simverify.engines.tiles.translation import joining
from simverify.engines.tiles.translation.loops import Loops
from simverify.engines.tiles.translation.operations.arithmetic import SIGNS
from simverify.engines.tiles.translation.operations.rows import typed
from simverify.engines.tiles.translation.values import (
    Known,
    Several,
    Untranslatable,
    Value,
    is_number,
)
from simverify.engines.tiles.translation.writer import Writer


class Statements(Loops):
    """The statements of a kernel, or of one that it calls, which is written where it is called."""

    def __init__(
        self, w: Writer, kernel: Kernel, given: dict[str, Value], read: list[Any],
        caller: "Statements | None" = None,
    ) -> None:  # fmt: skip
        super().__init__(w, kernel.fn.__globals__, read)
        if kernel.plans is None or kernel.fn.__closure__:
            raise Untranslatable(f"{kernel.__name__}, whose source is not known")
        self.kernel, self.node, self.caller = kernel, kernel.plans.node, caller
        self.env.update(given)
        self.result: Value = Known(None)
        self._reads: dict[str, list[int]] = {}
        for part in ast.walk(self.node):
            if isinstance(part, ast.Name):
                self._reads.setdefault(part.id, []).append(part.lineno)
        own = kernel.fn.__code__.co_filename
        self.file: str = own if caller is None else caller.file
        self._lines = self.file == own

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
        sign = SIGNS[type(node.op).__name__]
        self.env[node.target.id] = self.applied(sign, held, self.value(node.value))

    def _return(self, node: ast.Return) -> bool:
        if self.caller is None:
            if node.value is not None and not isinstance(node.value, ast.Constant):
                raise Untranslatable("a kernel that returns something")
            self.w.emit("return")
            return True
        if self.decisions:
            raise Untranslatable("a return that depends on what is computed")
        self.result = Known(None) if node.value is None else self.value(node.value)
        return True

    def _if(self, node: ast.If) -> bool:
        held = self.truth(node.test)
        if isinstance(held, bool):
            return self.run(node.body if held else node.orelse)
        before, line = dict(self.env), self.w.line
        self.decisions += 1
        with self.w.captured() as one:
            ended_one = self.run(node.body)
        after_one, self.env = self.env, dict(before)
        with self.w.captured() as two:
            ended_two = self.run(node.orelse)
        after_two = self.env
        self.decisions -= 1
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
        return bool(self.loops or self.unrolled) or any(
            line > last for line in self._reads.get(name, ())
        )

    def _joined(self, x: Value | None, y: Value | None, one: Any, two: Any) -> Value | None:
        if x is None or y is None:
            return None
        try:
            return joining.join(self.w, x, y, one, two)
        except Untranslatable:
            return None  # it may not be used any more
