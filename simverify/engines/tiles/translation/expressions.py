"""Expressions of translated kernels."""

import ast
import builtins
from collections.abc import Callable
from types import ModuleType
from typing import Any

from simverify.engines.tiles.kernels import Kernel
from simverify.engines.tiles.language import tl
from simverify.engines.tiles.memory import ElementType
from simverify.engines.tiles.translation import joining
from simverify.engines.tiles.translation.operations.arithmetic import (
    OF_PYTHON,
    SIGNS,
    binary,
    inverted,
    is_zero,
    negative,
)
from simverify.engines.tiles.translation.operations.language import (
    HANDLERS,
    METHODS,
    PURE,
)
from simverify.engines.tiles.translation.operations.rows import (
    full,
    known_whole,
    of_shape,
    shape_of,
    typed,
)
from simverify.engines.tiles.translation.values import (
    Block,
    Known,
    Method,
    Place,
    Scalar,
    Several,
    Untranslatable,
    Value,
)
from simverify.engines.tiles.translation.writer import Writer

_OF_KNOWN: dict[str, Callable[[Any, Any], bool]] = {
    "Is": lambda a, b: a is b,
    "IsNot": lambda a, b: a is not b,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


_CONSTANT = vars(tl)["constexpr"]


class Expressions:
    """The expressions of one function, with what its names stand for.

    ``read``: where names outside were looked up, and what they were.
    """

    def __init__(self, w: Writer, space: dict[str, Any], read: list[Any]) -> None:
        self.w = w
        self.space = space
        self.read = read
        self.env: dict[str, Value | None] = {}

    def call(self, kernel: Kernel, args: list[Value], named: dict[str, Value]) -> Value:
        """Write what another kernel does where it is called."""
        raise NotImplementedError

    def value(self, node: ast.expr) -> Value:
        """Return what an expression is."""
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            raise Untranslatable(f"a {type(node).__name__}")
        found: Value = handler(node)
        return found

    def truth(self, node: ast.expr) -> bool | str:
        """Return whether an expression holds, or code of that."""
        if isinstance(node, ast.BoolOp):
            return self._in_turn(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            held = self.truth(node.operand)
            return not held if isinstance(held, bool) else f"(not {held})"
        x = self.value(node)
        if isinstance(x, Known):
            return bool(x.value)
        if isinstance(x, Scalar):
            return x.code
        raise Untranslatable(f"a decision on a {type(x).__name__}")

    def _in_turn(self, node: ast.BoolOp) -> bool | str:
        stops, first, more = _parts(node)
        held = self.truth(first)
        if isinstance(held, bool):
            return held if held is stops else self.truth(more)
        name = self.w.name(held)
        with self.w.captured() as body:
            self.w.emit(f"{name} = {self.truth(more)}")
        self.w.put(f"if not {name}" if stops else f"if {name}", body)
        return name

    def _constant(self, node: ast.Constant) -> Value:
        return Known(node.value)

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        return Known("")

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.env:
            found = self.env[node.id]
            if found is None:
                raise Untranslatable(f"{node.id}, which is not one thing here")
            return found
        if node.id in self.space:
            self.read.append((self.space, node.id, self.space[node.id]))
            return _known(self.space[node.id])
        if hasattr(builtins, node.id):
            return Known(getattr(builtins, node.id))
        raise Untranslatable(f"{node.id}, which is not known")

    def _tuple(self, node: ast.Tuple | ast.List) -> Value:
        return Several(tuple(map(self.value, node.elts)))

    _list = _tuple

    def _attribute(self, node: ast.Attribute) -> Value:
        x = self.value(node.value)
        if isinstance(x, Known):
            value = getattr(x.value, node.attr)
            if isinstance(x.value, ModuleType):
                self.read.append((vars(x.value), node.attr, value))
            return _known(value)
        if isinstance(x, Place) and node.attr in ("dtype", "type"):
            return Known(ElementType(x.memory.dtype))
        if isinstance(x, Block):
            if node.attr in ("dtype", "type"):
                return Known(x.dtype)
            if node.attr == "shape":
                return Several(tuple(map(Known, shape_of(x))))
            if node.attr in METHODS:
                return Method(x, node.attr)
        raise Untranslatable(f".{node.attr} of a {type(x).__name__}")

    def _binop(self, node: ast.BinOp) -> Value:
        sign = SIGNS[type(node.op).__name__]
        return self.applied(sign, self.value(node.left), self.value(node.right))

    def applied(self, sign: str, a: Value, b: Value) -> Value:
        """Return ``a sign b``."""
        return binary(self.w, sign, a, b)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        x = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            if not isinstance(x, Known | Scalar):
                raise Untranslatable("`not` of a block")
            return is_zero(self.w, x)
        if isinstance(node.op, ast.USub):
            return negative(self.w, x)
        return inverted(self.w, x) if isinstance(node.op, ast.Invert) else x

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) != 1:
            raise Untranslatable("a chain of comparisons")
        sign = type(node.ops[0]).__name__
        a, b = self.value(node.left), self.value(node.comparators[0])
        if isinstance(a, Known) and isinstance(b, Known):
            holds: Any = _OF_KNOWN.get(sign) or OF_PYTHON[SIGNS[sign]]
            return Known(holds(a.value, b.value))
        if sign in ("Is", "IsNot"):
            # What is known is None, or a type: no block is that.
            return Known(sign == "IsNot")
        if sign in _OF_KNOWN:
            raise Untranslatable("`in` of blocks")
        return binary(self.w, SIGNS[sign], a, b)

    def _boolop(self, node: ast.BoolOp) -> Value:
        stops, one, more = _parts(node)
        first = self.value(one)
        if isinstance(first, Known):
            return first if bool(first.value) is stops else self.value(more)
        if not isinstance(first, Scalar):
            raise Untranslatable("`and` or `or` of blocks")
        with self.w.captured() as taken:
            other = self.value(more)
        with self.w.captured() as left:
            pass
        made = joining.join(self.w, other, first, taken, left)
        self.w.put(f"if not {first.code}" if stops else f"if {first.code}", taken)
        self.w.put("else", left)
        return joining.ended(self.w, made)

    def _ifexp(self, node: ast.IfExp) -> Value:
        held = self.truth(node.test)
        if isinstance(held, bool):
            return self.value(node.body if held else node.orelse)
        with self.w.captured() as one:
            x = self.value(node.body)
        with self.w.captured() as two:
            y = self.value(node.orelse)
        made = joining.join(self.w, x, y, one, two)
        self.w.put(f"if {held}", one)
        self.w.put("else", two)
        return joining.ended(self.w, made)

    def _subscript(self, node: ast.Subscript) -> Value:
        x = self.value(node.value)
        if isinstance(x, Several):
            return x.items[known_whole(self.value(node.slice))]
        if isinstance(x, Known):
            index = self.value(node.slice)
            if isinstance(index, Known):
                return _known(x.value[index.value])
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not isinstance(x, Block) or isinstance(x, Scalar):
            raise Untranslatable(f"an element of a {type(x).__name__}")
        shape, sides, signs = list(shape_of(x)), [], []
        for part in parts:
            if isinstance(part, ast.Constant) and part.value is None:
                sides.append(1)
                signs.append("None")
            elif isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step):
                sides.append(shape.pop(0))
                signs.append(":")
            else:
                raise Untranslatable("an element of a block")
        code = self.w.named_once(f"{full(self.w, x)}[{', '.join(signs)}]")
        return of_shape(code, x.dtype, (*sides, *shape))

    def _call(self, node: ast.Call) -> Value:
        function = self.value(node.func)
        if any(isinstance(x, ast.Starred) for x in node.args):
            raise Untranslatable("a call with *")
        args = [self.value(x) for x in node.args]
        named = {}
        for x in node.keywords:
            if x.arg is None:
                raise Untranslatable("a call with **")
            named[x.arg] = self.value(x.value)
        if isinstance(function, Method):
            return METHODS[function.name](self.w, typed(self.w, function.owner), *args, **named)
        if not isinstance(function, Known):
            raise Untranslatable("a call of no function")
        called = function.value
        while (inner := getattr(called, "unfollowed", None)) is not None:
            called = inner
        if isinstance(called, Kernel):
            return self.call(called, args, named)
        given = [*args, *named.values()]
        if called in PURE and all(isinstance(x, Known) for x in given):
            own = {name: x.value for name, x in named.items() if isinstance(x, Known)}
            return Known(called(*[x.value for x in args if isinstance(x, Known)], **own))
        if called is _CONSTANT and len(given) == 1:
            return given[0]
        if called in HANDLERS:
            return HANDLERS[called](self.w, *args, **named)
        raise Untranslatable(f"a call of {called}")


def _parts(node: ast.BoolOp) -> tuple[bool, ast.expr, ast.expr]:
    """Return whether it is `or`, what is computed first, and all behind that."""
    first, *rest = node.values
    more = ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]
    return isinstance(node.op, ast.Or), first, more


def _known(value: Any) -> Value:
    if isinstance(value, tuple):
        return Several(tuple(map(_known, value)))
    return Known(value)
