"""A matrix of parameters as a report, and the same as text for a terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from simverify.reports.served.parts import print_command, print_verdict, served_report
from simverify.reports.terminal import print_wrapped
from simverify.reports.view import Case, Cell, Command, Fact, Items, Report, Section, Table
from simverify.results import MatrixCell, MatrixRun
from simverify.results.served.matrix import OPEN, SOUND

_WIDE = (42, 16, 7, 5)
"""Widths of the columns on a terminal."""


def print_matrix(run: MatrixRun, console: Console) -> None:
    """Print the verdict, a row for each cell, and what is not honoured in words."""
    print_verdict(run, run.source, console)
    print_wrapped([_ruling(run), ""], console)
    console.print(Text(_row(("parameter", "outcome", "tokens", "finds"))), soft_wrap=True)
    for cell in run.cells:
        found = "" if cell.found is None else f"{cell.found:.2g}"
        tokens = f"{cell.tokens:,}" if cell.tokens else ""
        console.print(Text(_row((cell.name, cell.outcome, tokens, found))), soft_wrap=True)
    lines = [f"{cell.name}: {cell.value}; {cell.outcome}: {cell.words}" for cell in run.cells]
    lines += [f"{fact.name}: {fact.text}" for fact in _facts(run)]
    print_wrapped(["", *lines, *(f"note: {note}" for note in run.notes)], console)
    print_command(run, console)


def matrix_report(run: MatrixRun) -> Report:
    """Return the report of a matrix."""
    rows = tuple(
        (
            Cell(cell.name), Cell(cell.value), Cell(cell.outcome), Cell(cell.words),
            Cell(f"{cell.tokens:,}", float(cell.tokens)),
            Cell("" if cell.found is None else f"{cell.found:.3g}", cell.found),
            Cell(", ".join(cell.tried)),
        )
        for cell in run.cells
    )  # fmt: skip
    table = Table(
        "Every parameter",
        ("parameter", "asked", "outcome", "in words", "tokens", "finds", "looked for"),
        rows,
        numbers=frozenset({4, 5}),
    )
    sections = [Section("Parameters", (table,))]
    if run.notes:
        sections.append(Section("Notes", (Items(run.notes),)))
    sections.append(Section("To reproduce", (Command(run.reproduce),)))
    cases = [_case(cell) for cell in run.cells]
    return served_report(
        run, "matrix", run.source, _ruling(run), _facts(run), sections, cases, run.seed
    )  # fmt: skip


def _row(cells: tuple[str, ...]) -> str:
    texts = [
        text.rjust(wide) if i > 1 else text.ljust(wide)
        for i, (text, wide) in enumerate(zip(cells, _WIDE, strict=True))
    ]
    return "  ".join(texts).rstrip()


def _ruling(run: MatrixRun) -> str:
    wrong = [c.name for c in run.cells if c.outcome not in (*SOUND, *OPEN)]
    open_ = [c.name for c in run.cells if c.outcome == "inconclusive"]
    lost = [c.name for c in run.cells if c.outcome == "no answer"]
    honoured = sum(c.outcome == "honoured" for c in run.cells)
    if wrong:
        more = f" It gave no answer to: {', '.join(lost)}." if lost else ""
        return f"The server does not do what it is asked for with: {', '.join(wrong)}.{more}"
    if lost:
        return (
            f"The server broke off, and gave no answer to: {', '.join(lost)}. Start it again and "
            f"repeat the command with --keep: what is kept is not asked again."
        )
    if open_:
        return f"Not decided: {', '.join(open_)}. More --tokens, or other prompts, may tell."
    if not honoured:
        return "The server takes none of the parameters."
    return f"{honoured} of {len(run.cells)} are honoured; the server says that it takes no other."


def _facts(run: MatrixRun) -> Iterator[Fact]:
    yield Fact("Target", f"{run.target}, {run.dtype}")
    if run.proxy is not None:
        yield Fact("Proxy for the draft", run.proxy)
    yield Fact(
        "Error rate",
        f"{run.alpha:g} for all cells, {run.cell_alpha:.2g} each, that what the server does is "
        f"called something else",
    )
    yield Fact(
        "Finds",
        f"with power .9, so large a share of tokens drawn without the parameter; the budget is "
        f"{run.budget:,} tokens a cell",
    )
    yield Fact("Ball", f"TV {run.ball:.2g} on average")


def _case(cell: MatrixCell) -> Case:
    outcome = f"{cell.outcome}: {cell.words}"
    if cell.outcome == "honoured":
        return Case(f"matrix {cell.name}", "passed")
    if cell.outcome == "refused":
        return Case(f"matrix {cell.name}", "skipped", outcome)
    kind = "inconclusive" if cell.outcome in OPEN else "failed"
    return Case(f"matrix {cell.name}", kind, outcome)  # type: ignore[arg-type]
