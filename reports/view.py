"""What a report says before it is rendered: facts, sections and their blocks.

A result document becomes one report, and every renderer shows it. Texts are as the document has
them; a renderer bounds and escapes them (``checks.clean_line``).
"""

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Literal

from markupsafe import Markup

if TYPE_CHECKING:  # every command imports this module, few read a document
    from simverify.results import Verdict

WIDTH = 80
"""Columns of a terminal."""

MAX_ROWS = 200
"""Rows of a table on a page."""

MAX_ITEMS = 100
"""Entries of a list."""


class TrimmedStream:
    """A text stream without the blanks that tables leave at the end of their lines."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` without them; return how long it was."""
        self._stream.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class On(enum.Flag):
    """Where a part of a report is shown: pages, a terminal, or a terminal with --verbose."""

    PAGE = enum.auto()
    SHORT = enum.auto()
    VERBOSE = enum.auto()
    TERMINAL = SHORT | VERBOSE
    DETAIL = PAGE | VERBOSE
    ALL = PAGE | SHORT | VERBOSE


Mark = Literal["pass", "fail", "open", ""]
Outcome = Literal["passed", "failed", "warned", "inconclusive", "skipped"]

VERDICT_MARKS: "dict[Verdict, Mark]" = {"PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "open"}


@dataclass(frozen=True)
class Fact:
    """One thing that the verdict rests on."""

    name: str
    text: str
    on: On = On.ALL


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a section."""

    on: On = On.ALL

    def shown(self, on: On) -> bool:
        """Return whether it is shown there."""
        return bool(self.on & on)


@dataclass(frozen=True)
class Prose(Block):
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items(Block):
    """A list; ``left_out`` more entries are in the run file only.

    ``whole``: a terminal shows every entry with --verbose.
    """

    entries: tuple[str, ...]
    left_out: int = 0
    whole: bool = False

    def shown(self, on: On) -> bool:
        """Return whether it is shown there; an empty list is not."""
        return bool(self.entries) and super().shown(on)

    def first(self, most: int) -> "Items":
        """Return the list with ``most`` entries at most."""
        more = max(len(self.entries) - most, 0)
        return replace(self, entries=self.entries[:most], left_out=self.left_out + more)


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    ``value``: what it is sorted by, if not its text. ``mark``: that of a verdict. ``short``: its
    text on a terminal, if it is another one.
    """

    text: str
    value: float | None = None
    mark: Mark = ""
    short: str | None = None


@dataclass(frozen=True)
class Table(Block):
    """A table. A column in which a cell has a value is one of numbers.

    ``names``: indices of columns of names, which may be long and push no other column away.
    ``folded``: closed until the reader opens it. ``whole``: the report is about this table, so
    Markdown does not shorten it, nor does a terminal with --verbose. ``left_out``: rows that are
    in the run file only. ``narrow``: the columns that a terminal shows, with their headers; all
    columns if it is empty. ``listed``: a terminal shows each row as a paragraph.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    names: frozenset[int] = frozenset()
    folded: bool = False
    whole: bool = False
    left_out: int = 0
    narrow: Mapping[int, str] = field(default_factory=dict)
    listed: bool = False

    @property
    def numbers(self) -> frozenset[int]:
        """Return the indices of the columns that are numbers."""
        return frozenset(
            i
            for i in range(len(self.columns))
            if any(row[i].value is not None for row in self.rows)
        )

    def first(self, most: int) -> "Table":
        """Return the table with ``most`` rows at most."""
        more = max(len(self.rows) - most, 0)
        return replace(self, rows=self.rows[:most], left_out=self.left_out + more)


@dataclass(frozen=True)
class Picture:
    """A chart as SVG, with its text alternative inside; ``caption`` says how to read it."""

    title: str
    svg: Markup
    caption: str


@dataclass(frozen=True)
class Pictures(Block):
    """Charts side by side, on pages only: drawn by ``draw`` when a page shows them."""

    draw: Callable[[], tuple[Picture, ...]]
    on: On = field(default=On.PAGE, kw_only=True)


@dataclass(frozen=True)
class Node:
    """One token of a tree of outputs, and the tokens that may follow it.

    ``emitted``, ``due``: probabilities, as text and as numbers in [0, 1]. ``on_path``: part of
    the output that deviates most.
    """

    token: int
    emitted: float
    due: float
    emitted_text: str
    due_text: str
    on_path: bool
    children: tuple["Node", ...] = ()


@dataclass(frozen=True)
class Tree(Block):
    """Outputs as a tree of tokens, on pages only.

    ``left_out`` more branches are in the run file.
    """

    caption: str
    roots: tuple[Node, ...]
    left_out: int = 0
    on: On = field(default=On.PAGE, kw_only=True)


@dataclass(frozen=True)
class Command(Block):
    """A line to copy into a shell."""

    text: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, which a terminal indents by ``indent``."""

    title: str
    blocks: tuple[Block, ...]
    on: On = On.PAGE
    indent: int = 2


@dataclass(frozen=True)
class Case:
    """One outcome that a continuous-integration server counts.

    ``rests_on``: of what passed, what that rests on, by names, as ``tier`` and ``certificate``.
    """

    name: str
    outcome: Outcome
    message: str = ""
    rests_on: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Report:
    """A whole report.

    ``ruling``: what to do with what was judged. ``headline``: what a terminal says in the place of
    verdict, title and ruling. ``verdict_last``: a terminal shows the sections first.
    ``file``: the source file under audit, where there is one; ``line``: its line that the failure
    is likeliest to come from; ``where``: this line and others, in words.
    """

    command: str
    title: str
    verdict: "Verdict | None"
    ruling: str
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    cases: tuple[Case, ...]
    version: str
    started: str
    machine: str
    seed: int
    headline: str = ""
    verdict_last: bool = False
    file: str | None = None
    line: int | None = None
    where: str = ""

    def shown(self, on: On) -> "Report":
        """Return only what is shown there; a section without a block goes."""
        sections = (
            replace(section, blocks=tuple(block for block in section.blocks if block.shown(on)))
            for section in self.sections
            if on & section.on
        )
        return replace(
            self,
            facts=tuple(fact for fact in self.facts if on & fact.on),
            sections=tuple(section for section in sections if section.blocks),
        )
