"""A sweep as text for a terminal, and as a report."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from simverify.checks import clean
from simverify.reports.terminal import STYLE, WIDTH, line
from simverify.reports.view import (
    MARKS,
    Case,
    Cell,
    Command,
    Fact,
    Items,
    Mark,
    Prose,
    Report,
    Section,
    Table,
)
from simverify.reports.words import MOST_ITEMS, MOST_ROWS, first
from simverify.results import SweepAudit, SweepCell, SweepRun

_COLUMNS = (
    "verifier", "model", "T", "dist", "gamma", "drafts", "seed", "E[tau]", "of best", "verdict",
)  # fmt: skip
_NUMBERS = frozenset({"T", "dist", "gamma", "seed", "E[tau]", "of best"})
_NAMES = frozenset({"verifier", "model"})
_SHORT = {"INCONCLUSIVE": "INCONCL."}
_MOST_CELLS = 100
"""Rows that a terminal shows; the report and the document have more."""


def print_sweep(run: SweepRun, console: Console, *, verbose: bool = False) -> None:
    """Print a row for each cell and each audit, what failed, and how it adds up.

    ``verbose``: all cells, however many, and every finding.
    """
    cells, left_out = first(run.cells, len(run.cells) if verbose else _MOST_CELLS)
    if cells:
        console.print(_grid(cells))
    if left_out:
        console.print(line(f"{left_out:,} more cells: simverify report, or --verbose"))
    if run.audits:
        console.print(_audits(run.audits))
    for words in _findings(run, most=None if verbose else MOST_ITEMS):
        _print(words, console)
    console.print()
    for words in summary(run):
        _print(words, console, STYLE[run.verdict] if words.startswith(run.verdict) else "")


def _print(words: str, console: Console, style: str = "") -> None:
    for part in textwrap.wrap(clean(words, 2000), WIDTH, subsequent_indent="  "):
        console.print(Text(part, style=style), soft_wrap=True)


def summary(run: SweepRun) -> Iterator[str]:
    """Yield the verdict with how many of each there are, and what the error rate is of."""
    verdicts = [cell.result.verdict for cell in run.cells]
    verdicts += [audit.verdict or "INCONCLUSIVE" for audit in run.audits]
    counted = (("failed", "FAIL"), ("without verdict", "INCONCLUSIVE"), ("passed", "PASS"))
    shown = [f"{verdicts.count(v):,} {words}" for words, v in counted if v in verdicts]
    yield f"{run.verdict}: {', '.join(shown)}"
    if run.alpha_each is not None:
        yield (
            f"alpha {run.alpha:g} for all cells together, {run.alpha_each:.3g} each; "
            f"{run.blocks:,} blocks a cell"
        )


def sweep_report(run: SweepRun) -> Report:
    """Return the report of a sweep."""
    verdict, *rates = summary(run)
    facts = [Fact("Cells and audits", verdict.partition(": ")[2])]
    facts += [Fact("Error rate", words) for words in rates]
    versions = run.versions
    return Report(
        command="sweep",
        title="a sweep",
        verdict=run.verdict,
        ruling=_RULINGS[run.verdict],
        facts=tuple(facts),
        sections=tuple(_sections(run)),
        cases=tuple(_cases(run)),
        version=versions.simverify,
        started="",
        machine=f"Python {versions.python}, numpy {versions.numpy}",
        seed=run.cells[0].seed if run.cells else run.audits[0].seed,
    )


_RULINGS = {
    "PASS": "Every cell and every audit passed.",
    "FAIL": "Something in this sweep does not emit the target's distribution.",
    "INCONCLUSIVE": "Nothing here is known to be lossy, and not everything has a verdict.",
}


def _sections(run: SweepRun) -> Iterator[Section]:
    if run.cells:
        shown, left_out = first(run.cells, MOST_ROWS)
        columns, rows = _table(shown)
        table = Table(
            "Each cell, judged by itself",
            columns,
            rows,
            numbers=frozenset(i for i, name in enumerate(columns) if name in _NUMBERS),
            names=frozenset(i for i, name in enumerate(columns) if name in _NAMES),
            left_out=left_out,
        )
        words = "of best: E[tau] over that of the best rule of its kind."
        yield Section("The cells", (table, Prose(words)))
    if run.audits:
        audits, left_out = first(run.audits, MOST_ROWS)
        table = Table(
            "Each audit, in a process of its own",
            ("code", "gamma", "seed", "tier", "verdict", "deviation", "why"),
            tuple(_audit(audit) for audit in audits),
            numbers=frozenset({1, 2, 5}),
            names=frozenset({0}),
            left_out=left_out,
        )
        yield Section("The audits", (table,))
    found = tuple(_findings(run, most=None))
    if found:
        yield Section("What fails", (Items(*first(found, MOST_ITEMS)),))
    yield Section("To reproduce", (Command(run.reproduce),))


def _table(cells: Sequence[SweepCell]) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
    """Return the columns of which a cell has something to say, and the rows."""
    rows = [tuple(_cell(cell)) for cell in cells]
    said = [i for i in range(len(_COLUMNS)) if any(row[i].text for row in rows)]
    return tuple(_COLUMNS[i] for i in said), tuple(tuple(row[i] for i in said) for row in rows)


def _cell(cell: SweepCell) -> Iterator[Cell]:
    row, model = cell.result, cell.model
    tau = row.block_efficiency - 1
    yield Cell(row.verifier)
    yield Cell(row.model)
    for knob in (model.temperature, model.draft_distance):
        yield Cell("" if knob is None else f"{knob:g}", knob)
    yield Cell(str(row.gamma), row.gamma)
    yield Cell("" if cell.drafts is None else f"{cell.drafts} {cell.scheme}")
    yield Cell(str(cell.seed), cell.seed)
    yield Cell(f"{tau:.4f}", tau)
    yield Cell(f"{row.optimality:.1%}", row.optimality)
    yield Cell(row.verdict, mark=MARKS[row.verdict])


def _audit(audit: SweepAudit) -> tuple[Cell, ...]:
    mark: Mark = "fail" if audit.verdict is None else MARKS[audit.verdict]
    deviation = audit.max_abs_deviation
    return (
        Cell(audit.spec),
        Cell("" if audit.gamma is None else str(audit.gamma), audit.gamma),
        Cell(str(audit.seed), audit.seed),
        Cell(audit.tier or ""),
        Cell(audit.verdict or audit.state, mark=mark),
        Cell("" if deviation is None else f"{deviation:.2g}", deviation),
        Cell(audit.reason or "; ".join(found.text for found in audit.findings)),
    )


def _grid(cells: tuple[SweepCell, ...]) -> Grid:
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    columns, rows = _table(cells)
    for name in columns:
        side: Literal["left", "right"] = "right" if name in _NUMBERS else "left"
        # A long name takes more lines: it is never cut short.
        grid.add_column(Text(name), justify=side, no_wrap=name not in _NAMES, overflow="fold")
    for cell, row in zip(cells, rows, strict=True):
        *texts, verdict = (part.text for part in row)
        shown = line(_SHORT.get(verdict, verdict), STYLE[cell.result.verdict])
        grid.add_row(*(line(text) for text in texts), shown)
    return grid


def _audits(audits: tuple[SweepAudit, ...]) -> Grid:
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    columns: tuple[tuple[str, Literal["left", "right"]], ...] = (
        ("code", "left"), ("gamma", "right"), ("seed", "right"), ("tier", "left"),
        ("verdict", "left"),
    )  # fmt: skip
    for header, side in columns:
        grid.add_column(header, justify=side, no_wrap=header != "code", overflow="fold")
    for audit in audits:
        code, gamma, seed, tier, verdict, *_ = (part.text for part in _audit(audit))
        style = STYLE.get(verdict, "bold red")
        shown = Text(_SHORT.get(verdict, verdict), style=style)
        grid.add_row(*(line(text) for text in (code, gamma, seed, tier)), shown)
    return grid


def _findings(run: SweepRun, most: int | None) -> Iterator[str]:
    """Yield what failed and why, a line each; of ``most`` things at most."""
    told = 0
    for name, verdict, words in _outcomes(run):
        if verdict != "PASS" and words and (most is None or told < most):
            told += 1
            yield f"{name}: {'; '.join(words)}"


def _outcomes(run: SweepRun) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for cell in run.cells:
        row = cell.result
        yield cell.name, row.verdict, (*row.lossless.findings, *row.acceptance.findings)
    for audit in run.audits:
        words = (audit.reason,) if audit.reason else tuple(x.text for x in audit.findings)
        yield audit.name, audit.verdict or audit.state, words


def _cases(run: SweepRun) -> Iterator[Case]:
    for name, verdict, words in _outcomes(run):
        if verdict == "PASS":
            yield Case(name, "passed")
        else:
            outcome: Literal["failed", "inconclusive"]
            outcome = "failed" if verdict == "FAIL" else "inconclusive"
            yield Case(name, outcome, "\n".join(words))
