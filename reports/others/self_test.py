"""A self-test as text for a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from simverify.reports.terminal import STYLE, line
from simverify.reports.words import MOST_ITEMS, MOST_ROWS, first, listed
from simverify.results import SelfTestRun

OUTCOMES = {
    ("fault", True): "caught",
    ("fault", False): "missed",
    ("control", True): "FALSE ALARM",
    ("control", False): "passed",
}
UNITS = {"exact": "paths", "sampled": "calls", "probe": "probes"}


def print_self_test(run: SelfTestRun, console: Console) -> None:
    """Print every entry of the catalogue with its outcome, and the verdict."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for header in ("name", "kind", "outcome", "tier", "effort", "TV"):
        right = header in ("effort", "TV")
        table.add_column(header, justify="right" if right else "left", overflow="fold")
    shown, more = first(run.results, 5 * MOST_ROWS)
    for entry in shown:
        style = "green" if entry.as_expected else "bold red"
        table.add_row(
            line(entry.name, longest=60),
            entry.kind,
            Text(OUTCOMES[entry.kind, entry.caught], style=style),
            entry.tier,
            f"{entry.effort:,} {UNITS[entry.tier]}",
            "" if entry.tv is None else f"{entry.tv:.2g}",
        )
    console.print(table)
    words = "every fault was caught and every control passed"
    if more:
        console.print(f"{more:,} entries more stand in the run file")
    unexpected = listed(run.unexpected, MOST_ITEMS) or words
    console.print(Text(f"{run.verdict}: {unexpected}", style=STYLE[run.verdict]))
