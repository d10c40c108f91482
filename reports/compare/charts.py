"""The charts of a comparison: E[tau], acceptance, block efficiency, speed-up, PITs.

On real models what is expected are intervals too, of what the drafted blocks were worth.
"""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from simverify import stats
from simverify.checks import clean
from simverify.reports.compare.brief import bound_words
from simverify.reports.compare.by_gamma import Shorter, by_gamma, curve
from simverify.reports.compare.grouped.names import model_name
from simverify.reports.formats.chart import STYLES, Axis, Series, line_chart
from simverify.reports.view import Picture
from simverify.reports.words import (
    listed,
)
from simverify.results import CompareResult, Latency, ModelInfo, PitCurve


def charts(
    ident: str, model: ModelInfo, rows: Sequence[CompareResult], timed: Sequence[Latency] = ()
) -> tuple[Picture, ...]:
    """Return the charts of one model; ``timed``: what the wall clock said of its verifiers.

    As many ``rows`` are drawn as there are styles.
    """
    rows = rows[:STYLES]
    pictures = [_expected(f"{ident}-e", model, rows), _acceptance(f"{ident}-a", model, rows)]
    drawn = [(i, row, by_gamma(row)) for i, row in enumerate(rows) if by_gamma(row)]
    if drawn and drawn[0][1].gamma > 1:
        pictures.append(_efficiency(f"{ident}-b", model, drawn))
        pictures.append(_speedup(f"{ident}-s", model, drawn, timed))
    orders = dict.fromkeys(pit.order for row in rows for pit in row.lossless.pits)
    for k, order in enumerate(orders):
        found = [
            (i, row, pit)
            for i, row in enumerate(rows)
            for pit in row.lossless.pits
            if pit.order == order
        ]
        pictures.append(_pits(f"{ident}-p{k}", model, order, found))
    return tuple(pictures)


def _expected(ident: str, model: ModelInfo, rows: Sequence[CompareResult]) -> Picture:
    """E[tau] of every verifier, exact beside measured, under the bound that none beats."""
    coupling = model.bounds.coupling
    real = model.bounds.blocks_of is not None
    bound = (coupling.lower + coupling.upper) / 2 if real else coupling.upper
    high = max([coupling.upper, *(row.measured.ci_high for row in rows), 1e-9]) * 1.06
    series = [Series("coupling bound", 7, ((0.5, bound), (len(rows) + 0.5, bound)))]
    if real:
        ends = tuple((x, coupling.lower, coupling.upper) for x in (0.5, len(rows) + 0.5))
        series.append(Series("", 7, ends, "band"))
    said = []
    for i, row in enumerate(rows):
        expected, measured, place = row.expected_accepted, row.measured, i + 1.0
        middle = expected.exact
        if middle is None:
            middle = (expected.lower + expected.upper) / 2
        series += [
            Series("", i, ((place - 0.3, expected.lower, expected.upper),
                           (place + 0.02, expected.lower, expected.upper)), "band"),
            Series("", i, ((place - 0.3, middle), (place + 0.02, middle)), "rule"),
            Series(
                "", i, ((place + 0.2, measured.ci_low), (place + 0.2, measured.ci_high)), "rule"
            ),
            Series(row.verifier, i, ((place + 0.2, measured.mean),), "dots"),
        ]  # fmt: skip
        exact = f"{'expected' if real else 'exact'} {middle:.6g}, "
        said.append(
            f"{clean(row.verifier, 40)}: {'' if expected.method == 'measured' else exact}"
            f"measured {measured.mean:.4g} ({measured.ci_low:.4g} to {measured.ci_high:.4g})"
        )
    title = f"E[tau] on {model_name(model, 60)}"
    svg = line_chart(
        ident, title, f"{'; '.join(said)}; coupling bound {bound:.6g}.",
        Axis("verifier", 0.5, len(rows) + 0.5, names=tuple(row.verifier for row in rows)),
        Axis("E[tau], accepted tokens a call", 0.0, high), series,
    )  # fmt: skip
    confidence = rows[0].measured.confidence
    caption = (
        f"Bar: exact, or its bounds. Mark: measured, with a {confidence:.1%} interval. "
        "No rule beats the coupling bound in one call."
    )
    if real:
        caption = (
            "Bar: what the drafted blocks let expect of a first call. Mark: measured. Dotted: the "
            f"coupling bound{bound_words(model.bounds)}. With {confidence:.1%} intervals."
        )
    return Picture(title, svg, caption)


def _acceptance(ident: str, model: ModelInfo, rows: Sequence[CompareResult]) -> Picture:
    series, said = [], []
    real = model.bounds.blocks_of is not None
    for i, row in enumerate(rows):
        ccdf, law = row.acceptance_ccdf, curve(row)
        levels = range(1, row.gamma + 1)
        if ccdf.exact is None:
            points = tuple(zip(levels, ccdf.lower, ccdf.upper, strict=True))
            series.append(Series("", i, points, "band"))
        series += [
            Series(row.verifier, i, tuple(zip(levels, law, strict=True))),
            Series("", i, tuple(zip(levels, ccdf.measured, strict=True)), "dots"),
        ]
        if not real:
            ends = _rates(ccdf.measured, row.measured.blocks)
            series += [
                Series("", i, ((level, low), (level, high)), "rule")
                for level, low, high in zip(levels, *ends, strict=True)
            ]
        said.append(f"{clean(row.verifier, 40)}: {', '.join(f'{v:.3g}' for v in law)}")
    gamma = max(row.gamma for row in rows)
    title = f"Acceptance on {model_name(model, 60)}"
    svg = line_chart(
        ident, title, f"Pr(tau >= l) for l = 1 to {gamma}. {'; '.join(said)}.",
        Axis("l, draft tokens", 1 if gamma > 1 else 0, gamma, whole=True),
        Axis("Pr(tau \N{GREATER-THAN OR EQUAL TO} l)", 0.0, 1.0), series,
    )  # fmt: skip
    if real:
        law_words = "what the drafted blocks let expect of a first call, with intervals"
        return Picture(title, svg, f"Line: {law_words}. Marks: measured.")
    return Picture(
        title, svg, "Line: the rule's own law, or the middle of its bounds. Marks: measured, with "
        "99.9% intervals (Clopper and Pearson, each level by itself).",
    )  # fmt: skip


