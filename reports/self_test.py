"""A self-test as text for a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from simverify.results import SelfTestRun, Verdict

_STYLE: dict[Verdict, str] = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}

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
    for entry in run.results:
        style = "green" if entry.as_expected else "bold red"
        table.add_row(
            Text(entry.name),
            entry.kind,
            Text(OUTCOMES[entry.kind, entry.caught], style=style),
            entry.tier,
            f"{entry.effort:,} {UNITS[entry.tier]}",
            "" if entry.tv is None else f"{entry.tv:.2g}",
        )
    console.print(table)
    words = "every fault was caught and every control passed"
    console.print(
        Text(f"{run.verdict}: {', '.join(run.unexpected) or words}", style=_STYLE[run.verdict])
    )
