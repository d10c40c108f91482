"""Coverage of the code under audit: which lines and branches ran, and what would reach the rest.

What ran is read off a function's instructions. What did not is reported by line, with the arm of
the branch that it lies in.
"""

import ast
import dis
import functools
import linecache
import math
import operator
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain, pairwise, product
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from simverify.results import Coverage, MissedLines
from simverify.symbolic.provenance import (
    is_adapter_file,
    is_kernel_runner_file,
    is_marked_as_user_code,
    portable_path,
)

_ENTRY_OPCODES = {"RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "CACHE", "NOP"}

_EXCEPTION_OPCODES = {"WITH_EXCEPT_START", "CHECK_EXC_MATCH", "CHECK_EG_MATCH"}
"""What stands before a jump that ``with`` and ``except`` make: no branch that somebody wrote."""


@dataclass(frozen=True)
class Branch:
    """A conditional jump: its place in the source, and where it goes on."""

    at: tuple[int, int, int, int]  # as SourceSpan, of the tested expression or the loop's iterable
    loop: bool
    straight_on: int  # offset of the next instruction if it does not jump
    lines: tuple[int, int]  # the line that comes then, and the one that the jump leads to
    jumps_if: bool  # the outcome that jumps

    def outcome(self, straight: bool) -> bool:
        """Whether the test was true, or the loop went on, where it did not jump or did."""
        return self.jumps_if != straight


class Instructions:
    """A function's instructions. ``ran``: offsets; ``taken``: branches, and whether straight on."""

    def __init__(self, code: CodeType) -> None:
        self.code, self._looked_at = code, -1
        self.ran: set[int] = set()
        self.taken: set[tuple[int, bool]] = set()
        instructions = list(dis.get_instructions(code))
        spans = ((i.offset, i.positions) for i in instructions)
        lines = {offset: span.lineno for offset, span in spans if span and span.lineno}
        entry = {i.offset for i in instructions if i.opname in _ENTRY_OPCODES}
        body = {offset: line for offset, line in lines.items() if offset not in entry}
        # The line of `def` runs when the function is defined, unless the body stands on it.
        if set(body.values()) - {code.co_firstlineno} and not code.co_name.startswith("<"):
            body = {o: line for o, line in body.items() if line != code.co_firstlineno}
        self.lines, self.branches = body, dict(_branches(instructions, lines))

    @property
    def known(self) -> int:
        """How much was seen so far."""
        return len(self.ran) + len(self.taken)

    def is_complete(self) -> bool:
        """Whether every line and every branch was seen."""
        looked_at, self._looked_at = self._looked_at, self.known
        new = looked_at != self._looked_at
        return new and not (self.missed_lines() or self.missed_branches())

    def reached_lines(self) -> set[int]:
        """Lines of which an instruction ran."""
        return {line for offset, line in self.lines.items() if offset in self.ran}

    def missed_lines(self) -> set[int]:
        """Lines of which none ran."""
        return set(self.lines.values()) - self.reached_lines()

    def outcomes(self) -> dict[tuple[Branch, bool], bool]:
        """Return each outcome of each test, and whether it was seen; copies of a test are one."""
        first: dict[tuple[int, int, int, int], Branch] = {}
        seen: dict[tuple[Branch, bool], bool] = {}
        for offset, branch in self.branches.items():
            same = first.setdefault(branch.at, branch)
            for straight in (True, False):
                key = (same, branch.outcome(straight))
                seen[key] = seen.get(key, False) or (offset, straight) in self.taken
        return seen

    def missed_branches(self) -> list[tuple[Branch, bool]]:
        """Return the outcomes that were not seen."""
        return [key for key, was_seen in self.outcomes().items() if not was_seen]


def _branches(
    instructions: list[dis.Instruction], lines: dict[int, int]
) -> Iterator[tuple[int, Branch]]:
    by_offset = {i.offset: n for n, i in enumerate(instructions)}
    for n, jump in enumerate(instructions[:-1]):
        loop = jump.opname == "FOR_ITER"
        if not loop and not ("JUMP" in jump.opname and "IF_" in jump.opname):
            continue
        target = by_offset.get(jump.argval)
        position = jump.positions
        if target is None or position is None or position.lineno is None:
            continue
        following = instructions[n + 1]
        excepts = instructions[n - 1].opname in _EXCEPTION_OPCODES
        if excepts or following.opname == "LOAD_ASSERTION_ERROR":
            continue
        first, last, start, end = (x or 0 for x in position)
        at = first, last or first, start, end
        to = lines.get(following.offset, 0), lines.get(instructions[target].offset, 0)
        # `is None` and `is not None` share their jumps; a test at a loop's end jumps back if it
        # holds.
        if_true = "BACKWARD" if jump.opname.endswith("NONE") else "IF_TRUE"
        jumps_if = not loop and if_true in jump.opname
        yield jump.offset, Branch(at, loop, following.offset, to, jumps_if)


_MAX_LINE_LENGTH = 60
_PRAGMA = "pragma: no cover"
"""What coverage.py takes for lines that need not run, on the head of a block for all of it."""


def measure_coverage(instructions: Sequence[Instructions]) -> Coverage:
    """Return what ran of some functions, in the calls that were watched."""
    by_file: dict[str, list[Instructions]] = defaultdict(list)
    for seen in instructions:
        by_file[seen.code.co_filename].append(seen)
    files = [_FileLines(name, seen) for name, seen in by_file.items()]
    return Coverage(
        lines=sum(len(x.lines) for x in files),
        lines_reached=sum(len(x.reached) for x in files),
        branches=sum(x.branches for x in files),
        branches_reached=sum(x.branches - len(x.missed_branches) for x in files),
        not_reached=tuple(missed for x in files for missed in x.missed()),
        not_taken=tuple(words for x in files for words in x.not_taken()),
    )


class _FileLines:
    """One source file. ``lines``: those of the functions in it that count."""

    def __init__(self, file: str, instructions: Sequence[Instructions]) -> None:
        self.name, self.tree = display_path(file), _parse_source(file)
        self.rows = linecache.getlines(file)
        lines: dict[int, str] = {}
        reached: set[int] = set()
        branches: dict[tuple[Branch, bool], bool] = {}
        for seen in instructions:
            for line in seen.lines.values():
                lines.setdefault(line, seen.code.co_qualname)
            reached |= seen.reached_lines()
            for key, was_seen in seen.outcomes().items():
                branches[key] = branches.get(key, False) or was_seen
        excused = self._excused()
        self.lines = {line: name for line, name in lines.items() if line not in excused}
        self.reached = reached & set(self.lines)
        counted = {k: v for k, v in branches.items() if k[0].at[0] not in excused}
        self.branches = len(counted)
        self.missed_branches = [key for key, was_seen in counted.items() if not was_seen]

    def missed(self) -> Iterator[MissedLines]:
        """Missed lines that follow each other in one function's arm, together."""
        together: list[int] = []
        for line in [*sorted(self.lines), 0]:
            owner = self.lines[together[0]] if together else ""
            inside = f"{self.lines.get(line, '')}.".startswith(f"{owner}.")
            if together and (line in self.reached or not line or not inside):
                why = self._arm_of(together[0])
                yield MissedLines(self.name, together[0], together[-1], why)
                together = []
            if line and line not in self.reached:
                together.append(line)

    def not_taken(self) -> Iterator[str]:
        """Outcomes that never came, of tests that did, where no missed line tells it already."""
        for branch, outcome in sorted(self.missed_branches, key=lambda m: (m[0].at, m[1])):
            line, leads_to = branch.at[0], branch.lines[branch.jumps_if == outcome]
            redundant = leads_to in self.lines and leads_to not in self.reached
            if line not in self.reached or redundant:
                continue
            text = self._text(branch.at)
            how = "goes round" if outcome else "comes to its end"
            is_never = f"{text} is never {str(outcome).lower()}"
            what = f"the loop over {text} never {how}" if branch.loop else is_never
            yield f"{self.name}:{line}: {what}"

    def _excused(self) -> set[int]:
        """Lines that the file's author says need not run."""
        excused = {n for n, row in enumerate(self.rows, 1) if _PRAGMA in row}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt | ast.ExceptHandler) and node.lineno in excused:
                last = (getattr(node, "body", None) or [node])[-1]
                excused |= set(range(node.lineno, (last.end_lineno or node.lineno) + 1))
        return excused

    def _text(self, at: tuple[int, int, int, int]) -> str:
        """Return the text at a place (first and last line, columns in bytes), on one line."""
        first, last, start, end = at
        rows = [row.encode() for row in self.rows[first - 1 : last]]
        if not rows:
            return "a test"
        rows[-1] = rows[-1][:end]
        rows[0] = rows[0][start:]
        return _shorten_line(b" ".join(rows).decode(errors="replace"))

    def _arm_of(self, line: int) -> str:
        """Return the head of the outermost arm around ``line`` of which nothing ran, or ""."""
        for node in ast.walk(self.tree):
            for head, body in self._arms(node):
                inside = range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)
                if line in inside and self.reached.isdisjoint(inside):
                    return head
        return ""

    def _arms(self, node: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
        if isinstance(node, ast.If | ast.While):
            head = f"{type(node).__name__.lower()} {_code_text(node.test)}"
            yield head, node.body
            if node.orelse:
                yield f"else of {head}", node.orelse
        elif isinstance(node, ast.For):
            yield f"for {_code_text(node.target)} in {_code_text(node.iter)}", node.body
        elif isinstance(node, ast.ExceptHandler):
            yield f"except {_code_text(node.type)}" if node.type else "except", node.body
        elif isinstance(node, ast.match_case):
            yield f"case {_code_text(node.pattern)}", node.body
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{node.name} is never called", node.body


def describe_missed(missed: MissedLines) -> str:
    """Return missed lines in a few words: ``file.py:31-33 (if vocab > 1000)``."""
    last = "" if missed.last == missed.first else f"-{missed.last}"
    why = f" ({missed.why})" if missed.why else ""
    return f"{missed.file}:{missed.first}{last}{why}"


def display_path(file: str) -> str:
    """Return a file's name: from its package or the current folder on, else by itself."""
    if file.startswith("<"):
        return file
    if (installed := portable_path(file)) != file:
        return installed
    path = os.path.relpath(file)
    return Path(file).name if path.startswith("..") else path


def _code_text(node: ast.AST) -> str:
    return _shorten_line(ast.unparse(node))


def _shorten_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[: _MAX_LINE_LENGTH - 3]}..."


