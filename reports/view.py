"""What a report says before it is rendered: facts, sections and their blocks.

One view is built from a result document, and every renderer shows the same. Texts are as the
document has them; a renderer bounds and escapes them (``checks.clean_line``). How runs look on a
terminal stands first.
"""

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any, Literal

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from simverify.checks import clean_line
from simverify.results import Verdict

# Terminal output: its width, the colours of verdicts, lines without trailing blanks.


WIDTH = 80
VERDICT_STYLES = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}


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


_MAX_LINE = 2000


def plain_line(text: str, style: str = "", longest: int = _MAX_LINE) -> Text:
    """Return ``text`` so that it moves no cursor, is no markup and ends."""
    return Text(clean_line(text, longest), style=style)


def print_wrapped(lines: Iterable[str], console: Console, style: str = "") -> None:
    """Print each line, printable, folded at ``WIDTH``; what is folded stands further in."""
    for text in lines:
        indent = " " * (len(text) - len(text.lstrip(" ")))
        parts = textwrap.wrap(
            clean_line(text, _MAX_LINE),
            WIDTH,
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
        )
        for part in parts or [""]:
            console.print(Text(part, style=style), soft_wrap=True)


Mark = Literal["pass", "fail", "open", ""]

VERDICT_MARKS: dict[Verdict, Mark] = {"PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "open"}


@dataclass(frozen=True)
class Fact:
    """One thing that the verdict rests on."""

    name: str
    text: str


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list; ``left_out`` entries more stand in the run file only."""

    entries: tuple[str, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, what it is sorted by if not the text, a verdict's mark."""

    text: str
    value: float | None = None
    mark: Mark = ""


@dataclass(frozen=True)
class Table:
    """A table; ``numbers`` holds the indices of columns that are numbers.

    ``names``: those of columns of names, which may be long and push no other column away.
    ``folded``: closed until the reader opens it. ``whole``: it is what the report is about, and no
    format shortens it. ``left_out`` rows more stand in the run file.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()
    names: frozenset[int] = frozenset()
    folded: bool = False
    whole: bool = False
    left_out: int = 0


@dataclass(frozen=True)
class Picture:
    """A chart as SVG, with its text alternative inside; ``caption`` says how to read it."""

    title: str
    svg: Markup
    caption: str


@dataclass(frozen=True)
class Pictures:
    """Charts side by side."""

    pictures: tuple[Picture, ...]


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
class Tree:
    """Outputs as a tree of tokens; ``left_out`` branches more stand in the run file only."""

    caption: str
    roots: tuple[Node, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Command:
    """Lines to copy into a shell."""

    text: str


Block = Prose | Items | Table | Pictures | Tree | Command


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Case:
    """One outcome that a continuous-integration server counts.

    ``rests_on``: of what passed, what that rests on, by names, as ``tier`` and ``certificate``.
    """

    name: str
    outcome: Literal["passed", "failed", "warned", "inconclusive", "skipped"]
    message: str = ""
    rests_on: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Report:
    """A whole report: ``ruling`` says in a sentence what to do with what was judged.

    ``file``: the source file under audit, where there is one; ``line``: the one of it that what
    failed is likeliest to come from; ``where``: this and others, in words.
    """

    command: str
    title: str
    verdict: Verdict | None
    ruling: str
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    cases: tuple[Case, ...]
    version: str
    started: str
    machine: str
    seed: int
    file: str | None = None
    line: int | None = None
    where: str = ""
