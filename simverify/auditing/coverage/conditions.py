"""The numbers in the tests of which one outcome never came: where to aim for it.

``3 * x + 2 == LIMIT - 1`` holds 3, 2 and, if LIMIT is 60, 59; and it compares x with 19, which
stands nowhere. All of these may lead there, and so may those of the tests around it.
"""

import ast
import linecache
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, product
from types import CodeType

from simverify.auditing.coverage.places import Instructions

Number = int | float
Named = Mapping[str, set[Number]]
"""Numbers by the names and attributes that are bound to them."""

Place = tuple[int, int, int, int]
"""First and last line, first and last column in bytes."""

Test = ast.expr | ast.pattern

_MOST_VALUES = 16
"""Values of one expression at most: a name may be bound to several."""

_LARGEST = 1e9

_DOES: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: lambda a, b: a * 2**b,
    ast.RShift: lambda a, b: a // 2**b,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Pow: lambda a, b: a**b if abs(a) <= 10 and abs(b) <= 9 else math.inf,
}

_UNDOES: dict[type[ast.operator], Callable[[Number, Number], Iterable[Number]]] = {
    ast.Add: lambda due, by: (due - by,),
    ast.Sub: lambda due, by: (due + by,),
    ast.Mult: lambda due, by: (due / by,),
    ast.Div: lambda due, by: (due * by,),
    ast.FloorDiv: lambda due, by: (due * by, due * by + by - 1),
    ast.Mod: lambda due, by: (due, due + by, due + 2 * by),
    ast.LShift: lambda due, by: (due / 2**by,),
    ast.RShift: lambda due, by: (due * 2**by, (due + 1) * 2**by - 1),
    # The rest of the number may be anything: bits that are asked for stand in it as they are.
    ast.BitAnd: lambda due, by: (due, by) if due else (),
    ast.BitXor: lambda due, by: (int(due) ^ int(by),),
    ast.Pow: lambda due, by: (abs(due) ** (1 / by),),
}
"""What stands on the left of ``by`` where the two come to ``due``."""


@dataclass(frozen=True)
class Aim:
    """The numbers that lead to one outcome of one test.

    ``own``: those in it; ``near``: in the tests around it too, of which it may be a part;
    ``far``: in all tests of its function.
    """

    own: frozenset[Number] = frozenset()
    near: frozenset[Number] = frozenset()
    far: frozenset[Number] = frozenset()

    @property
    def kinds(self) -> tuple[frozenset[Number], ...]:
        """The kinds that there are, the nearest first."""
        return tuple(kind for kind in (self.own, self.near, self.far) if kind)


def aims(instructions: Iterable[Instructions], named: Named) -> list[Aim]:
    """Return one for each test that ran and of which an outcome never came, if it has numbers.

    A chain of comparisons counts as one test, so that lines that never ran say it too.
    """
    found: dict[Aim, None] = {}
    for seen in instructions:
        reached, missed = seen.reached_lines(), seen.missed_lines()
        places = [branch.at for branch, _ in seen.missed_branches() if branch.at[0] in reached]
        places += [at for at in _places(seen.code) if at[0] in missed]
        file = seen.code.co_filename
        for at in dict.fromkeys(places):
            around = _around(_tree("".join(linecache.getlines(file))), at)
            tests = [test for node in around for test in _tests_of(node)]
            if tests and tests[-1].lineno in reached:
                found[_aim(tests, around, named)] = None
    return [aim for aim in found if aim.kinds]


def _places(code: CodeType) -> Iterator[Place]:
    """Yield where the instructions of ``code`` stand."""
    for first, last, start, end in code.co_positions():
        if first is not None and last is not None and start is not None and end is not None:
            yield first, last, start, end


def _aim(tests: list[Test], around: list[ast.AST], named: Named) -> Aim:
    function = next((node for node in reversed(around) if isinstance(node, ast.FunctionDef)), None)
    values = _Values(named, function)
    inside = ast.walk(function) if function is not None else ()
    every = [test for node in inside for test in _tests_of(node)]
    own, near, far = (
        frozenset(x for test in some for x in values.led_to(test))
        for some in (tests[-1:], tests, every)
    )
    return Aim(own, near, far)


@lru_cache(maxsize=64)
def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _around(tree: ast.Module, at: Place) -> list[ast.AST]:
    """Return the nodes that hold the place ``at``, from the outermost to the innermost."""
    first, last, start, end = at
    found: list[ast.AST] = []
    inside: Iterator[ast.AST] = ast.iter_child_nodes(tree)
    while inside:
        for node in inside:
            if not isinstance(node, ast.expr | ast.stmt | ast.match_case):
                continue
            place = _place(node)
            if place is not None and place[0] <= (first, start) and (last, end) <= place[1]:
                found.append(node)
                inside = ast.iter_child_nodes(node)
                break
        else:
            return found
    return found