# The numbers in tests of which one outcome never came: what to aim instances at.
# ``3 * x + 2 == LIMIT - 1`` holds 3, 2 and, if LIMIT is 60, 59; and it compares x with 19, which
# stands nowhere. All of these may lead there, and so may those of the tests around it.

Number = int | float
NamedNumbers = Mapping[str, set[Number]]
"""Numbers by the names and attributes that are bound to them."""

SourceSpan = tuple[int, int, int, int]  # first and last line, first and last column in bytes
Condition = ast.expr | ast.pattern

_MAX_VALUES = 16  # values of one expression at most: a name may be bound to several
_MAX_MAGNITUDE = 1e9

_OPERATIONS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
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

_INVERSE_OPERATIONS: dict[type[ast.operator], Callable[[Number, Number], Iterable[Number]]] = {
    ast.Add: lambda total, by: (total - by,),
    ast.Sub: lambda total, by: (total + by,),
    ast.Mult: lambda total, by: (total / by,),
    ast.Div: lambda total, by: (total * by,),
    ast.FloorDiv: lambda total, by: (total * by, total * by + by - 1),
    ast.Mod: lambda total, by: (total, total + by, total + 2 * by),
    ast.LShift: lambda total, by: (total / 2**by,),
    ast.RShift: lambda total, by: (total * 2**by, (total + 1) * 2**by - 1),
    # The rest of the number may be anything: bits that are asked for stand in it as they are.
    ast.BitAnd: lambda total, by: (total, by) if total else (),
    ast.BitXor: lambda total, by: (int(total) ^ int(by),),
    ast.Pow: lambda total, by: (abs(total) ** (1 / by),),
}
"""What stands on the left of ``by`` where the two come to ``total``."""


