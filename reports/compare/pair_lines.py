"""What a comparison on real models adds to its table in a terminal: pairs, acceptance, time."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from simverify.reports.compare.speedups import speedup_table
from simverify.reports.console import line
from simverify.results import CompareResult, CompareRun

_HEADERS = (
    "\nverifier", "\nmeasured", "predicted\nc={:g}", "predicted\nown c", "own\nc", "block\ncost",
    "a\ntoken", "\ndraft", "\ntarget", "\nverify",
)  # fmt: skip


def pair_lines(run: CompareRun, rows: Sequence[CompareResult]) -> Iterator[str]:
    """Yield lines of text; none for a simulated model."""
    for row in rows:
        if (paired := row.paired) is not None:
            half = (paired.ci_high - paired.ci_low) / 2
            yield (
                f"on the {paired.blocks:,} drafted blocks of {paired.baseline}, E[tau] of "
                f"{row.verifier} less {paired.baseline}'s: {paired.difference:+.4f}"
                f"\N{PLUS-MINUS SIGN}{half:.4f}"
            )
    if run.decoding is not None:
        for row in rows:
            kept = " ".join(f"{share:.2f}" for share in row.acceptance_ccdf.measured)
            yield f"{row.verifier} keeps l tokens or more, l = 1 to {run.gamma}: {kept}"


def times(run: CompareRun, model: str) -> tuple[str, Table] | None:
    """Return the caption and the table of the speed-ups on a model, if it was timed."""
    found = speedup_table(run, model)
    if found is None:
        return None
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for i, header in enumerate(_HEADERS):
        words = header.format(run.results[0].speedup.cost_ratio)
        table.add_column(Text(words), justify="right" if i else "left", no_wrap=True)
    for row in found.rows:
        table.add_row(*(line(cell.text) for cell in row))
    return found.caption, table
