"""A report on a terminal: 80 columns, and no character that moves the cursor."""

import io
import shlex
import textwrap
from collections.abc import Iterator
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
    on = On.VERBOSE if verbose else On.SHORT
    shown = report.shown(on)
    head, body = list(_head_parts(shown)), list(_section_parts(shown, verbose))
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


def _head_parts(report: Report) -> Iterator[Text]:
    style = _STYLES[VERDICT_MARKS[report.verdict]] if report.verdict else "bold"
    headline = report.headline or f"{report.verdict or ''} {report.title}".lstrip()
    verdict = list(_wrap(headline, style=style))
    if not report.headline:
        verdict += _wrap(report.ruling)
    facts = [line for fact in report.facts for line in _wrap(f"{fact.name}: {fact.text}")]
    yield from (*facts, *verdict) if report.verdict_last else (*verdict, *facts)


def _section_parts(report: Report, verbose: bool) -> Iterator[Text | RichTable]:
    for number, section in enumerate(report.sections):
        if number:
            yield Text()
        colon = "" if ":" in section.title else ":"
        yield from _wrap(f"{section.title}{colon}", style="bold")
        before: Block | None = None
        for block in section.blocks:
            if before and isinstance(block, Table) and not block.listed:
                yield from _wrap(block.caption)
            leads = isinstance(before, Prose) and before.text.endswith(":")
            yield from _block_parts(block, section.indent + 2 * leads, verbose)
            before = block


def _block_parts(block: Block, indent: int, verbose: bool) -> Iterator[Text | RichTable]:
    match block:
        case Prose(text):
            yield from _wrap(text, indent, _STYLES["fail"] * text.startswith("FAIL "))
        case Items():
            yield from _list_lines(block, indent, verbose)
        case Table():
            whole = block.whole and verbose
            most = _MAX_VERBOSE_ROWS if verbose and not block.listed else _MAX_ROWS
            table = block if whole else block.first(most)
            if block.listed:
                yield from _listed_rows(table, indent)
            else:
                yield _rich_table(table)
            if table.left_out:
                yield from _wrap(f"{_more(table.left_out, ' row')} in the run file", indent)
        case Command(text):
            for line in command_lines(text):
                yield Text(line, no_wrap=True)


def _more(count: int, noun: str = "") -> str:
    return f"1 more{noun} stands" if count == 1 else f"{count:,} more{noun}{'s' * bool(noun)} stand"


def _list_lines(items: Items, indent: int, verbose: bool) -> Iterator[Text]:
    """Yield the entries, as far as a reader would scroll, and how many are left out."""
    lines = 0
    left_out = items.left_out
    for number, entry in enumerate(items.entries):
        if (number == MAX_ITEMS or lines >= _MAX_LINES) and not (items.whole and verbose):
            left_out += len(items.entries) - number
            break
        wrapped = list(_wrap(entry, indent, _STYLES["fail"] * entry.startswith("FAIL ")))
        lines += len(wrapped)
        yield from wrapped
    if left_out:
        yield from _wrap(f"{_more(left_out)} in the run file", indent)


def _listed_rows(table: Table, indent: int) -> Iterator[Text]:
    for row in table.rows:
        yield from _wrap(f"{row[0].short or row[0].text}:", indent)
        for name, cell in zip(table.columns[1:], row[1:], strict=True):
            if cell.text:
                yield from _wrap(f"{name} = {cell.text}", indent + 2)


def _rich_table(table: Table) -> RichTable:
    shown = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    columns = table.narrow or dict(enumerate(table.columns))
    numbers = table.numbers
    for i, header in columns.items():
        texts = [row[i].short or row[i].text for row in table.rows]
        breaks = i in table.names or max(map(len, texts), default=0) > _MAX_UNBROKEN
        shown.add_column(
            Text(header),
            justify="right" if i in numbers else "left",
            no_wrap=not breaks,
            overflow="fold",
        )
    for row in table.rows:
        shown.add_row(*(_cell_text(row[i]) for i in columns))
    return shown


def _cell_text(cell: Cell) -> Text:
    lines = (cell.text if cell.short is None else cell.short).split("\n")
    text = "\n".join(clean_line(line, _MAX_CELL) for line in lines)
    return Text(text, style=_STYLES[cell.mark])


def command_lines(command: str) -> list[str]:
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
        if len(lines[-1]) + 1 + len(group) + 2 > WIDTH:
            lines[-1] += " \\"
            lines.append(f"    {group}")
        else:
            lines[-1] += f" {group}"
    return lines


def _wrap(text: str, indent: int = 0, style: str = "") -> Iterator[Text]:
    """Yield the lines of a text; all but the first are indented by two more."""
    for line in textwrap.wrap(
        clean_line(text, _MAX_TEXT if indent == 0 else _MAX_ENTRY),
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    ):
        yield Text(line, style)