@dataclass(frozen=True)
class BranchTarget:
    """The numbers that lead to one outcome of one test."""

    own: frozenset[Number] = frozenset()  # those in it
    near: frozenset[Number] = frozenset()  # in the tests around it too, of which it may be a part
    far: frozenset[Number] = frozenset()  # in all tests of its function

    @property
    def kinds(self) -> tuple[frozenset[Number], ...]:
        """The kinds that there are, the nearest first."""
        return tuple(kind for kind in (self.own, self.near, self.far) if kind)


def branch_targets(instructions: Iterable[Instructions], named: NamedNumbers) -> list[BranchTarget]:
    """Return a target for each test with numbers that ran and of which an outcome never came.

    A chain of comparisons counts as one test, so that lines that never ran say it too.
    """
    candidates: dict[BranchTarget, None] = {}
    for seen in instructions:
        reached, missed = seen.reached_lines(), seen.missed_lines()
        places = [branch.at for branch, _ in seen.missed_branches() if branch.at[0] in reached]
        for first, last, start, end in seen.code.co_positions():
            if None not in (first, last, start, end) and first in missed:
                places.append((first, last or 0, start or 0, end or 0))
        tree = _parse_source(seen.code.co_filename)
        for at in dict.fromkeys(places):
            around = _enclosing_nodes(tree, at)
            tests = [test for node in around for test in _conditions_of(node)]
            if tests and tests[-1].lineno in reached:
                functions = [node for node in around if isinstance(node, ast.FunctionDef)]
                function = functions[-1] if functions else None
                values = _ConstantEvaluator(named, function)
                inside = ast.walk(function) if function is not None else ()
                every = [test for node in inside for test in _conditions_of(node)]
                numbers = (
                    frozenset(x for test in some for x in values.led_to(test))
                    for some in (tests[-1:], tests, every)
                )
                candidates[BranchTarget(*numbers)] = None
    return [aim for aim in candidates if aim.kinds]


