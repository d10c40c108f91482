"""A plan as text for a terminal, 80 columns wide."""

from typing import Literal

from rich.console import Console
from rich.table import Table

from simverify.reports.terminal import line
from simverify.results import PlanRun


def print_plan(run: PlanRun, console: Console) -> None:
    """Print what was asked, the table of all tests, and what its times rest on."""
    console.print(line(title(run), "bold"))
    console.print(_table(run))
    notes: dict[str, list[str]] = {}
    for row in run.rows:
        notes.setdefault(row.measure, []).append(row.test)
    for measure, tests in notes.items():
        console.print(line(f"{', '.join(tests)}: {measure}", "dim"))
    for words in basis(run):
        console.print(line(words))


def title(run: PlanRun) -> str:
    """Return what was asked, in a line."""
    scale = f"V = {run.vocab_size}, gamma = {run.gamma}, alpha {run.alpha:g}, power {run.power:g}"
    if run.samples is None:
        return f"To find {run.deviation:g}: {scale}"
    budget = f"{run.samples:.3g} tokens"
    if run.seconds is not None:
        budget = f"{run.seconds:g} s here, {budget}"
    return f"What {budget} find: {scale}"


def _table(run: PlanRun) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("test", no_wrap=True)
    for header in ("level", "deviation", "samples", "", "time here"):
        side: Literal["left", "right"] = "left" if header == "" else "right"
        table.add_column(header, justify=side, no_wrap=True)
    for row, seconds in zip(run.rows, run.meta.row_seconds, strict=True):
        table.add_row(
            line(row.test, longest=40),
            f"{row.level:.1e}",
            "none" if row.deviation is None else f"{row.deviation:.3g}",
            "none will do" if row.samples is None else f"{row.samples:.3g}",
            "" if row.samples is None else row.unit,
            "" if seconds is None else time_here(seconds),
        )
    return table


def basis(run: PlanRun) -> list[str]:
    """Return what the times and levels rest on."""
    timing = run.meta.timings[0]
    threads = f"{run.meta.threads} thread{'s' * (run.meta.threads > 1)}"
    return [
        f"Times: {timing.verifier} on {timing.model}, {threads}, everything counted: "
        f"{timing.blocks_per_second:.3g} blocks a second of {run.tokens_per_block:.3g} tokens, "
        "timed just now.",
        "Levels are those at the end of a run of four looks that splits alpha over all tests. "
        f"Transitions are counted in {run.contexts} contexts.",
    ]


def time_here(seconds: float) -> str:
    """Return a time in its largest unit."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e3:.3g} ms"