def _rates(measured: Sequence[float], blocks: int) -> tuple[list[float], list[float]]:
    """Ends of the intervals of measured frequencies."""
    counts = np.rint(np.array(measured) * blocks).astype(np.int64)
    low, high = stats.rate_interval(counts, blocks, error=1e-3)
    return low.tolist(), high.tolist()


def _efficiency(
    ident: str, model: ModelInfo, drawn: Sequence[tuple[int, CompareResult, tuple[Shorter, ...]]]
) -> Picture:
    series, said = [], []
    for i, row, points in drawn:
        series += [
            Series(row.verifier, i, tuple((p.gamma, p.block_efficiency) for p in points)),
            Series("", i, tuple((p.gamma, p.measured_efficiency) for p in points), "dots"),
        ]
        values = ", ".join(f"{p.block_efficiency:.3g}" for p in points)
        said.append(f"{clean(row.verifier, 40)}: {values}")
    title = f"Block efficiency on {model_name(model, 60)}"
    svg = _over_gamma(ident, title, "tokens a target call", said, series, 1.0)
    return Picture(title, svg, _FIRST_CALL)


def _speedup(
    ident: str,
    model: ModelInfo,
    drawn: Sequence[tuple[int, CompareResult, tuple[Shorter, ...]]],
    timed: Sequence[Latency],
) -> Picture:
    """The latency model's lines, and where the wall clock was read, its marks in their place."""
    clock = {found.verifier: found.measured for found in timed}
    series, said = [], []
    for i, row, points in drawn:
        marks = tuple((p.gamma, p.measured_speedup) for p in points)
        best = max(points, key=lambda p: p.speedup)
        words = f"predicted at best {best.speedup:.3g}, at gamma {best.gamma}"
        if row.verifier in clock:
            marks = ((row.gamma, clock[row.verifier]),)
            words += f"; measured {clock[row.verifier]:.3g} at gamma {row.gamma}"
        series += [
            Series(row.verifier, i, tuple((p.gamma, p.speedup) for p in points)),
            Series("", i, marks, "dots"),
        ]
        said.append(f"{clean(row.verifier, 40)}: {words}")
    costs = {row.speedup.cost_ratio for _, row, _ in drawn}
    title = f"Speed-up on {model_name(model, 60)}, predicted"
    title += " and measured" if clock else ""
    svg = _over_gamma(ident, title, "times plain decoding", said, series, 0.0)
    cost = listed(f"{cost:g}" for cost in sorted(costs))
    marks_are = "by the wall clock" if clock else "the same of measured frequencies"
    return Picture(
        title, svg, f"Line: the latency model's (E[tau] + 1) / (gamma c + 1), c = {cost}. "
        f"Mark: {marks_are}. {_FIRST_CALL}",
    )  # fmt: skip


_FIRST_CALL = (
    "Shorter drafts by the first terms of Pr(tau \N{GREATER-THAN OR EQUAL TO} l), which do not "
    "depend on gamma; first call of a rule with state."
)


def _over_gamma(
    ident: str, title: str, label: str, said: list[str], series: list[Series], low: float
) -> Markup:
    gammas = [point[0] for entry in series for point in entry.points]
    high = max(point[1] for entry in series for point in entry.points)
    return line_chart(
        ident, title, f"Against gamma = 1 to {max(gammas):g}. {'; '.join(said)}.",
        Axis("gamma, draft length", 1, max(gammas), whole=True),
        Axis(label, low, max(high * 1.05, low + 0.1)), series,
    )  # fmt: skip


def _pits(
    ident: str,
    model: ModelInfo,
    order: str,
    found: Sequence[tuple[int, CompareResult, PitCurve]],
) -> Picture:
    series, said, reach = [], [], 1e-9
    widest = max(pit.band for *_, pit in found)
    for i, row, pit in found:
        steps = len(pit.differences) - 1
        points = tuple((k / steps, value) for k, value in enumerate(pit.differences))
        series.append(Series(row.verifier, i, points))
        largest = max(map(abs, pit.differences))
        inside = "inside" if largest <= pit.band else "outside"
        said.append(
            f"{clean(row.verifier, 40)}: at most {largest:.2g}, {inside} its band of {pit.band:.2g}"
        )
        reach = max(reach, largest)
    series.append(
        Series("widest band", 7, ((0.0, -widest, widest), (1.0, -widest, widest)), "band")
    )
    limit = max(reach, widest) * 1.1
    title = f"PITs in {clean(order, 30)} on {model_name(model, 60)}"
    svg = line_chart(
        ident, title, f"Empirical distribution less u. {'; '.join(said)}.",
        Axis("u", 0.0, 1.0), Axis("F(u) \N{MINUS SIGN} u", -limit, limit), series,
    )  # fmt: skip
    confidence = found[0][2].confidence
    return Picture(title, svg, f"Simultaneous {confidence:.1%} band: "
                   f"{'; '.join(said)}. The tests judge every position by itself.")  # fmt: skip
