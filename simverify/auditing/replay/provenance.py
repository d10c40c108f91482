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
from simverify.symbolic.enumeration.recorder import Leaf

MOST = 10
"""Lines that are named, those that ran last first."""


@dataclass(frozen=True)
class Statement:
    """A statement without those inside it: first and last line, and the names it has to do with.

    ``around``: the first lines of the tests and loops that it stands in. ``partly``: names of
    which it changes a part, as an item, so that what they were before counts as well. ``plain``:
    it computes nothing itself, as ``return x`` or the head of a loop. ``given``: the arguments of
    the function that it belongs to.
    """

    first: int
    last: int
    reads: frozenset[str]
    writes: frozenset[str]
    partly: frozenset[str]
    around: tuple[int, ...]
    plain: bool
    given: frozenset[str]


def sources(path: Sequence[Step], start: int) -> tuple[str, ...]:
    """Return the statements that step ``start`` gets its numbers from, as ``file:line``.

    Its own is left out; those that ran last come first.
    """
    known = {file: _statements(file) for file in {step.file for step in path}}
    every = [known[step.file].get(step.line) for step in path]
    calls: dict[int, list[int]] = {}
    made: dict[int, dict[int, int]] = {}
    for i, step in enumerate(path):
        calls.setdefault(step.call, []).append(i)
        if step.caller is not None:
            made.setdefault(step.caller, {})[step.call] = i  # the last step of the call
    waiting = [-start]
    seen: set[int] = set()
    named: dict[str, None] = {}
    own = _place(path[start], every[start])
    while waiting and len(named) < MOST:
        i = -heappop(waiting)
        if i in seen:
            continue
        seen.add(i)
        statement = every[i]
        if statement is None:
            continue
        place = _place(path[i], statement)
        if path[i].own and not statement.plain and place != own:
            named[place] = None
        for j in _behind(i, path, every, calls[path[i].call], made):
            if j not in seen:
                heappush(waiting, -j)
    return tuple(named)


def _place(step: Step, statement: Statement | None) -> str:
    return "" if statement is None else f"{step.file}:{statement.first}"


def _behind(
    i: int,
    path: Sequence[Step],
    every: Sequence[Statement | None],
    call: Sequence[int],
    made: dict[int, dict[int, int]],
) -> Iterator[int]:
    """Yield the steps that step ``i`` depends on directly."""
    statement = every[i]
    assert statement is not None
    wanted, around = set(statement.reads), set(statement.around)
    for j in reversed(call[: call.index(i)]):
        other = every[j]
        if other is None or other is statement:
            continue
        hit = wanted & (other.writes | other.partly)
        if hit:
            yield j
            wanted -= other.writes - other.partly
        if other.first in around:
            yield j
            around.discard(other.first)
    caller = path[i].caller
    if wanted & statement.given and caller is not None:
        yield caller
    # A statement of several lines ran as several steps, any of which may have made a call.
    for j in call:
        if every[j] is statement and j <= i:
            yield from made.get(j, {}).values()


def _statements(file: str) -> dict[int, Statement]:
    """Return the statement of each line of a file; none of one that is not Python."""
    try:
        return _statements_of(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}


@functools.lru_cache(maxsize=32)
def _statements_of(text: str) -> dict[int, Statement]:
    """Return the statement of each line, by the text: a file may be edited and audited again."""
    tree = parsed(text)
    found: dict[int, Statement] = {}
    for statement in _read(tree.body, (), frozenset()):
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


def _read(
    body: Sequence[ast.stmt], around: tuple[int, ...], given: frozenset[str]
) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, _SCOPES):
            own = {x.arg for x in ast.walk(getattr(node, "args", node)) if isinstance(x, ast.arg)}
            yield from _read(node.body, (), given | own)
            continue
        inner = [
            part
            for name in ("body", "orelse", "finalbody")
            for part in getattr(node, name, ())
            if isinstance(part, ast.stmt)
        ]
        inner += [part for one in getattr(node, "handlers", ()) for part in one.body]
        last = min((part.lineno for part in inner), default=(node.end_lineno or node.lineno) + 1)
        yield _statement(node, set(inner), max(last - 1, node.lineno), around, given)
        inside = (
            (*around, node.lineno) if isinstance(node, ast.If | ast.While | ast.For) else around
        )
        yield from _read(inner, inside, given)


def _statement(
    node: ast.stmt,
    inner: set[ast.stmt],
    last: int,
    around: tuple[int, ...],
    given: frozenset[str],
) -> Statement:
    reads: set[str] = set()
    writes: set[str] = set()
    partly: set[str] = set()
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
        node.lineno,
        last,
        frozenset(reads),
        frozenset(writes),
        frozenset(partly),
        around,
        plain,
        given,
    )


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def through(leaves: Sequence[Leaf], taken: tuple[int, ...]) -> list[Leaf]:
    """Return the paths that begin with these branches, the likeliest first."""
    depth = len(taken)
    found = [x for x in leaves if tuple(branch.taken for branch in x.branches[:depth]) == taken]
    return sorted(found, key=lambda leaf: -leaf.weight)


def decision(leaf: Leaf, depth: int) -> int | None:
    """Return the step at which a path takes its branch ``depth``; None where it was not followed.

    What is drawn in one place may be decided later, where it is read.
    """
    branch = leaf.branches[depth]
    ran = [i for i, step in enumerate(leaf.steps[: branch.steps]) if step.at == branch.where]
    return ran[-1] if ran else None
