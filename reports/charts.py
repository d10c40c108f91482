"""Line charts as inline SVG. Colours are classes, so the page's light and dark styles apply.

Series differ in colour, dashes and markers, and a chart's numbers stand in its description
and in a table beside it: nobody needs to see a colour.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from simverify.checks import clean_line
from simverify.reports.view import Picture
from simverify.reports.words import truncate_line

WIDTH, HEIGHT = 420, 290
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 12, 44
STYLE_COUNT = 8
"""Styles of series; a ninth begins again with the first."""

_LEGEND_ROW, _LEGEND_COLUMNS, _LEGEND_NAME = 18, 3, 14
_CHARACTER_WIDTH = 7
"""Width of a character, at most on average."""


@dataclass(frozen=True)
class Series:
    """Points (x, y) in x order; of a band (x, low, high). Without a name it has no legend.

    A rule is a line without the dashes of its style.
    """

    name: str
    style: int
    points: tuple[tuple[float, ...], ...]
    kind: Literal["line", "rule", "dots", "band"] = "line"


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``, with what it measures; ``whole``: whole numbers only.

    ``names``: words for 1, 2, ... in the place of numbers.
    """

    label: str
    low: float
    high: float
    whole: bool = False
    names: tuple[str, ...] = ()

    def ticks(self) -> list[float]:
        """Return some five round numbers on the axis."""
        if self.names:
            return [float(k) for k in range(1, len(self.names) + 1)]
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
        if self.whole:
            step = max(1.0, math.ceil(step))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]

    def word(self, tick: float) -> str:
        """Return what stands at a tick of the horizontal axis, as long as its place is."""
        if not self.names:
            return _tick_text(tick)
        room = int((WIDTH - LEFT - RIGHT) / len(self.names) / _CHARACTER_WIDTH)
        return truncate_line(self.names[int(tick) - 1], room)

    def share(self, value: float) -> float:
        """Return where ``value`` stands, 0 at the low end and 1 at the high one."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def line_picture(
    ident: str, title: str, desc: str, x: Axis, y: Axis, series: Sequence[Series], caption: str
) -> Picture:
    """Return a chart; ``ident`` is its own on the page, ``desc`` says its numbers in words."""
    named = [entry for entry in series if entry.name]
    parts = list(_frame_marks(x, y))
    for entry in sorted(series, key=lambda entry: entry.kind != "band"):
        parts += _series_marks(entry, x, y)
    for i, entry in enumerate(named):
        parts += _legend_marks(entry, i)
    height = HEIGHT + -(-len(named) // _LEGEND_COLUMNS) * _LEGEND_ROW
    return Picture(title, svg_image(ident, title, clean_line(desc, 3000), height, parts), caption)


def svg_image(ident: str, title: str, desc: str, height: float, parts: Iterable[Markup]) -> Markup:
    """Return a picture of the common width, with its text alternative."""
    return Markup(
        '<svg class="chart" role="img" viewBox="0 0 {width} {height:.0f}" '
        'aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{title}</title>'
        '<desc id="{id}-d">{desc}</desc>{parts}</svg>'
    ).format(
        width=WIDTH,
        height=height,
        id=ident,
        title=clean_line(title, 200),
        desc=desc,
        parts=Markup("").join(parts),
    )


def _frame_marks(x: Axis, y: Axis) -> Iterator[Markup]:
    """Yield the grid, the axes and their words."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for tick in y.ticks():
        height = _pixel_y(y, tick)
        yield svg_path("zero" if tick == 0 else "grid", f"M{LEFT} {height:.1f}H{right}")
        yield svg_text(LEFT - 6, height + 4, _tick_text(tick), "end")
    for tick in x.ticks():
        across = _pixel_x(x, tick)
        yield svg_path("axis", f"M{across:.1f} {bottom}v4")
        yield svg_text(across, bottom + 18, x.word(tick), "middle")
    yield svg_path("axis", f"M{LEFT} {TOP}V{bottom}H{right}")
    yield svg_text((LEFT + right) / 2, HEIGHT - 8, x.label, "middle")
    yield Markup(
        '<text class="t" transform="translate(11 {:.0f}) rotate(-90)" text-anchor="middle">'
        "{}</text>"
    ).format((TOP + bottom) / 2, clean_line(y.label, 60))


def _series_marks(entry: Series, x: Axis, y: Axis) -> Iterator[Markup]:
    across = [_pixel_x(x, point[0]) for point in entry.points]
    down = [[_pixel_y(y, value) for value in point[1:]] for point in entry.points]
    style = entry.style % STYLE_COUNT
    if entry.kind == "band":
        there = [f"{px:.1f} {py[1]:.1f}" for px, py in zip(across, down, strict=True)]
        back = [f"{px:.1f} {py[0]:.1f}" for px, py in zip(across, down, strict=True)]
        yield svg_path(f"band b{style}", "M" + "L".join(there + back[::-1]) + "Z")
        return
    spots = [(px, py[0]) for px, py in zip(across, down, strict=True)]
    if entry.kind in ("line", "rule"):
        yield svg_path(
            f"{entry.kind} s{style}", "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in spots)
        )
        return
    for px, py in spots:
        yield _marker_path(style, px, py)


def _legend_marks(entry: Series, index: int) -> Iterator[Markup]:
    row, column = divmod(index, _LEGEND_COLUMNS)
    left = 8 + column * (WIDTH - 8) / _LEGEND_COLUMNS
    down = HEIGHT + row * _LEGEND_ROW + 8
    style = entry.style % STYLE_COUNT
    if entry.kind == "band":
        yield svg_path(f"band b{style}", f"M{left:.0f} {down - 5}h22v10h-22Z")
    elif entry.kind in ("line", "rule"):
        yield svg_path(f"{entry.kind} s{style}", f"M{left:.0f} {down}h22")
    else:
        yield _marker_path(style, left + 11, down)
    yield svg_text(left + 28, down + 4, truncate_line(entry.name, _LEGEND_NAME), "start")


def _marker_path(style: int, px: float, py: float) -> Markup:
    """A small mark whose shape goes with the style."""
    x, y = f"{px:.1f}", f"{py:.1f}"
    shapes = (
        f"M{x} {y}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
        f"M{x} {y}m-3.5-3.5h7v7h-7Z",
        f"M{x} {y}m0-4.5l4 7.5h-8Z",
        f"M{x} {y}m0-4.5l4.5 4.5l-4.5 4.5l-4.5-4.5Z",
    )
    return svg_path(f"dot s{style}", shapes[style % len(shapes)])


def svg_path(kind: str, d: str) -> Markup:
    """Return a path of a class."""
    return Markup('<path class="{}" d="{}"/>').format(kind, d)


def svg_text(x: float, y: float, text: str, anchor: str) -> Markup:
    """Return a short text at a place."""
    return Markup('<text class="t" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, clean_line(text, 80)
    )


def _pixel_x(x: Axis, value: float) -> float:
    return LEFT + x.share(value) * (WIDTH - LEFT - RIGHT)


def _pixel_y(y: Axis, value: float) -> float:
    return TOP + (1 - y.share(value)) * (HEIGHT - TOP - BOTTOM)


def _tick_text(value: float) -> str:
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}") if value else "0"
