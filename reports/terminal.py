"""A report on a terminal: 80 columns, and no character that moves the cursor."""

import io
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO, cast

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from simverify.checks import clean_line, printable
from simverify.reports.view import (
    MAX_ITEMS,
    VERDICT_MARKS,
    WIDTH,
    Block,
    Cell,
    Command,
    Items,
    On,
    Prose,
    Report,
    Table,
    TrimmedStream,
)

_STYLES = {"pass": "green", "fail": "bold red", "open": "yellow", "": ""}
_MAX_TEXT, _MAX_ENTRY, _MAX_CELL = 10_000, 2000, 400
"""Characters of a paragraph, of an entry of a list and of a cell."""

_MAX_LINES = 200
"""Lines of a list."""

_MAX_ROWS, _MAX_VERBOSE_ROWS = 100, 1000
_MAX_UNBROKEN = 20
"""Characters of a cell that stays on one line, in a column that is not one of names."""


def print_report(report: Report, console: Console, *, verbose: bool = False) -> None:
    """Print a report; ``verbose``: with the details too."""
    shown = report.shown(On.VERBOSE if verbose else On.SHORT)
    page = _Page(min(WIDTH, console.width), verbose)
    head, body = list(page.head(shown)), list(page.sections(shown))
    first, second = (body, head) if report.verdict_last else (head, body)
    for part in [*first, *([Text()] if first and second else []), *second]:
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))


def report_text(report: Report, *, verbose: bool = False) -> str:
    """Return what is printed, without colours or blanks at the ends of lines."""
    file = io.StringIO()
    trimmed = cast("TextIO", TrimmedStream(file))
    print_report(
        report, Console(file=trimmed, width=WIDTH, highlight=False, no_color=True), verbose=verbose
    )
    return file.getvalue().rstrip("\n")


@dataclass(frozen=True)
class _Page:
    """The parts of a report as texts and tables that are ``width`` columns wide at most."""

    width: int
    verbose: bool

    def head(self, report: Report) -> Iterator[Text]:
        style = _STYLES[VERDICT_MARKS[report.verdict]] if report.verdict else "bold"
        headline = report.headline or f"{report.verdict or ''} {report.title}".lstrip()
        verdict = list(self.wrap(headline, style=style))
        if not report.headline:
            verdict += self.wrap(report.ruling)
        facts = [line for fact in report.facts for line in self.wrap(f"{fact.name}: {fact.text}")]
        yield from (*facts, *verdict) if report.verdict_last else (*verdict, *facts)

    def sections(self, report: Report) -> Iterator[Text | RichTable]:
        for number, section in enumerate(report.sections):
            if number:
                yield Text()
            colon = "" if ":" in section.title else ":"
            yield from self.wrap(f"{section.title}{colon}", style="bold")
            before: Block | None = None
            for block in section.blocks:
                if before and isinstance(block, Table) and not block.listed:
                    yield from self.wrap(block.caption)
                leads = isinstance(before, Prose) and before.text.endswith(":")
                yield from self._block(block, section.indent + 2 * leads)
                before = block

    def _block(self, block: Block, indent: int) -> Iterator[Text | RichTable]:
        match block:
            case Prose(text):
                yield from self.wrap(text, indent, _STYLES["fail"] * text.startswith("FAIL "))
            case Items():
                yield from self._list(block, indent)
            case Table():
                yield from self._table(block, indent)
            case Command(text):
                for line in command_lines(text, self.width):
                    yield Text(line, no_wrap=True)

    def _list(self, items: Items, indent: int) -> Iterator[Text]:
        """Yield the entries, as far as a reader would scroll, and how many are left out."""
        lines = 0
        left_out = items.left_out
        for number, entry in enumerate(items.entries):
            whole = items.whole and self.verbose
            if (number == MAX_ITEMS or lines >= _MAX_LINES) and not whole:
                left_out += len(items.entries) - number
                break
            fails = entry.startswith("FAIL ")
            wrapped = list(self.wrap(entry, indent, _STYLES["fail"] * fails))
            lines += len(wrapped)
            yield from wrapped
        if left_out:
            yield from self.wrap(f"{_more(left_out)} in the run file", indent)

    def _table(self, block: Table, indent: int) -> Iterator[Text | RichTable]:
        most = _MAX_VERBOSE_ROWS if self.verbose and not block.listed else _MAX_ROWS
        table = block if block.whole and self.verbose else block.first(most)
        columns = table.narrow or dict(enumerate(table.columns))
        if table.listed:
            yield from self._listed_rows(table, range(len(table.columns)), indent)
        elif _least_width(table, columns) > self.width:
            yield from self._listed_rows(table, list(columns), indent)
        else:
            yield _rich_table(table, columns)
        if table.left_out:
            yield from self.wrap(f"{_more(table.left_out, ' row')} in the run file", indent)

    def _listed_rows(self, table: Table, columns: Sequence[int], indent: int) -> Iterator[Text]:
        """Yield each row as a paragraph, of a table that is too wide."""
        for row in table.rows:
            name = row[columns[0]]
            yield from self.wrap((name.short or name.text).replace("\n", "") + ":", indent)
            for i in columns[1:]:
                if row[i].text:
                    yield from self.wrap(f"{table.columns[i]} = {row[i].text}", indent + 2)

    def wrap(self, text: str, indent: int = 0, style: str = "") -> Iterator[Text]:
        """Yield the lines of a text; all but the first are indented by two more."""
        for line in textwrap.wrap(
            clean_line(text, _MAX_TEXT if indent == 0 else _MAX_ENTRY),
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 2),
            break_on_hyphens=False,
        ):
            yield Text(line, style)