def _place(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]] | None:
    first = node.pattern if isinstance(node, ast.match_case) else node
    last = node.body[-1] if isinstance(node, ast.match_case) else node
    if not isinstance(first, ast.expr | ast.stmt | ast.pattern):
        return None
    if not isinstance(last, ast.expr | ast.stmt):
        return None
    end = last.end_lineno or last.lineno, last.end_col_offset or 0
    return (first.lineno, first.col_offset), end


def _tests_of(node: ast.AST) -> Iterator[Test]:
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
        yield node.test
    elif isinstance(node, ast.Compare | ast.BoolOp):
        yield node
    elif isinstance(node, ast.match_case):
        yield node.pattern
        if node.guard is not None:
            yield node.guard
    elif isinstance(node, ast.comprehension):
        yield from node.ifs
    elif isinstance(node, ast.For):
        yield node.iter


@dataclass
class _Values:
    """What expressions of a function come to, as far as numbers and their names tell."""

    named: Named
    function: ast.FunctionDef | None
    locals: dict[str, list[ast.expr]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in ast.walk(self.function) if self.function is not None else ():
            if isinstance(node, ast.Assign):
                for to in node.targets:
                    if isinstance(to, ast.Name):
                        self.locals.setdefault(to.id, []).append(node.value)

    def led_to(self, test: Test) -> set[Number]:
        """Return the numbers in ``test``, and those that its comparisons compare with."""
        found: set[Number] = set()
        indices = {
            index
            for node in ast.walk(test)
            if isinstance(node, ast.Subscript)
            for index in ast.walk(node.slice)
        }
        for node in ast.walk(test):
            if isinstance(node, ast.expr) and node not in indices:
                found |= self._of(node)
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                for one, other in pairwise(sides):
                    found |= self._solved(one, self._of(other)) | self._solved(other, self._of(one))
        for node in _asked_for_truth(test):
            found |= self._solved(node, {0, 1})
        return found

    def _of(self, node: ast.expr, deep: int = 3) -> set[Number]:
        """Return what an expression of numbers alone comes to; nothing for all others."""
        values: set[Number] = set()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, int | float) and not isinstance(node.value, bool):
                values = {node.value}
        elif isinstance(node, ast.Name):
            values = set(self.named.get(node.id, ()))
            for assigned in self.locals.get(node.id, []) if deep else []:
                values |= self._of(assigned, deep - 1)
        elif isinstance(node, ast.Attribute):
            values = set(self.named.get(node.attr, ()))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            values = {-x for x in self._of(node.operand, deep)}
        elif isinstance(node, ast.BinOp) and (does := _DOES.get(type(node.op))):
            pairs = product(self._of(node.left, deep), self._of(node.right, deep))
            values = {x for a, b in pairs for x in _tried(lambda a, b: (does(a, b),), a, b)}
        return set(sorted(values)[:_MOST_VALUES])

    def _solved(self, node: ast.expr, due: set[Number]) -> set[Number]:
        """Return what the unknown part of an expression is where the whole comes to ``due``."""
        if not due:
            return set()
        if isinstance(node, ast.Call) and len(node.args) == 1:
            return self._solved(node.args[0], due)  # int(x), float(x), len(x)
        if not isinstance(node, ast.BinOp):
            return due
        left, right = self._of(node.left), self._of(node.right)
        if right and not left and (undoes := _UNDOES.get(type(node.op))):
            known, unknown = right, node.left
        elif left and not right and isinstance(node.op, ast.Add | ast.Mult):
            undoes, known, unknown = _UNDOES[type(node.op)], left, node.right
        else:
            return due
        values = {x for a, b in product(due, known) for x in _tried(undoes, a, b)}
        return self._solved(unknown, set(sorted(values)[:_MOST_VALUES]))


def _asked_for_truth(test: Test) -> Iterator[ast.BinOp]:
    """Yield the arithmetic that a test asks whether it is 0, as ``x // 20`` is below 20."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _asked_for_truth(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _asked_for_truth(test.operand)
    elif isinstance(test, ast.Call) and getattr(test.func, "id", "") == "bool" and test.args:
        yield from _asked_for_truth(test.args[0])
    elif isinstance(test, ast.BinOp):
        yield test


def _tried(
    does: Callable[[Number, Number], Iterable[Number]], a: Number, b: Number
) -> Iterator[Number]:
    try:
        values = tuple(does(a, b))
    except (ArithmeticError, ValueError, TypeError):
        return
    for value in values:
        if not isinstance(value, complex) and abs(value) < _LARGEST:
            yield int(value) if float(value).is_integer() else value
