"""What each statement of a file reads, changes and calls, and which tests it stands in."""

import ast
import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Names = frozenset[str]


@dataclass(frozen=True)
class Argument:
    """What is handed over in a call: the names whose values count, and the functions called."""

    names: Names
    functions: Names


@dataclass(frozen=True)
class CallSite:
    """A call in a statement: the last part of the function's name, and what is handed over.

    ``method``: it is called on an object, which may be its first argument. ``known``: no argument
    is spread by ``*``, so that each one's place is known.
    """

    name: str
    places: tuple[Argument, ...]
    keywords: dict[str, Argument]
    method: bool
    known: bool

    def argument(self, param: str, params: tuple[str, ...]) -> Argument | None:
        """Return what is handed over as ``param``; None where that is not known."""
        if not self.known:
            return None
        if param in self.keywords:
            return self.keywords[param]
        places = params[1:] if self.method and params[:1] in (("self",), ("cls",)) else params
        if param not in places:
            return None
        i = places.index(param)
        return self.places[i] if i < len(self.places) else _DEFAULT


_DEFAULT = Argument(frozenset(), frozenset())


@dataclass(frozen=True)
class Statement:
    """A statement without those inside it: first and last line, and the names it has to do with.

    ``reads``: the names whose values count; of what it asks for its length, shape or device alone,
    they do not. ``partly``: names of which it changes a part, as an item, so that what they were
    before counts as well, though it is not read. ``handed``: it is a call whose result nobody
    takes, which may change what it is of and what it is given. ``around``: the first lines of the
    tests and loops that it stands in. ``plain``: it computes nothing itself, as ``return x``.
    ``test``: it decides which statements run. ``function``, ``params``: the function that it
    belongs to, and its arguments. ``parts``: the names of each part of a tuple, where it returns
    one, or where it takes one apart that a call returns, of which that is the first of ``calls``.
    ``hands_on``: it is a call of names as they are.
    """

    first: int
    last: int
    reads: Names
    writes: Names
    partly: Names
    handed: bool
    around: tuple[int, ...]
    plain: bool
    test: bool
    function: str
    params: tuple[str, ...]
    calls: tuple[CallSite, ...]
    parts: tuple[Names, ...] = ()
    hands_on: bool = False


def statements(file: str) -> dict[int, Statement]:
    """Return the statement of each line of a file; none of one that is not Python."""
    try:
        return _statements_of(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}


@functools.lru_cache(maxsize=32)
def _statements_of(text: str) -> dict[int, Statement]:
    """Return the statement of each line, by the text: a file may be edited and audited again."""
    found: dict[int, Statement] = {}
    for statement in _read(parsed(text).body, _Place((), "", ())):
        for line in range(statement.first, statement.last + 1):
            found[line] = statement
    return found


def parsed(text: str) -> ast.Module:
    """Return the tree of a file; one that mixes tabs and blanks is read with tabs of eight or four.

    Raises ``SyntaxError``.
    """
    try:
        return ast.parse(text)
    except TabError:
        for blanks in (8, 4):
            with contextlib.suppress(SyntaxError):
                return ast.parse(text.expandtabs(blanks))
        raise


_PLAIN = (ast.For, ast.With, ast.Try, ast.Pass, ast.Break, ast.Continue, ast.Import, ast.ImportFrom)
_COMPUTES = (ast.BinOp, ast.Call, ast.Compare, ast.Subscript, ast.IfExp)
_TESTS = (ast.If, ast.While, ast.Assert)
_AROUND = (ast.If, ast.While, ast.For)
_OF_SHAPE = frozenset({"shape", "device", "dtype", "ndim", "size", "dim", "numel"})
_OF_KIND = frozenset({"len", "range", "isinstance", "type", "hasattr", "print"})


@dataclass(frozen=True)
class _Place:
    """Where statements stand: in which tests, and in which function with which arguments."""

    around: tuple[int, ...]
    function: str
    params: tuple[str, ...]


