"""The lines and branches of functions: which of them ran, and the rest as places in a file.

What ran is told from a function's instructions; what did not, so that a reader finds it, with
the arm that it lies in.
"""

import ast
import dis
import linecache
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from simverify.results import Coverage, MissedLines
from simverify.symbolic.whose import portable

_ENTRY = frozenset({"RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "CACHE", "NOP"})

_OF_EXCEPTIONS = frozenset({"WITH_EXCEPT_START", "CHECK_EXC_MATCH", "CHECK_EG_MATCH"})
"""What stands before a jump that ``with`` and ``except`` make: no branch that somebody wrote."""


@dataclass(frozen=True)
class Branch:
    """A conditional jump: its place in the source, and where it goes on.

    ``at``: first and last line and column, of the tested expression or the loop's iterable.
    ``straight_on``: offset of the next instruction if it does not jump; ``lines``: the line that
    comes then, and the one that the jump leads to. ``jumps_if``: the outcome that jumps.
    """

    at: tuple[int, int, int, int]
    loop: bool
    straight_on: int
    lines: tuple[int, int]
    jumps_if: bool

    def outcome(self, straight: bool) -> bool:
        """Whether the test was true, or the loop went on, where it did not jump or did."""
        return self.jumps_if != straight


@dataclass
class Instructions:
    """A function's instructions. ``ran``: offsets; ``taken``: branches, and whether straight on."""

    code: CodeType
    lines: dict[int, int]
    branches: dict[int, Branch]
    ran: set[int] = field(default_factory=set)
    taken: set[tuple[int, bool]] = field(default_factory=set)
    _looked_at: int = -1

    @classmethod
    def of(cls, code: CodeType) -> "Instructions":
        """Return those of ``code``, of which nothing has run yet."""
        found = list(dis.get_instructions(code))
        lines = {i.offset: i.positions.lineno for i in found if i.positions and i.positions.lineno}
        entry = {i.offset for i in found if i.opname in _ENTRY}
        body = {offset: line for offset, line in lines.items() if offset not in entry}
        # The line of `def` runs when the function is defined, unless the body stands on it.
        if set(body.values()) - {code.co_firstlineno} and not code.co_name.startswith("<"):
            body = {o: line for o, line in body.items() if line != code.co_firstlineno}
        return cls(code, body, dict(_branches(found, lines)))

    @property
    def known(self) -> int:
        """How much was seen so far."""
        return len(self.ran) + len(self.taken)

    def is_complete(self) -> bool:
        """Whether every line and every branch was seen."""
        if self.known == self._looked_at:
            return False
        self._looked_at = self.known
        return not (self.missed_lines() or self.missed_branches())

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


def _branches(found: list[dis.Instruction], lines: dict[int, int]) -> Iterator[tuple[int, Branch]]:
    by_offset = {i.offset: n for n, i in enumerate(found)}
    for n, jump in enumerate(found[:-1]):
        loop = jump.opname == "FOR_ITER"
        if not loop and not ("JUMP" in jump.opname and "IF_" in jump.opname):
            continue
        target = by_offset.get(jump.argval)
        position = jump.positions
        if target is None or position is None or position.lineno is None:
            continue
        straight_on, goal = found[n + 1], found[target]
        if found[n - 1].opname in _OF_EXCEPTIONS or straight_on.opname == "LOAD_ASSERTION_ERROR":
            continue
        at = (
            position.lineno, position.end_lineno or position.lineno,
            position.col_offset or 0, position.end_col_offset or 0,
        )  # fmt: skip
        to = lines.get(straight_on.offset, 0), lines.get(goal.offset, 0)
        yield jump.offset, Branch(at, loop, straight_on.offset, to, not loop and _if_true(jump))


def _if_true(jump: dis.Instruction) -> bool:
    """Whether the jump is taken where its test is true."""
    if jump.opname.endswith("NONE"):
        # `is None` and `is not None` share these; a test at a loop's end jumps back if it holds.
        return "BACKWARD" in jump.opname
    return "IF_TRUE" in jump.opname


_LONGEST = 60
_PRAGMA = "pragma: no cover"
"""What coverage.py takes for lines that need not run, on the head of a block for all of it."""


def coverage_of(instructions: Sequence[Instructions]) -> Coverage:
    """Return what ran of some functions, in the calls that were watched."""
    by_file: dict[str, list[Instructions]] = defaultdict(list)
    for seen in instructions:
        by_file[seen.code.co_filename].append(seen)
    files = [_File.of(name, seen) for name, seen in by_file.items()]
    return Coverage(
        lines=sum(len(x.lines) for x in files),
        lines_reached=sum(len(x.reached) for x in files),
        branches=sum(x.branches for x in files),
        branches_reached=sum(x.branches - len(x.missed_branches) for x in files),
        not_reached=tuple(missed for x in files for missed in x.missed()),
        not_taken=tuple(words for x in files for words in x.not_taken()),
    )


@dataclass(frozen=True)
class _File:
    """One source file. ``lines``: those of the functions in it that count."""

    name: str
    source: "_Source"
    lines: dict[int, str]
    reached: set[int]
    branches: int
    missed_branches: list[tuple[Branch, bool]]

    @classmethod
    def of(cls, file: str, instructions: Sequence[Instructions]) -> "_File":
        source = _Source.of(file)
        lines: dict[int, str] = {}
        reached: set[int] = set()
        branches: dict[tuple[Branch, bool], bool] = {}
        for seen in instructions:
            for line in seen.lines.values():
                lines.setdefault(line, seen.code.co_qualname)
            reached |= seen.reached_lines()
            for key, was_seen in seen.outcomes().items():
                branches[key] = branches.get(key, False) or was_seen
        lines = {line: name for line, name in lines.items() if line not in source.excused}
        reached &= set(lines)
        counted = {k: v for k, v in branches.items() if k[0].at[0] not in source.excused}
        missed = [key for key, was_seen in counted.items() if not was_seen]
        return cls(shown_file(file), source, lines, reached, len(counted), missed)

    def missed(self) -> Iterator[MissedLines]:
        """Missed lines that follow each other in one function's arm, together."""
        together: list[int] = []
        for line in [*sorted(self.lines), 0]:
            if together and (line in self.reached or not line or self._parted(together[0], line)):
                why = self.source.arm_of(together[0], self.reached)
                yield MissedLines(self.name, together[0], together[-1], why)
                together = []
            if line and line not in self.reached:
                together.append(line)

    def _parted(self, first: int, line: int) -> bool:
        owner, other = self.lines[first], self.lines[line]
        return owner != other and not other.startswith(f"{owner}.")

    def not_taken(self) -> Iterator[str]:
        """Outcomes that never came, of tests that did, where no missed line tells it already."""
        for branch, outcome in sorted(self.missed_branches, key=lambda m: (m[0].at, m[1])):
            line = branch.at[0]
            goes_straight = branch.jumps_if != outcome
            leads_to = branch.lines[0 if goes_straight else 1]
            told = leads_to in self.lines and leads_to not in self.reached
            if line not in self.reached or told:
                continue
            text = self.source.text(branch.at)
            if branch.loop:
                how = "goes round" if outcome else "comes to its end"
                yield f"{self.name}:{line}: the loop over {text} never {how}"
            else:
                yield f"{self.name}:{line}: {text} is never {str(outcome).lower()}"


@dataclass(frozen=True)
class _Source:
    """A file's text. ``excused``: lines that its author says need not run."""

    rows: list[str]
    tree: ast.Module | None
    excused: frozenset[int]

    @classmethod
    def of(cls, file: str) -> "_Source":
        rows = linecache.getlines(file)
        try:
            tree: ast.Module | None = ast.parse("".join(rows))
        except (SyntaxError, ValueError):
            tree = None
        excused = {n for n, row in enumerate(rows, 1) if _PRAGMA in row}
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.stmt | ast.ExceptHandler) and node.lineno in excused:
                body = getattr(node, "body", None)
                last = body[-1] if isinstance(body, list) and body else node
                excused |= set(range(node.lineno, (last.end_lineno or node.lineno) + 1))
        return cls(rows, tree, frozenset(excused))

    def text(self, at: tuple[int, int, int, int]) -> str:
        """Return the text at a place (first and last line, columns in bytes), on one line."""
        first, last, start, end = at
        rows = [row.encode() for row in self.rows[first - 1 : last]]
        if not rows:
            return "a test"
        rows[-1] = rows[-1][:end]
        rows[0] = rows[0][start:]
        return _short(b" ".join(rows).decode(errors="replace"))

    def arm_of(self, line: int, reached: set[int]) -> str:
        """Return the head of the outermost arm around ``line`` of which nothing ran, or ""."""
        for node in ast.walk(self.tree) if self.tree else ():
            for head, body in self._arms(node):
                last = body[-1].end_lineno or body[-1].lineno
                if body[0].lineno <= line <= last:
                    inside = range(body[0].lineno, last + 1)
                    if not any(x in reached for x in inside):
                        return head
        return ""

    def _arms(self, node: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
        if isinstance(node, ast.If | ast.While):
            word = "if" if isinstance(node, ast.If) else "while"
            head = f"{word} {self._code(node.test)}"
            yield head, node.body
            if node.orelse:
                yield f"else of {head}", node.orelse
        elif isinstance(node, ast.For):
            yield f"for {self._code(node.target)} in {self._code(node.iter)}", node.body
        elif isinstance(node, ast.ExceptHandler):
            yield f"except {self._code(node.type)}" if node.type else "except", node.body
        elif isinstance(node, ast.match_case):
            yield f"case {self._code(node.pattern)}", node.body
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{node.name} is never called", node.body

    def _code(self, node: ast.AST) -> str:
        return _short(ast.unparse(node))


def where(missed: MissedLines) -> str:
    """Return missed lines in a few words: ``file.py:31-33 (if vocab > 1000)``."""
    last = "" if missed.last == missed.first else f"-{missed.last}"
    why = f" ({missed.why})" if missed.why else ""
    return f"{missed.file}:{missed.first}{last}{why}"


def shown_file(file: str) -> str:
    """Return a file's name: from its package or the current folder on, else by itself."""
    if file.startswith("<"):
        return file
    if (installed := portable(file)) != file:
        return installed
    path = os.path.relpath(file)
    return Path(file).name if path.startswith("..") else path


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
