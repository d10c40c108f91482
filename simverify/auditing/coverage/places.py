"""Missed lines and branches as places in a file that a reader finds, and in whose arm they lie."""

import ast
import linecache
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from simverify.auditing.coverage.instructions import Branch, Instructions
from simverify.results import Coverage, MissedLines

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
    """Return a file's name: from the current folder if it lies there, else by itself."""
    if file.startswith("<"):
        return file
    path = os.path.relpath(file)
    return Path(file).name if path.startswith("..") else path


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