def _parse_source(file: str) -> ast.Module:
    return _parse("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=64)
def _parse(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _enclosing_nodes(tree: ast.Module, at: SourceSpan) -> list[ast.AST]:
    """Return the nodes that hold the place ``at``, from the outermost to the innermost."""
    first, last, start, end = at
    nodes: list[ast.AST] = [tree]
    for parent in nodes:  # grows while it is gone through
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.match_case):
                opening: ast.expr | ast.stmt | ast.pattern = node.pattern
                closing: ast.expr | ast.stmt = node.body[-1]
            elif isinstance(node, ast.expr | ast.stmt):
                opening = closing = node
            else:
                continue
            after = closing.end_lineno or closing.lineno, closing.end_col_offset or 0
            if (opening.lineno, opening.col_offset) <= (first, start) and (last, end) <= after:
                nodes.append(node)
                break
    return nodes[1:]


def _conditions_of(node: ast.AST) -> Iterator[Condition]:
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
class _ConstantEvaluator:
    """What expressions of a function come to, as far as numbers and their names tell."""

    named: NamedNumbers
    function: ast.FunctionDef | None
    locals: dict[str, list[ast.expr]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in ast.walk(self.function) if self.function is not None else ():
            if isinstance(node, ast.Assign):
                for to in node.targets:
                    if isinstance(to, ast.Name):
                        self.locals.setdefault(to.id, []).append(node.value)

    def led_to(self, test: Condition) -> set[Number]:
        """Return the numbers in ``test``, and those that its comparisons compare with."""
        numbers: set[Number] = set()
        subscripts = (node for node in ast.walk(test) if isinstance(node, ast.Subscript))
        indices = {index for node in subscripts for index in ast.walk(node.slice)}
        for node in ast.walk(test):
            if isinstance(node, ast.expr) and node not in indices:
                numbers |= self._of(node)
            if isinstance(node, ast.Compare):
                for one, other in pairwise([node.left, *node.comparators]):
                    numbers |= self._solved(one, self._of(other))
                    numbers |= self._solved(other, self._of(one))
        for node in _truth_tested_operations(test):
            numbers |= self._solved(node, {0, 1})
        return numbers

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
        elif isinstance(node, ast.BinOp) and (does := _OPERATIONS.get(type(node.op))):
            left, right = self._of(node.left, deep), self._of(node.right, deep)
            each = (_apply_operation(lambda a, b: (does(a, b),), *x) for x in product(left, right))
            values = set(chain.from_iterable(each))
        return set(sorted(values)[:_MAX_VALUES])

    def _solved(self, node: ast.expr, totals: set[Number]) -> set[Number]:
        """Return what the unknown part of an expression is where the whole comes to ``totals``."""
        if not totals:
            return set()
        if isinstance(node, ast.Call) and len(node.args) == 1:
            return self._solved(node.args[0], totals)  # int(x), float(x), len(x)
        if not isinstance(node, ast.BinOp):
            return totals
        left, right = self._of(node.left), self._of(node.right)
        if right and not left and (undoes := _INVERSE_OPERATIONS.get(type(node.op))):
            known, unknown = right, node.left
        elif left and not right and isinstance(node.op, ast.Add | ast.Mult):
            undoes, known, unknown = _INVERSE_OPERATIONS[type(node.op)], left, node.right
        else:
            return totals
        values = {x for a, b in product(totals, known) for x in _apply_operation(undoes, a, b)}
        return self._solved(unknown, set(sorted(values)[:_MAX_VALUES]))


def _truth_tested_operations(test: Condition) -> Iterator[ast.BinOp]:
    """Yield the arithmetic that a test asks whether it is 0, as ``x // 20`` is below 20."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _truth_tested_operations(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _truth_tested_operations(test.operand)
    elif isinstance(test, ast.Call) and getattr(test.func, "id", "") == "bool" and test.args:
        yield from _truth_tested_operations(test.args[0])
    elif isinstance(test, ast.BinOp):
        yield test


def _apply_operation(
    does: Callable[[Number, Number], Iterable[Number]], a: Number, b: Number
) -> Iterator[Number]:
    try:
        values = tuple(does(a, b))
    except (ArithmeticError, ValueError, TypeError):
        return
    for value in values:
        if not isinstance(value, complex) and abs(value) < _MAX_MAGNITUDE:
            yield int(value) if float(value).is_integer() else value


# The code under audit: functions that the rule names, or that those name in turn: globals,
# closures, defaults, attributes of a module beside it, methods of its class by their names. What
# lies outside the folder of the rule's file is a library's, and is never counted. An adapter leads
# to the functions of an engine, those of ``__counted__`` where it says them, and is not counted.

_MAX_ITEMS = 64
"""Numbers are read from containers of so many items at most: larger ones are tables, no limits."""

_MAX_FUNCTIONS = 500

_NUMBER_TYPES = (int, float, np.integer, np.floating)

_IMPLICIT_METHODS = frozenset(
    {"__init__", "__new__", "__post_init__", "__call__", "step", "tree", "draft", "reset"}
)
"""Methods that run without being named by the code itself."""

_MAKING_METHODS = frozenset({"__init__", "__new__", "__post_init__"})
"""Those of them that run where an object is made."""

_WRAPPERS: dict[Any, Callable[[Any], Iterable[Any]]] = {
    functools.partial: lambda value: (value.func, *value.args, *value.keywords.values()),
    MethodType: lambda value: (value.__func__, value.__self__),
    staticmethod | classmethod: lambda value: (value.__func__,),
    property: lambda value: (value.fget, value.fset),
    functools.cached_property: lambda value: (value.func,),
}
"""What values that stand for other code lead to."""


@dataclass
class ReachableCode:
    """The code that a rule reaches, and the numbers that it holds or reads."""

    codes: list[CodeType] = field(default_factory=list)  # of every function, nested ones too
    numbers: set[int | float] = field(default_factory=set)
    # Those that a name or an attribute is bound to, whoever has it.
    named: dict[str, set[int | float]] = field(default_factory=lambda: defaultdict(set))


def find_reachable(rule: Callable[..., Any]) -> ReachableCode:
    """Return the code that ``rule`` reaches; empty where it is not written in Python."""
    return _ReachabilityWalk(rule).reachable


class _ReachabilityWalk:
    def __init__(self, rule: Callable[..., Any]) -> None:
        self.reachable = ReachableCode()
        self._home = ""
        self._names: set[str] = set()
        self._seen: dict[int, Any] = {}
        self._spaces: list[type | ModuleType] = []
        self._see(rule)
        # Names met so far are looked up in the classes and modules met so far, to the end.
        before = (-1, -1)
        while before != (len(self._seen), len(self._names)):
            before = (len(self._seen), len(self._names))
            for space in list(self._spaces):
                implicit = _IMPLICIT_METHODS if isinstance(space, type) else frozenset()
                for name, value in list(vars(space).items()):
                    if name in self._names or name in implicit:
                        self._see(value)
                        self._bind([(name, value)])
        # What makes an object runs where code names its class, or is its class.
        kinds = [x for x in self._spaces if isinstance(x, type) and x is not rule]
        unmade = [kind for kind in kinds if kind.__name__ not in self._names]
        made_before = {
            getattr(vars(kind).get(name), "__code__", None)
            for kind in unmade
            for name in _MAKING_METHODS - self._names
        }
        codes = self.reachable.codes
        codes[:] = [code for code in codes if code not in made_before]

    def _see(self, value: Any) -> None:
        if isinstance(value, bool | np.bool_):
            return
        if isinstance(value, _NUMBER_TYPES):
            self.reachable.numbers.add(_as_python_number(value))
            return
        if id(value) in self._seen or len(self.reachable.codes) > _MAX_FUNCTIONS:
            return
        self._seen[id(value)] = value
        for part in self._parts(value):
            self._see(part)

    def _bind(self, bound: Iterable[tuple[str, Any]]) -> None:
        for name, value in bound:
            if isinstance(value, _NUMBER_TYPES) and not isinstance(value, bool):
                self.reachable.named[name].add(_as_python_number(value))

    def _parts(self, value: Any) -> Iterator[Any]:
        for kind, parts in _WRAPPERS.items():
            if isinstance(value, kind):
                yield from parts(value)
                return
        if isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            if self._is_own(_file_of(value)):
                self._spaces.append(value)
                yield from value.__bases__
        elif isinstance(value, ModuleType):
            if self._is_own(getattr(value, "__file__", None)):
                self._spaces.append(value)
        elif isinstance(value, np.ndarray):
            if value.size <= _MAX_ITEMS and value.dtype.kind in "iuf":
                yield from value.ravel().tolist()
        elif isinstance(value, tuple | list | set | frozenset | dict):
            if len(value) <= _MAX_ITEMS:
                yield from value.values() if isinstance(value, dict) else value
        elif self._is_own(_file_of(type(value))):
            yield type(value)
            held = getattr(value, "__dict__", {})
            self._bind(held.items())
            yield from held.values()
        elif callable(wrapped := getattr(value, "__wrapped__", None)):
            yield wrapped  # functools.lru_cache and its like

    def _function(self, function: FunctionType) -> Iterator[Any]:
        if (counted := getattr(function, "__counted__", None)) is not None:
            yield from counted
            return
        # A decorator's own code runs too, if it is the user's.
        yield getattr(function, "__wrapped__", None)
        yield from getattr(function, "__parts__", ())
        file = function.__code__.co_filename
        if self._home and file == "<string>" != self._home:
            return  # written by no one: a dataclass makes its own methods
        if not is_adapter_file(file):
            self._home = self._home or file
        if not self._is_own(file):
            return
        bound = _closure_and_defaults(function)
        self._bind(bound)
        yield from (value for _, value in bound)
        yield from self._code(function.__code__, function.__globals__)

    def _code(self, code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
        if not is_adapter_file(code.co_filename):
            self.reachable.codes.append(code)
        self._names.update(code.co_names)
        known = [(name, names[name]) for name in code.co_names if name in names]
        self._bind(known)
        yield from (value for _, value in known)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._code(constant, names)
            else:
                yield constant

    def _is_own(self, file: str | None) -> bool:
        if not file or not self._home:
            return bool(file)
        if is_kernel_runner_file(file):
            return False
        if file == self._home or is_marked_as_user_code(file) or is_adapter_file(file):
            return True
        folder, path = os.path.dirname(os.path.abspath(self._home)) + os.sep, os.path.abspath(file)
        rest = path.removeprefix(folder)
        libraries = "site-packages", f"lib{os.sep}python"
        return path.startswith(folder) and not any(name in rest for name in libraries)


def _closure_and_defaults(function: FunctionType) -> list[tuple[str, Any]]:
    """Return the names of a function's closure, and its arguments that have defaults."""
    code = function.__code__
    bindings = []
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            bindings.append((name, cell.cell_contents))
        except ValueError:
            continue  # a variable that has no value yet
    defaults = function.__defaults__ or ()
    arguments = code.co_varnames[: code.co_argcount]
    bindings += zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    return [*bindings, *(function.__kwdefaults__ or {}).items()]


def _as_python_number(number: Any) -> int | float:
    plain: int | float = number.item() if isinstance(number, np.generic) else number
    return plain


def _file_of(kind: type) -> str | None:
    return getattr(sys.modules.get(kind.__module__), "__file__", None)


# Tracing: which instructions of some functions run. Trace functions do not see instructions on
# every version from Python 3.12 on, which reports them when asked.

_TOOL_IDS = range(3, 5)
"""The interpreter's places for other tools: two, so that an audit inside an audit is seen too."""


class SettraceTracer:
    """Notes in ``seen`` what runs of these functions, in the calling thread and those it starts.

    It slows every line.
    """

    is_cheap = False

    def __init__(self, seen: dict[CodeType, Instructions], _codes: list[CodeType]) -> None:
        self._seen = seen

    def begin(self) -> bool:
        """Start, and return whether that works: not while a debugger traces, for example."""
        if sys.gettrace() is not None:
            return False
        sys.settrace(self._entered)
        threading.settrace(self._entered)
        return True

    def end(self) -> None:
        """Stop."""
        if sys.gettrace() == self._entered:
            sys.settrace(None)
            threading.settrace(None)

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        seen = self._seen.get(frame.f_code)
        if seen is None:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        ran, branches, taken = seen.ran, seen.branches, seen.taken
        last = -1

        def at_instruction(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal last
            if event == "opcode":
                now = frame.f_lasti
                ran.add(now)
                if last in branches:
                    taken.add((last, now == branches[last].straight_on))
                last = now
            return at_instruction

        return at_instruction


if sys.version_info >= (3, 12):
    from sys import monitoring

    class MonitoringTracer:
        """Sees what runs of ``codes`` between ``begin`` and ``end``, on every thread.

        Of those in ``seen`` it notes there what ran. It is cheap: an instruction reports itself
        once, a branch until both its ways were taken. Of equal code objects, all must be given.
        """

        is_cheap = True

        def __init__(self, seen: dict[CodeType, Instructions], codes: list[CodeType]) -> None:
            self._seen = seen
            self._codes = codes
            self._tool: int | None = None

        def begin(self) -> bool:
            """Start, and return whether that works: not if other tools hold all places."""
            if self._tool is not None:
                return True
            free = (tool for tool in _TOOL_IDS if monitoring.get_tool(tool) is None)
            if (tool := next(free, None)) is None:
                return False
            monitoring.use_tool_id(tool, "simverify")
            events = monitoring.events
            monitoring.register_callback(tool, events.INSTRUCTION, self._ran)
            monitoring.register_callback(tool, events.BRANCH, self._went)
            for code in self._codes:
                monitoring.set_local_events(tool, code, events.INSTRUCTION | events.BRANCH)
            # What an earlier look in this place has seen would report itself no more.
            monitoring.restart_events()
            self._tool = tool
            return True

        def end(self) -> None:
            """Stop, and free the place."""
            if self._tool is None:
                return
            tool, self._tool = self._tool, None
            for code in self._codes:
                monitoring.set_local_events(tool, code, monitoring.events.NO_EVENTS)
            monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
            monitoring.register_callback(tool, monitoring.events.BRANCH, None)
            monitoring.free_tool_id(tool)

        def _ran(self, code: CodeType, offset: int) -> Any:
            if (seen := self._seen.get(code)) is not None:
                seen.ran.add(offset)
            return monitoring.DISABLE

        def _went(self, code: CodeType, offset: int, destination: int) -> Any:
            seen = self._seen.get(code)
            if seen is None or (branch := seen.branches.get(offset)) is None:
                return monitoring.DISABLE
            straight = destination == branch.straight_on
            seen.taken.add((offset, straight))
            return monitoring.DISABLE if (offset, not straight) in seen.taken else None

    Tracer = MonitoringTracer
else:
    Tracer = SettraceTracer

# The monitor: which instructions of the code under audit run, call by call.
#
# With ``sys.monitoring`` (Python 3.12) every call is watched. A trace function slows every line of
# Python, so it sees the first calls of each instance, then one in ``CALL_STRIDE``. No call is
# watched once all lines and branches were seen; what an unwatched call reached counts as missed.

P = ParamSpec("P")
T = TypeVar("T")

FIRST_CALLS = 12  # of an instance are watched: half as many where the one before showed nothing new
MIN_FIRST_CALLS = 2
CALL_STRIDE = 31  # then one call in so many: prime, so that it keeps step with no pattern of paths


class CoverageMonitor:
    """What ran of some functions. ``always``: every call is watched.

    ``named``: the numbers of the code by their names. ``prefix``: the longest that a step was
    called on; ``row``: the most calls since it was built, while ``counts`` was true.
    """

    def __init__(
        self,
        codes: list[CodeType],
        *,
        always: bool = False,
        named: Mapping[str, set[int | float]] | None = None,
    ) -> None:
        self.named = named or {}
        self.instructions = {code: Instructions(code) for code in codes}
        self.calls = self.watched = 0
        self._open = dict(self.instructions)
        self._sight = Tracer(self._open, codes)
        self._always = always or self._sight.is_cheap
        self._closely = self._next = FIRST_CALLS
        self._known = 0
        self._instance: Any = None
        self.led: list[Any] = []
        self.prefix = self.row = self._now = 0
        self.counts = True

    @property
    def known(self) -> int:
        """How much was seen so far."""
        return sum(seen.known for seen in self.instructions.values())

    def closely(self, instance: Any = None, least: int = MIN_FIRST_CALLS) -> None:
        """Watch each of the next calls, of ``instance``: ``least``, or more where new code ran.

        ``led`` notes the instances in whose calls something new ran.
        """
        now = self.known
        if now > self._known and self._instance is not None:
            self.led.append(self._instance)
        self._next = FIRST_CALLS if now > self._known else max(self._next // 2, least)
        self._instance, self._known, self._closely = instance, now, self._next

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function``, and see what runs in it if this call is one to watch."""
        self.calls += 1
        if self.counts:
            self._now = self._now + 1 if args else 0  # no arguments: built anew, or reset
            self.row = max(self.row, self._now)
            if args and type(args[0]) is tuple:
                self.prefix = max(self.prefix, len(args[0]))
        if self._closely:
            self._closely -= 1
        elif self.calls % CALL_STRIDE and not self._always:
            return function(*args, **kwargs)
        if not self._open or not self._sight.begin():
            return function(*args, **kwargs)
        self.watched += 1
        try:
            return function(*args, **kwargs)
        finally:
            for code in [code for code, seen in self._open.items() if seen.is_complete()]:
                del self._open[code]
            if not self._open or not self._sight.is_cheap:
                self._sight.end()

    def end(self) -> None:
        """Stop watching."""
        self._sight.end()


# The real one: while code is under audit, os._exit is replaced.
_exit = os._exit

_forks = 0
"""How many forks of processes have led to this one: to ask for its number takes longer."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)

_CURRENT_MONITOR: ContextVar[CoverageMonitor | None] = ContextVar("watch", default=None)


@contextmanager
def monitor_coverage(watch: CoverageMonitor) -> Iterator[None]:
    """Let ``watch`` see the calls of the code under audit inside."""
    token = _CURRENT_MONITOR.set(watch)
    try:
        yield
    finally:
        watch.end()
        _CURRENT_MONITOR.reset(token)


@contextmanager
def unmonitored() -> Iterator[None]:
    """Let no monitor see the calls inside."""
    token = _CURRENT_MONITOR.set(None)
    try:
        yield
    finally:
        _CURRENT_MONITOR.reset(token)


def current_monitor() -> CoverageMonitor | None:
    """Return the monitor in use, if there is one."""
    return _CURRENT_MONITOR.get()


def call_monitored(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call code under audit, seen by the monitor; ends a process that the code forked."""
    watch, forks = _CURRENT_MONITOR.get(), _forks
    try:
        return function(*args, **kwargs) if watch is None else watch.call(function, *args, **kwargs)
    finally:
        if _forks != forks:
            _exit(1)


def begin_instance(instance: Any = None) -> None:
    """Say that an instance begins: its first calls are watched."""
    watch = _CURRENT_MONITOR.get()
    if watch is not None:
        watch.closely(instance)
