"""Acceptance by tree width, with calibration and without: a line for each N, with intervals.

In the kind of figure 4 of Wu et al., "EasySpec".
"""

from dataclasses import dataclass

from simverify.reports.compare.grouped.names import pair_name
from simverify.reports.formats.chart import STYLES, Axis, Series, line_chart
from simverify.reports.view import Picture
from simverify.reports.words import shortened
from simverify.results import CompareRun, DraftAcceptance, LayerParallel

_APART = 0.07
"""Between the marks of two lines, so that no interval hides another; widths are 1 apart."""


@dataclass(frozen=True)
class WidthLine:
    """One line: ``points`` holds E[tau] with its bounds by the number of the width, from 1."""

    name: str
    style: int
    points: tuple[tuple[float, float, float, float], ...]

    def words(self) -> str:
        """Return the numbers."""
        return f"{self.name}: " + ", ".join(
            f"{middle:.4g} ({low:.4g} to {high:.4g})" for _, middle, low, high in self.points
        )


def width_lines(run: CompareRun, *, calibration: bool) -> list[WidthLine]:
    """Return plain drafts first, then each N that groups layers, as many as there are styles."""
    widths = tree_widths(run)
    own = [
        (f"N = {entry.layer_parallel}", found)
        for entry in run.layer_parallel
        if (found := _of(entry, calibration))
    ][: STYLES - 1]
    every = [("plain", _of(run.layer_parallel[0], None)), *own]
    return [
        WidthLine(name, style, tuple(
            _point(widths.index(one.width) + 1.0 + _APART * (style - (len(every) - 1) / 2), one)
            for one in found
        ))
        for style, (name, found) in enumerate(every)
    ]  # fmt: skip


def tree_widths(run: CompareRun) -> list[int]:
    """Return the widths of the run's trees in order."""
    return sorted({one.width for entry in run.layer_parallel for one in entry.acceptance})


def span(run: CompareRun) -> tuple[float, float]:
    """Return where all intervals lie, with a margin: both charts have the same axis."""
    every = [one.expected_accepted for entry in run.layer_parallel for one in entry.acceptance]
    low, high = min(one.lower for one in every), max(one.upper for one in every)
    margin = max(0.08 * (high - low), 1e-6)
    return max(low - margin, 0.0), high + margin


def drawn_name(run: CompareRun) -> str:
    """Return the pair whose drafts were studied."""
    return shortened(next((pair_name(m) for m in run.models if m.drafter), "the draft"), 60)


def width_pictures(run: CompareRun) -> tuple[Picture, ...]:
    """Return both charts; none where at every N drafts are plain."""
    if not any(one.loss for entry in run.layer_parallel for one in entry.acceptance):
        return ()
    return tuple(_picture(run, calibration=calibration) for calibration in (True, False))


def _picture(run: CompareRun, *, calibration: bool) -> Picture:
    lines, widths = width_lines(run, calibration=calibration), tree_widths(run)
    low, high = span(run)
    how = "with" if calibration else "without"
    title = f"Acceptance by tree width on {drawn_name(run)}, {how} calibration"
    series = []
    for line in lines:
        series += [
            Series(line.name, line.style, tuple((x, middle) for x, middle, *_ in line.points)),
            *(Series("", line.style, ((x, low_end), (x, high_end)), "rule")
              for x, _, low_end, high_end in line.points),
            Series("", line.style, tuple((x, middle) for x, middle, *_ in line.points), "dots"),
        ]  # fmt: skip
    svg = line_chart(
        f"groups-{how}", title,
        f"Widths {', '.join(map(str, widths))}. {'; '.join(line.words() for line in lines)}.",
        Axis("tree width, drafts at the first level", 0.5, len(widths) + 0.5,
             names=tuple(map(str, widths))),
        Axis("E[tau], accepted tokens a call", low, high), series,
    )  # fmt: skip
    return Picture(title, svg, _CAPTIONS[calibration])


_CAPTIONS = {
    True: "Each with its interval. Both charts have the same axes, and the same plain drafts.",
    False: "Fuzzy entries stay in the cache, so that deviations build up from call to call.",
}


def _of(entry: LayerParallel, calibration: bool | None) -> list[DraftAcceptance]:
    found = [one for one in entry.acceptance if one.calibration is calibration]
    return sorted(found, key=lambda one: one.width)


def _point(x: float, found: DraftAcceptance) -> tuple[float, float, float, float]:
    expected = found.expected_accepted
    return x, (expected.lower + expected.upper) / 2, expected.lower, expected.upper
