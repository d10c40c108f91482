"""Which lines a decision's numbers come from: backwards along a path, from value to value.

A statement's numbers come from what last wrote the names that it reads, from what the functions
that it calls return, and, for a function's arguments, from its caller. Whether a statement ran at
all was said by the test around it. Both are read off the source and the lines that ran; what a
library or another thread did between them is not seen.
"""

import ast
import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

from simverify.auditing.replay.steps import Step

MOST = 8
"""Lines that are named, the nearest first."""


@dataclass(frozen=True)
class Statement:
    """A statement without those inside it: first and last line, and the names it has to do with.

    ``around``: the first lines of the tests and loops that it stands in. ``partly``: names of
    which it changes a part, as an item, so that what they were before counts as well. ``plain``:
    it computes nothing itself, as ``return x`` or the head of a loop.
    """

    first: int
    last: int
    reads: frozenset[str]
    writes: frozenset[str]
    partly: frozenset[str]
    around: tuple[int, ...]
    plain: bool


def sources(path: Sequence[Step], starts: Sequence[int]) -> tuple[str, ...]:
    """Return the statements that the steps ``starts`` get their numbers from, as ``file:line``.

    ``starts`` themselves are left out; nearest first, and the first of ``starts`` before the next.
    """
    every = [_statements(step.file).get(step.line) for step in path]
    calls: dict[int, list[int]] = {}
    made: dict[int, dict[int, int]] = {}
    for i, step in enumerate(path):
        calls.setdefault(step.call, []).append(i)
        if step.caller is not None:
            made.setdefault(step.caller, {})[step.call] = i  # the last step of the call
    waiting = [(later, -start) for later, start in enumerate(starts)]
    seen: set[int] = set()
    named: dict[str, None] = {}
    own = {place for start in starts if (place := _place(path[start], every[start]))}
    while waiting and len(named) < MOST:
        far, minus = heappop(waiting)
        i = -minus
        if i in seen:
            continue
        seen.add(i)
        statement = every[i]
        if statement is None:
            continue
        place = _place(path[i], statement)
        if path[i].own and not statement.plain and place not in own:
            named[place] = None
        free = statement.plain or not path[i].own
        for j, more in _behind(i, path, every, calls[path[i].call], made):
            if j not in seen:
                heappush(waiting, (far if free else far + more, -j))
    return tuple(named)


def _place(step: Step, statement: Statement | None) -> str:
    return "" if statement is None else f"{step.file}:{statement.first}"


def _behind(
    i: int,
    path: Sequence[Step],
    every: Sequence[Statement | None],
    call: Sequence[int],
    made: dict[int, dict[int, int]],
) -> Iterator[tuple[int, int]]:
    """Yield the steps that step ``i`` depends on directly, each with its distance."""
    statement = every[i]
    assert statement is not None
    wanted, around = set(statement.reads), set(statement.around)
    for j in reversed(call[: call.index(i)]):
        other = every[j]
        if other is None or other is statement:
            continue
        hit = wanted & (other.writes | other.partly)
        if hit:
            yield j, 1
            wanted -= other.writes - other.partly
        if other.first in around:
            yield j, 1
            around.discard(other.first)
    caller = path[i].caller
    if wanted and caller is not None:
        yield caller, 1
    # A statement of several lines ran as several steps, any of which may have made a call.
    for j in call:
        if every[j] is statement and j <= i:
            for last in made.get(j, {}).values():
                yield last, 0


@functools.cache
def _statements(file: str) -> dict[int, Statement]:
    """Return the statement of each line of a file; none of one that is not Python."""
    try:
        tree = parsed(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[int, Statement] = {}
    for statement in _read(tree.body, ()):
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
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _read(body: Sequence[ast.stmt], around: tuple[int, ...]) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, _SCOPES):
            yield from _read(node.body, ())
            continue
        inner = [
            part
            for name in ("body", "orelse", "finalbody")
            for part in getattr(node, name, ())
            if isinstance(part, ast.stmt)
        ]
        inner += [part for one in getattr(node, "handlers", ()) for part in one.body]
        last = min((part.lineno for part in inner), default=(node.end_lineno or node.lineno) + 1)
        yield _statement(node, set(inner), max(last - 1, node.lineno), around)
        inside = (
            (*around, node.lineno) if isinstance(node, ast.If | ast.While | ast.For) else around
        )
        yield from _read(inner, inside)


def _statement(
    node: ast.stmt, inner: set[ast.stmt], last: int, around: tuple[int, ...]
) -> Statement:
    reads, writes, partly = set(), set(), set()
    waiting: list[ast.AST] = [node]
    while waiting:
        one = waiting.pop()
        waiting += [child for child in ast.iter_child_nodes(one) if child not in inner]
        if isinstance(one, ast.Name):
            (reads if isinstance(one.ctx, ast.Load) else writes).add(one.id)
        elif isinstance(one, ast.Subscript | ast.Attribute) and isinstance(one.ctx, ast.Store):
            partly |= _names(one.value)
        elif isinstance(one, ast.AugAssign):
            reads |= _names(one.target)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        # A call whose result nobody takes changes what it is of, or what it is given.
        partly |= _names(node.value)
    plain = isinstance(node, _PLAIN) or (
        isinstance(node, ast.Return) and not any(isinstance(x, _COMPUTES) for x in ast.walk(node))
    )
    return Statement(
        node.lineno, last, frozenset(reads), frozenset(writes), frozenset(partly), around, plain
    )


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
