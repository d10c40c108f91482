"""Drafts by layers in groups (EasySpec) on a terminal, 80 columns wide."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from simverify.reports.compare.grouped.fared import (
    devices,
    fared,
    group_words,
    in_groups,
    loss_words,
    predicted,
    speed_words,
    time_model_words,
)
from simverify.reports.compare.grouped.section import TITLE
from simverify.reports.compare.grouped.tables import (
    acceptance_table,
    loss_cell,
    similarity_tables,
    times_table,
)
from simverify.reports.terminal import line
from simverify.reports.view import Table
from simverify.results import CompareRun, DraftAcceptance

_MOST_DEVICES = 3
"""Columns that fit beside the others."""

_TIMES_HEADERS = (
    "\nN", "\nT(A)", "\nMLP", "largest\ngroup", "its\nlayers", "at\nonce", "\nT_add",
    "exact\npass", "in\ngroups", "drafted\ntoken",
)  # fmt: skip


def print_groups(run: CompareRun, console: Console, *, verbose: bool) -> None:
    """Print the table with what it means; ``verbose``: similarities, acceptance and times too."""
    if not run.layer_parallel:
        return
    console.print(line(f"{TITLE}, single drafts of {run.gamma} tokens", "bold"))
    console.print(_summary(run))
    console.print(line(loss_words(run), "dim"))
    if run.meta.drafting:
        console.print(line(speed_words(run), "dim"))
    if verbose:
        for entry in run.layer_parallel:
            words = f"N = {entry.layer_parallel}: layers {group_words(entry.groups)}"
            console.print(line(words, "dim"))
        for words, table in _behind(run):
            console.print(line(words))
            console.print(table)
        if run.meta.drafting:
            console.print(line(time_model_words(run), "dim"))
    console.print()


def _summary(run: CompareRun) -> Printed:
    asked = devices(run)[:_MOST_DEVICES]
    headers = ["\nN", "E[tau]\nwith", "\nwithout", "loss\nwith", "\nwithout", "draft's\ntime",
               "tokens\n/s", "speed\nhere"]  # fmt: skip
    headers += [f"{'' if i else 'model'}\non {count}" for i, count in enumerate(asked)]
    table = _table(headers)
    for row in fared(run):
        time = row.time
        table.add_row(
            str(row.number),
            _kept(row.calibrated or row.plain),
            _kept(row.without),
            _tight(loss_cell(row.calibrated).text),
            _tight(loss_cell(row.without).text),
            "-" if time is None else f"{time.share:.0%}",
            "-" if time is None else f"{time.tokens_per_second:.0f}",
            _times(row.here),
            *(_times(predicted(time, count)) for count in asked),
        )
    return table


def _behind(run: CompareRun) -> Iterator[tuple[str, Printed]]:
    """Yield all that the table rests on, each with its caption."""
    for found in (acceptance_table(run), *similarity_tables(run)):
        yield found.caption, _printed(found, found.columns)
    if any(map(in_groups, run.layer_parallel)) and run.meta.drafting:
        found = times_table(run)
        yield found.caption, _printed(found, _TIMES_HEADERS)


def _printed(found: Table, headers: tuple[str, ...]) -> Printed:
    table = _table(headers)
    for row in found.rows:
        table.add_row(*(line(cell.text) for cell in row))
    return table


def _table(headers: "tuple[str, ...] | list[str]") -> Printed:
    table = Printed(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for header in headers:
        table.add_column(Text(header), justify="right", no_wrap=True)
    return table


def _kept(found: DraftAcceptance | None) -> str:
    if found is None:
        return "-"
    middle = (found.expected_accepted.lower + found.expected_accepted.upper) / 2
    return f"{middle:.{3 if middle < 10 else 2}f}"


def _tight(words: str) -> str:
    return words.replace(" ", "")


def _times(speed: float | None) -> str:
    return "-" if speed is None else f"{speed:.2f}x"
