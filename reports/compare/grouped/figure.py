"""Acceptance by tree width for papers: panels with calibration and without, for each run."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from simverify.checks import printable
from simverify.reports.compare.grouped.chart import drawn_name, span, tree_widths, width_lines
from simverify.results import CompareRun

_MARKERS = "osD^vPX*"


def width_panels(runs: Sequence[CompareRun]) -> Iterator[Callable[[Any], None]]:
    """Yield what draws a panel on axes of matplotlib; none of runs where all drafts are plain."""
    for run in runs:
        if any(one.loss for entry in run.layer_parallel for one in entry.acceptance):
            yield from (partial(_panel, run, calibration) for calibration in (True, False))


def _panel(run: CompareRun, calibration: bool, axes: Any) -> None:
    widths = tree_widths(run)
    for line in width_lines(run, calibration=calibration):
        x, middle, low, high = zip(*line.points, strict=True)
        ends = [[m - end for m, end in zip(middle, low, strict=True)],
                [end - m for m, end in zip(middle, high, strict=True)]]  # fmt: skip
        axes.errorbar(
            x, middle, yerr=ends, linewidth=1.2, elinewidth=0.8, capsize=2.0, label=line.name,
            marker=_MARKERS[line.style % len(_MARKERS)], markersize=3.5, markerfacecolor="none",
            markeredgewidth=0.8,
        )  # fmt: skip
    how = "with" if calibration else "without"
    name = printable(drawn_name(run)).replace("$", r"\$")
    axes.set_title(f"{name}\n{how} calibration", fontsize=8)
    axes.set_xticks(range(1, len(widths) + 1), [str(width) for width in widths])
    axes.set_xlabel("tree width, drafts at the first level")
    axes.set_ylabel("E[tau], accepted tokens a call")
    axes.set_ylim(*span(run))
    axes.legend(fontsize=7)
