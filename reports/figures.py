"""Figures for papers from run files, by matplotlib: the extra ``figures``.

Figures 3, 4 and 5 in the kind of Sun et al. 2025: acceptance, block efficiency against gamma,
speed-up against gamma; a panel for each model. Figure 4 in the kind of Wu et al., "EasySpec":
acceptance by tree width. The same run files give the same bytes.
"""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from simverify.checks import printable
from simverify.errors import UsageError
from simverify.reports import easyspec
from simverify.reports.compare_text import acceptance_levels, results_by_gamma
from simverify.results import CompareResult, CompareRun
from simverify.results.reading import write_whole

FigureKind = Literal["fig3", "fig4", "fig5", "easyspec-fig4"]

_AXIS_LABELS = {
    "fig3": ("l, draft tokens", "Pr(tau $\\geq$ l)"),
    "fig4": ("gamma, draft length", "block efficiency, tokens a target call"),
    "fig5": ("gamma, draft length", "speed-up over plain decoding"),
    "easyspec-fig4": ("tree width, drafts at the first level", "E[tau], accepted tokens a call"),
}
_MISSING_GLYPH = re.compile(r"Glyph (\d+) ")
"""How matplotlib warns of a character, several times for each."""

_MARKERS = "osD^vPX*"
_MARK_STYLE = {"markersize": 3.5, "markerfacecolor": "none", "markeredgewidth": 0.8}
_RC_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "simverify",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "text.parse_math": True,
}


def check_figure(output: Path) -> None:
    """Raise ``UsageError`` unless matplotlib is there and ``output`` is a .svg or .pdf."""
    if output.suffix not in (".svg", ".pdf"):
        raise UsageError(f"{output} is neither .svg nor .pdf: name the kind by the file's ending")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(
            "figures need matplotlib, which is not installed: pip install 'simverify[figures]'"
        ) from None


def draw_figure(kind: FigureKind, runs: Sequence[CompareRun], output: Path) -> str:
    """Draw ``kind`` to ``output``, whole or not at all; return the characters shown as boxes.

    Those are what the font of matplotlib lacks, each once.

    Where several runs have the same verifier on the same model, the longest drafts are drawn.
    Lines are exact, or the middle of bounds; marks are measured. Raises ``UsageError`` if
    there is nothing to draw, and what :func:`check_figure` raises.
    """
    check_figure(output)
    panels = _figure_panels(kind, runs)
    if not panels:
        what = "built-in rules"
        if kind == "easyspec-fig4":
            what = "with the drafter easyspec and layers in groups of 2 or more"
        raise UsageError(f"no result of these runs has a curve for {kind}: compare {what}")
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_RC_SETTINGS), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        columns = min(len(panels), 2 if kind == "easyspec-fig4" else 3)
        lines = -(-len(panels) // columns)
        figure = Figure(figsize=(3.1 * columns, 2.6 * lines), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False)
        for place, paint in zip(axes.flat, panels, strict=False):
            paint(place)
        for place in list(axes.flat)[len(panels) :]:
            place.set_axis_off()
        drawn = io.BytesIO()
        stamp = "Date" if output.suffix == ".svg" else "CreationDate"
        figure.savefig(drawn, format=output.suffix[1:], metadata={stamp: None})
    lacking: dict[str, None] = {}
    for warning in caught:
        if match := _MISSING_GLYPH.match(str(warning.message)):
            lacking[chr(int(match[1]))] = None
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    write_whole(output, drawn.getvalue())
    return "".join(lacking)


def _figure_panels(kind: FigureKind, runs: Sequence[CompareRun]) -> list[Callable[[Any], None]]:
    """Return what draws each panel on its axes; easyspec-fig4 needs drafts that are not plain."""
    if kind == "easyspec-fig4":
        grouped = filter(easyspec.has_grouped_drafts, runs)
        return [partial(_draw_width_panel, run, by) for run in grouped for by in (True, False)]
    return [
        partial(_draw_figure_panel, kind, model, rows)
        for model, rows in _results_by_model(kind, runs).items()
    ]


def _results_by_model(
    kind: FigureKind, runs: Sequence[CompareRun]
) -> dict[str, list[CompareResult]]:
    """The results to draw by model, the longest drafts of each verifier."""
    longest: dict[tuple[str, str], CompareResult] = {}
    for row in (row for run in runs for row in run.results):
        key = row.model, row.verifier
        if key not in longest or row.gamma > longest[key].gamma:
            longest[key] = row
    panels: dict[str, list[CompareResult]] = {}
    for row in longest.values():
        if kind == "fig3" or results_by_gamma(row):
            panels.setdefault(row.model, []).append(row)
    return panels


def _draw_figure_panel(
    kind: FigureKind, model: str, rows: Sequence[CompareResult], axes: Any
) -> None:
    for i, row in enumerate(rows):
        levels = range(1, row.gamma + 1)
        law, measured = _figure_values(kind, row)
        name = printable(row.verifier)
        if kind == "fig5" and len({row.speedup.cost_ratio for row in rows}) > 1:
            name += f", c = {row.speedup.cost_ratio:g}"
        (line,) = axes.plot(levels, law, linewidth=1.2, label=name.replace("$", r"\$"))
        axes.plot(
            levels,
            measured,
            _MARKERS[i % len(_MARKERS)],
            color=line.get_color(),
            **_MARK_STYLE,
        )
    axes.xaxis.get_major_locator().set_params(integer=True)
    _label_axes(axes, kind, model)


def _draw_width_panel(run: CompareRun, calibration: bool, axes: Any) -> None:
    widths = easyspec.tree_widths(run)
    for line in easyspec.width_lines(run, calibration=calibration):
        x, middle, low, high = zip(*line.points, strict=True)
        ends = [
            [m - end for m, end in zip(middle, low, strict=True)],
            [end - m for m, end in zip(middle, high, strict=True)],
        ]
        axes.errorbar(
            x,
            middle,
            yerr=ends,
            linewidth=1.2,
            elinewidth=0.8,
            capsize=2.0,
            label=line.name,
            marker=_MARKERS[line.style % len(_MARKERS)],
            **_MARK_STYLE,
        )
    axes.set_xticks(range(1, len(widths) + 1), [str(width) for width in widths])
    axes.set_ylim(*easyspec.interval_range(run))
    how = "with" if calibration else "without"
    _label_axes(axes, "easyspec-fig4", easyspec.studied_pair(run), f"\n{how} calibration")


def _label_axes(axes: Any, kind: FigureKind, name: str, more: str = "") -> None:
    x_label, y_label = _AXIS_LABELS[kind]
    axes.set_title(printable(name).replace("$", r"\$") + more, fontsize=8)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.legend(fontsize=7)


def _figure_values(kind: FigureKind, row: CompareResult) -> tuple[Sequence[float], Sequence[float]]:
    if kind == "fig3":
        return acceptance_levels(row), row.acceptance_ccdf.measured
    points = results_by_gamma(row)
    if kind == "fig4":
        return [p.block_efficiency for p in points], [p.measured_efficiency for p in points]
    return [p.speedup for p in points], [p.measured_speedup for p in points]