def _read(body: Sequence[ast.stmt], place: _Place) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _read(node.body, place)
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _read(node.body, _Place((), node.name, _params(node.args)))
            continue
        inner = [
            part
            for name in ("body", "orelse", "finalbody")
            for part in getattr(node, name, ())
            if isinstance(part, ast.stmt)
        ]
        inner += [part for one in getattr(node, "handlers", ()) for part in one.body]
        last = min((part.lineno for part in inner), default=(node.end_lineno or node.lineno) + 1)
        yield _statement(node, set(inner), max(last - 1, node.lineno), place)
        around = (*place.around, node.lineno) if isinstance(node, _AROUND) else place.around
        yield from _read(inner, _Place(around, place.function, place.params))


def _params(given: ast.arguments) -> tuple[str, ...]:
    spread = [x for x in (given.vararg, given.kwarg) if x is not None]
    return tuple(x.arg for x in [*given.posonlyargs, *given.args, *given.kwonlyargs, *spread])


def _statement(node: ast.stmt, inner: set[ast.stmt], last: int, place: _Place) -> Statement:
    reads: set[str] = set()
    writes: set[str] = set()
    partly: set[str] = set()
    calls: list[CallSite] = []
    waiting: list[ast.AST] = [node]
    stored: list[ast.AST] = []
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Name):
            if not any(one is whole for whole in stored):
                (reads if isinstance(one.ctx, ast.Load) else writes).add(one.id)
        elif isinstance(one, ast.Subscript | ast.Attribute) and isinstance(one.ctx, ast.Store):
            stored.append(_whole(one))
            partly |= _names(one.value)
        elif isinstance(one, ast.AugAssign):
            reads |= _names(one.target)
        elif isinstance(one, ast.Call):
            calls.append(_call(one))
        if not _asks_about(one):
            waiting += [child for child in ast.iter_child_nodes(one) if child not in inner]
    handed = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    plain = isinstance(node, _PLAIN) or (
        isinstance(node, ast.Return) and not any(isinstance(x, _COMPUTES) for x in ast.walk(node))
    )
    return Statement(
        node.lineno, last, frozenset(reads), frozenset(writes), frozenset(partly), handed,
        place.around, plain, isinstance(node, _TESTS), place.function, place.params, tuple(calls),
        _parts(node), _hands_on(node),
    )  # fmt: skip


def _parts(node: ast.stmt) -> tuple[Names, ...]:
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        return tuple(_argument(one).names for one in node.value.elts)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and all(isinstance(x, ast.Name) for x in target.elts):
            return tuple(map(_names, target.elts))
    return ()


def _hands_on(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Assign | ast.Return) else None
    return isinstance(call, ast.Call) and not any(
        isinstance(one, _COMPUTES)
        for part in (call.func, *call.args, *(named.value for named in call.keywords))
        for one in ast.walk(part)
    )


def _whole(node: ast.AST) -> ast.AST:
    """Return what a part of is written: ``x`` of ``x.y[i]``."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node


def _asks_about(node: ast.AST) -> bool:
    """Whether an expression takes nothing of the values that stand in it, as ``len(x)``."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Load) and node.attr in _OF_SHAPE
    if isinstance(node, ast.Compare):  # x is None
        return all(isinstance(one, ast.Is | ast.IsNot) for one in node.ops)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _OF_KIND
        and not any(isinstance(x, ast.Call) for part in node.args for x in ast.walk(part))
    )


def _call(node: ast.Call) -> CallSite:
    return CallSite(
        _function(node),
        tuple(_argument(one) for one in node.args),
        {one.arg: _argument(one.value) for one in node.keywords if one.arg is not None},
        method=isinstance(node.func, ast.Attribute),
        known=not any(isinstance(one, ast.Starred) for one in node.args)
        and all(one.arg is not None for one in node.keywords),
    )


def _argument(node: ast.expr) -> Argument:
    names: set[str] = set()
    functions: set[str] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Name):
            names.add(one.id)
        elif isinstance(one, ast.Call):
            functions.add(_function(one))
        if not _asks_about(one):
            waiting += ast.iter_child_nodes(one)
    return Argument(frozenset(names), frozenset(functions))


def _function(node: ast.Call) -> str:
    at = node.func
    return at.attr if isinstance(at, ast.Attribute) else at.id if isinstance(at, ast.Name) else ""


def _names(node: ast.AST) -> Names:
    return frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name))