def _more(count: int, noun: str = "") -> str:
    return f"1 more{noun} stands" if count == 1 else f"{count:,} more{noun}{'s' * bool(noun)} stand"


def _least_width(table: Table, columns: Mapping[int, str]) -> int:
    """Return the columns that a table takes if no word is broken but in long names."""
    width = -1
    for i, header in columns.items():
        texts = [header, *(str(_cell_text(row[i])) for row in table.rows)]
        words = [word for text in texts for word in (text.split() if _breaks(table, i) else [text])]
        widest = max(len(line) for word in words for line in word.split("\n"))
        width += 1 + (min(widest, _MAX_UNBROKEN) if i in table.names else widest)
    return width


def _breaks(table: Table, i: int) -> bool:
    """Return whether the cells of column ``i`` may take several lines."""
    texts = [row[i].short or row[i].text for row in table.rows]
    return i in table.names or max(map(len, texts), default=0) > _MAX_UNBROKEN


def _rich_table(table: Table, columns: Mapping[int, str]) -> RichTable:
    shown = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    numbers = table.numbers
    for i, header in columns.items():
        shown.add_column(
            Text(header),
            justify="right" if i in numbers else "left",
            no_wrap=not _breaks(table, i),
            overflow="fold",
        )
    for row in table.rows:
        shown.add_row(*(_cell_text(row[i]) for i in columns))
    return shown


def _cell_text(cell: Cell) -> Text:
    lines = (cell.text if cell.short is None else cell.short).split("\n")
    text = "\n".join(clean_line(line, _MAX_CELL) for line in lines)
    return Text(text, style=_STYLES[cell.mark])


def command_lines(command: str, width: int = WIDTH) -> list[str]:
    """Return the command on lines that a shell takes as one; its words are never broken."""
    command = printable(command)
    try:
        words = [shlex.quote(word) for word in shlex.split(command)]
    except ValueError:  # a quotation mark in a name
        words = command.split()
    groups: list[str] = []
    for earlier, word in zip(["", *words], words, strict=False):
        if earlier.startswith("--") and not word.startswith("--"):
            groups[-1] += f" {word}"
        else:
            groups.append(word)
    lines = [f"  {groups[0]}"] if groups else []
    for group in groups[1:]:
        if len(lines[-1]) + 1 + len(group) + 2 > width:
            lines[-1] += " \\"
            lines.append(f"    {group}")
        else:
            lines[-1] += f" {group}"
    return lines
