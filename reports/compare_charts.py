"""The charts of a comparison: E[tau], acceptance, block efficiency, speed-up, PITs, draft trees.

On real models the expected values are intervals too: what the drafted blocks were worth.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup

from simverify import stats
from simverify.checks import clean_line
from simverify.reports.charts import STYLE_COUNT, Axis, Series, line_chart
from simverify.reports.compare_text import (
    GammaResult,
    acceptance_levels,
    coupling_bound_words,
    decoding_table,
    draft_method_name,
    model_latencies,
    model_name,
    results_by_gamma,
    speedup_table,
    speedup_words,
)
from simverify.reports.view import Block, Cell, Picture, Pictures, Prose, Table
from simverify.reports.words import MAX_ROWS, join_names, number_cell, take_first
from simverify.results import (
    CompareResult,
    CompareRun,
    Decoding,
    DraftTrees,
    Expected,
    Latency,
    ModelInfo,
    PitCurve,
)
from simverify.trees import ROOT, TreeShape


def model_charts(
    ident: str, model: ModelInfo, rows: Sequence[CompareResult], timed: Sequence[Latency] = ()
) -> tuple[Picture, ...]:
    """Return the charts of one model; ``timed``: what the wall clock said of its verifiers.

    As many ``rows`` are drawn as there are styles.
    """
    rows = rows[:STYLE_COUNT]
    pictures = [
        _expected_chart(f"{ident}-e", model, rows),
        _acceptance_chart(f"{ident}-a", model, rows),
    ]
    drawn = [(i, row, results_by_gamma(row)) for i, row in enumerate(rows) if results_by_gamma(row)]
    if drawn and drawn[0][1].gamma > 1:
        pictures.append(_efficiency_chart(f"{ident}-b", model, drawn))
        pictures.append(_speedup_chart(f"{ident}-s", model, drawn, timed))
    orders = dict.fromkeys(pit.order for row in rows for pit in row.lossless.pits)
    for k, order in enumerate(orders):
        curves = [
            (i, row, pit)
            for i, row in enumerate(rows)
            for pit in row.lossless.pits
            if pit.order == order
        ]
        pictures.append(_pit_chart(f"{ident}-p{k}", model, order, curves))
    return tuple(pictures)


def _expected_chart(ident: str, model: ModelInfo, rows: Sequence[CompareResult]) -> Picture:
    """E[tau] of every verifier, exact beside measured, under the bound that none beats."""
    coupling = model.bounds.coupling
    real = model.bounds.blocks_of is not None
    bound = (coupling.lower + coupling.upper) / 2 if real else coupling.upper
    high = max([coupling.upper, *(row.measured.ci_high for row in rows), 1e-9]) * 1.06
    series = [Series("coupling bound", 7, ((0.5, bound), (len(rows) + 0.5, bound)))]
    if real:
        ends = tuple((x, coupling.lower, coupling.upper) for x in (0.5, len(rows) + 0.5))
        series.append(Series("", 7, ends, "band"))
    descriptions = []
    for i, row in enumerate(rows):
        expected, measured, place = row.expected_accepted, row.measured, i + 1.0
        middle = expected.exact
        if middle is None:
            middle = (expected.lower + expected.upper) / 2
        series += [
            Series(
                "",
                i,
                (
                    (place - 0.3, expected.lower, expected.upper),
                    (place + 0.02, expected.lower, expected.upper),
                ),
                "band",
            ),
            Series("", i, ((place - 0.3, middle), (place + 0.02, middle)), "rule"),
            Series(
                "", i, ((place + 0.2, measured.ci_low), (place + 0.2, measured.ci_high)), "rule"
            ),
            Series(row.verifier, i, ((place + 0.2, measured.mean),), "dots"),
        ]
        exact = f"{'expected' if real else 'exact'} {middle:.6g}, "
        descriptions.append(
            f"{clean_line(row.verifier, 40)}: {'' if expected.method == 'measured' else exact}"
            f"measured {measured.mean:.4g} ({measured.ci_low:.4g} to {measured.ci_high:.4g})"
        )
    title = f"E[tau] on {model_name(model, 60)}"
    svg = line_chart(
        ident,
        title,
        f"{'; '.join(descriptions)}; coupling bound {bound:.6g}.",
        Axis("verifier", 0.5, len(rows) + 0.5, names=tuple(row.verifier for row in rows)),
        Axis("E[tau], accepted tokens a call", 0.0, high),
        series,
    )
    confidence = rows[0].measured.confidence
    caption = (
        f"Bar: exact, or its bounds. Mark: measured, with a {confidence:.1%} interval. "
        "No rule beats the coupling bound in one call."
    )
    if real:
        caption = (
            "Bar: what the drafted blocks let expect of a first call. Mark: measured. Dotted: the "
            f"coupling bound{coupling_bound_words(model.bounds)}. With {confidence:.1%} intervals."
        )
    return Picture(title, svg, caption)


def _acceptance_chart(ident: str, model: ModelInfo, rows: Sequence[CompareResult]) -> Picture:
    series, descriptions = [], []
    real = model.bounds.blocks_of is not None
    for i, row in enumerate(rows):
        ccdf, law = row.acceptance_ccdf, acceptance_levels(row)
        levels = range(1, row.gamma + 1)
        if ccdf.exact is None:
            points = tuple(zip(levels, ccdf.lower, ccdf.upper, strict=True))
            series.append(Series("", i, points, "band"))
        series += [
            Series(row.verifier, i, tuple(zip(levels, law, strict=True))),
            Series("", i, tuple(zip(levels, ccdf.measured, strict=True)), "dots"),
        ]
        if not real:
            ends = _interval_ends(ccdf.measured, row.measured.blocks)
            series += [
                Series("", i, ((level, low), (level, high)), "rule")
                for level, low, high in zip(levels, *ends, strict=True)
            ]
        descriptions.append(f"{clean_line(row.verifier, 40)}: {', '.join(f'{v:.3g}' for v in law)}")
    gamma = max(row.gamma for row in rows)
    title = f"Acceptance on {model_name(model, 60)}"
    svg = line_chart(
        ident,
        title,
        f"Pr(tau >= l) for l = 1 to {gamma}. {'; '.join(descriptions)}.",
        Axis("l, draft tokens", 1 if gamma > 1 else 0, gamma, whole=True),
        Axis("Pr(tau \N{GREATER-THAN OR EQUAL TO} l)", 0.0, 1.0),
        series,
    )
    if real:
        law_words = "what the drafted blocks let expect of a first call, with intervals"
        return Picture(title, svg, f"Line: {law_words}. Marks: measured.")
    return Picture(
        title,
        svg,
        "Line: the rule's own law, or the middle of its bounds. Marks: measured, with "
        "99.9% intervals (Clopper and Pearson, each level by itself).",
    )


def _interval_ends(measured: Sequence[float], blocks: int) -> tuple[list[float], list[float]]:
    """Ends of the intervals of measured frequencies."""
    counts = np.rint(np.array(measured) * blocks).astype(np.int64)
    low, high = stats.rate_interval(counts, blocks, error=1e-3)
    return low.tolist(), high.tolist()


def _efficiency_chart(
    ident: str,
    model: ModelInfo,
    drawn: Sequence[tuple[int, CompareResult, tuple[GammaResult, ...]]],
) -> Picture:
    series, descriptions = [], []
    for i, row, points in drawn:
        series += [
            Series(row.verifier, i, tuple((p.gamma, p.block_efficiency) for p in points)),
            Series("", i, tuple((p.gamma, p.measured_efficiency) for p in points), "dots"),
        ]
        values = ", ".join(f"{p.block_efficiency:.3g}" for p in points)
        descriptions.append(f"{clean_line(row.verifier, 40)}: {values}")
    title = f"Block efficiency on {model_name(model, 60)}"
    svg = _gamma_chart(ident, title, "tokens a target call", descriptions, series, 1.0)
    return Picture(title, svg, _FIRST_CALL_CAPTION)


def _speedup_chart(
    ident: str,
    model: ModelInfo,
    drawn: Sequence[tuple[int, CompareResult, tuple[GammaResult, ...]]],
    timed: Sequence[Latency],
) -> Picture:
    """The latency model's lines, and where the wall clock was read, its marks in their place."""
    clock = {found.verifier: found.measured for found in timed}
    series, descriptions = [], []
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
        descriptions.append(f"{clean_line(row.verifier, 40)}: {words}")
    costs = {row.speedup.cost_ratio for _, row, _ in drawn}
    title = f"Speed-up on {model_name(model, 60)}, predicted"
    title += " and measured" if clock else ""
    svg = _gamma_chart(ident, title, "times plain decoding", descriptions, series, 0.0)
    cost = join_names(f"{cost:g}" for cost in sorted(costs))
    marks_are = "by the wall clock" if clock else "the same of measured frequencies"
    return Picture(
        title,
        svg,
        f"Line: the latency model's (E[tau] + 1) / (gamma c + 1), c = {cost}. "
        f"Mark: {marks_are}. {_FIRST_CALL_CAPTION}",
    )


_FIRST_CALL_CAPTION = (
    "Shorter drafts by the first terms of Pr(tau \N{GREATER-THAN OR EQUAL TO} l), which do not "
    "depend on gamma; first call of a rule with state."
)


def _gamma_chart(
    ident: str, title: str, label: str, said: list[str], series: list[Series], low: float
) -> Markup:
    gammas = [point[0] for entry in series for point in entry.points]
    high = max(point[1] for entry in series for point in entry.points)
    return line_chart(
        ident,
        title,
        f"Against gamma = 1 to {max(gammas):g}. {'; '.join(said)}.",
        Axis("gamma, draft length", 1, max(gammas), whole=True),
        Axis(label, low, max(high * 1.05, low + 0.1)),
        series,
    )


def _pit_chart(
    ident: str,
    model: ModelInfo,
    order: str,
    found: Sequence[tuple[int, CompareResult, PitCurve]],
) -> Picture:
    series, descriptions, reach = [], [], 1e-9
    widest = max(pit.band for *_, pit in found)
    for i, row, pit in found:
        steps = len(pit.differences) - 1
        points = tuple((k / steps, value) for k, value in enumerate(pit.differences))
        series.append(Series(row.verifier, i, points))
        largest = max(map(abs, pit.differences))
        inside = "inside" if largest <= pit.band else "outside"
        descriptions.append(
            f"{clean_line(row.verifier, 40)}: at most {largest:.2g}, {inside} its band of "
            f"{pit.band:.2g}"
        )
        reach = max(reach, largest)
    series.append(
        Series("widest band", 7, ((0.0, -widest, widest), (1.0, -widest, widest)), "band")
    )
    limit = max(reach, widest) * 1.1
    title = f"PITs in {clean_line(order, 30)} on {model_name(model, 60)}"
    svg = line_chart(
        ident,
        title,
        f"Empirical distribution less u. {'; '.join(descriptions)}.",
        Axis("u", 0.0, 1.0),
        Axis("F(u) \N{MINUS SIGN} u", -limit, limit),
        series,
    )
    confidence = found[0][2].confidence
    return Picture(
        title,
        svg,
        f"Simultaneous {confidence:.1%} band: "
        f"{'; '.join(descriptions)}. The tests judge every position by itself.",
    )


# A draft tree as a picture: the share of calls that keep the path through each node.


MAX_DRAWN_NODES = 64
"""Nodes of a tree that is drawn; a larger one stands in the table alone."""

CHART_WIDTH, ROW_HEIGHT, TOP_MARGIN, BOTTOM_MARGIN = 420, 28, 14, 52
_LINE_HEIGHT = 12
_NODE_RADIUS = 8.5
_MIN_LEVEL_WIDTH = 34
"""Pixels of a level in which a number can be read."""


def tree_pictures(
    ident: str, found: DraftTrees, rows: Sequence[CompareResult]
) -> tuple[Picture, ...]:
    """Return a picture for each rule whose nodes are known, or were counted."""
    shape = TreeShape(found.parents)
    if len(shape) > MAX_DRAWN_NODES:
        return ()
    return tuple(
        _tree_picture(f"{ident}-n{i}", shape, row)
        for i, row in enumerate(rows)
        if row.nodes is not None or row.node_counts is not None
    )


def node_table(found: DraftTrees, rows: Sequence[CompareResult]) -> Table | None:
    """Return the mass of each node by rule, or None where no rule's is known."""
    columns = list(_node_columns(rows))
    if not columns:
        return None
    shape = TreeShape(found.parents)
    shown, left_out = take_first(range(len(shape)), MAX_ROWS)
    return Table(
        "Pr(the way kept goes through the node)",
        ("node", "parent", "level", *(name for name, _ in columns)),
        tuple(
            (
                Cell(str(node), node),
                Cell("root" if shape.parents[node] == ROOT else str(shape.parents[node])),
                Cell(str(shape.depths[node]), shape.depths[node]),
                *(number_cell(masses[node]) for _, masses in columns),
            )
            for node in shown
        ),
        numbers=frozenset(range(2, 3 + len(columns))),
        folded=True,
        left_out=left_out,
    )


def _node_columns(rows: Sequence[CompareResult]) -> Iterator[tuple[str, Sequence[float]]]:
    for row in rows:
        if row.nodes is not None:
            yield f"{row.verifier}, exact", row.nodes
        if (counted := _counted_shares(row)) is not None:
            yield f"{row.verifier}, measured", counted


def _counted_shares(row: CompareResult) -> list[float] | None:
    """Return the share of calls that kept the way through each node, where that was counted."""
    counts = row.node_counts
    return None if counts is None else [kept / counts.calls for kept in counts.kept]


def _tree_picture(ident: str, shape: TreeShape, row: CompareResult) -> Picture:
    counted = _counted_shares(row)
    masses = row.nodes if row.nodes is not None else counted
    assert masses is not None
    places = _node_positions(shape)
    bottom = TOP_MARGIN + ROW_HEIGHT * max(1.0, max(y for _, y in places.values()) + 1)
    parts = [*_edge_marks(places, shape, masses), *_node_marks(places, shape, row.nodes, counted)]
    parts += _level_labels(shape, row, bottom)
    name = clean_line(row.verifier, 40)
    title = f"Mass of nodes, {name} on {clean_line(row.model, 80)}"
    descriptions = [
        f"{kind}, {', '.join(f'{node}: {mass:.3g}' for node, mass in enumerate(known))}."
        for kind, known in (("Exact", row.nodes), ("Measured", counted))
        if known is not None
    ]
    svg = Markup(
        '<svg class="chart" role="img" viewBox="0 0 {} {:.0f}" aria-labelledby="{}-t {}-d">'
        '<title id="{}-t">{}</title><desc id="{}-d">{}</desc>{}</svg>'
    ).format(
        CHART_WIDTH,
        bottom + BOTTOM_MARGIN,
        ident,
        ident,
        ident,
        title,
        ident,
        clean_line(
            f"Share of calls that keep the way through each node. {' '.join(descriptions)}", 6000
        ),
        Markup("").join(parts),
    )
    return Picture(title, svg, " ".join(_picture_words(row)))


def _picture_words(row: CompareResult) -> Iterator[str]:
    """Yield what the picture shows."""
    counts, known = row.node_counts, row.nodes is not None
    yield "A node is as full as its share of the calls that keep the way through it."
    if counts is None:
        yield "The numbers are exact."
    elif known:
        yield f"Beside it the exact share, and under that the share of {counts.calls:,} calls."
    else:
        yield f"It was measured in {counts.calls:,} calls; the exact share is not known."
    law = "exact" if row.acceptance_ccdf.exact is not None else "the middle of its bounds"
    yield f"Below, the sum of each level: {law}, and measured in all calls."


def _node_positions(shape: TreeShape) -> dict[int, tuple[float, float]]:
    """Return x in pixels and y in rows of each node: a leaf a row, a parent amid its children."""
    places: dict[int, tuple[float, float]] = {}
    step = (CHART_WIDTH - 60) / shape.depth
    rows = iter(range(len(shape)))

    def place(node: int) -> float:
        children = [place(child) for child in shape.children[node]]
        y = (children[0] + children[-1]) / 2 if children else float(next(rows))
        depth = 0 if node == ROOT else shape.depths[node]
        places[node] = (24 + depth * step, y)
        return y

    place(ROOT)
    return places


def _pixel_row(y: float) -> float:
    return TOP_MARGIN + ROW_HEIGHT * (y + 0.5)


def _edge_marks(
    places: dict[int, tuple[float, float]], shape: TreeShape, nodes: Sequence[float]
) -> Iterator[Markup]:
    for node, parent in enumerate(shape.parents):
        (x0, y0), (x1, y1) = places[parent], places[node]
        middle = (x0 + x1) / 2
        kind = "axis" if nodes[node] > 0 else "grid"
        yield _svg_path(
            kind,
            f"M{x0:.1f} {_pixel_row(y0):.1f}C{middle:.1f} {_pixel_row(y0):.1f} {middle:.1f} "
            f"{_pixel_row(y1):.1f} {x1:.1f} {_pixel_row(y1):.1f}",
        )


def _node_marks(
    places: dict[int, tuple[float, float]],
    shape: TreeShape,
    exact: Sequence[float] | None,
    counted: Sequence[float] | None,
) -> Iterator[Markup]:
    readable = (CHART_WIDTH - 60) / shape.depth >= _MIN_LEVEL_WIDTH
    known = [masses for masses in (exact, counted) if masses is not None]
    for node, (x, y) in places.items():
        mass = 1.0 if node == ROOT else known[0][node]
        yield _svg_path("dot s0", _circle_path(x, _pixel_row(y), _NODE_RADIUS))
        # As an area, so that twice the mass looks like twice as much.
        yield _svg_path(
            "b0", _circle_path(x, _pixel_row(y), _NODE_RADIUS * min(max(mass, 0.0), 1.0) ** 0.5)
        )
        if node != ROOT and readable:
            for line, masses in enumerate(known):
                down = _pixel_row(y) + 4 + _LINE_HEIGHT * (line - (len(known) - 1) / 2)
                shown = f"{masses[node]:.3f}".removeprefix("0")
                yield _svg_text(x + _NODE_RADIUS + 2, down, shown, "start")


def _level_labels(shape: TreeShape, row: CompareResult, bottom: float) -> Iterator[Markup]:
    step = (CHART_WIDTH - 60) / shape.depth
    every = max(1, -(-_MIN_LEVEL_WIDTH // int(step)))
    yield _svg_text(4, bottom + 18, "law", "start")
    yield _svg_text(4, bottom + 36, "measured", "start")
    levels = zip(acceptance_levels(row), row.acceptance_ccdf.measured, strict=True)
    for level, (law, measured) in enumerate(levels, 1):
        if level % every == 0 or level == shape.depth:
            x = 24 + level * step
            yield _svg_text(x, bottom + 18, f"{law:.3f}".removeprefix("0"), "middle")
            yield _svg_text(x, bottom + 36, f"{measured:.3f}".removeprefix("0"), "middle")


def _circle_path(x: float, y: float, radius: float) -> str:
    half = f"a{radius:.2f} {radius:.2f} 0 1 0"
    return f"M{x - radius:.2f} {y:.1f}{half} {2 * radius:.2f} 0{half} {-2 * radius:.2f} 0Z"


def _svg_path(kind: str, d: str) -> Markup:
    return Markup('<path class="{}" d="{}"/>').format(kind, d)


def _svg_text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text class="t" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, clean_line(text, 80)
    )


# One model of a comparison as blocks of a report: charts, curves against gamma, calls.


def model_blocks(
    ident: str, run: CompareRun, model: ModelInfo, rows: Sequence[CompareResult]
) -> Iterator[Block]:
    """Yield the charts of a model and the tables behind them; ``ident`` is its own on the page."""
    words = f"V = {model.vocab_size:,}. No rule accepts more than "
    words += f"{expected_cell(model.bounds.coupling).text} tokens in one call (coupling bound"
    by = {"counting": ", by counting texts", "linear-programme": ", a linear program"}
    words += f"{by.get(model.bounds.coupling.method, '')}{coupling_bound_words(model.bounds)})."
    if model.target_perplexity is not None and model.draft_perplexity is not None:
        words += (
            f" Perplexity {model.target_perplexity:.3g} target, {model.draft_perplexity:.3g} draft."
        )
    if model.draft_distance is not None and model.temperature is not None:
        words += (
            f" Draft distance {model.draft_distance:g}, temperature {model.temperature:g}: "
            "random rows, the same for these and V."
        )
    if model.file_sha256 is not None:
        words += f" Read from {model.given}, sha256 {model.file_sha256}."
    if model.corpus_sha256 is not None:
        words += f" Corpus sha256 {model.corpus_sha256}."
    yield Prose(words)
    yield Pictures(model_charts(ident, model, rows, model_latencies(run, model.name)))
    if run.drafting is not None:
        if pictures := tree_pictures(ident, run.drafting, rows):
            yield Pictures(pictures)
        if (masses := node_table(run.drafting, rows)) is not None:
            yield masses
    if run.decoding is not None:
        yield from _real_model_blocks(run, run.decoding, model, rows)
    elif not any(row.lossless.pits for row in rows):
        yield Prose("Contexts repeat here: tokens are counted by context, not by PITs.")
    gammas = [(row, point) for row in rows for point in results_by_gamma(row)]
    if gammas:
        shown, left_out = take_first(gammas, MAX_ROWS)
        yield Table(
            "Against gamma"
            + (", expected of first calls, measured over all" if run.decoding is not None else ""),
            (
                "verifier",
                "gamma",
                "Pr(tau >= gamma)",
                "measured",
                "block efficiency",
                "predicted speed-up",
            ),
            tuple(
                (
                    Cell(row.verifier),
                    Cell(str(point.gamma), point.gamma),
                    number_cell(point.accepted),
                    number_cell(point.measured_accepted),
                    number_cell(point.block_efficiency, 5),
                    number_cell(point.speedup),
                )
                for row, point in shown
            ),
            numbers=frozenset(range(1, 6)),
            names=frozenset({0}),
            folded=True,
            left_out=left_out,
        )
    calls = [(row, entry) for row in rows for entry in row.calls]
    if calls:
        shown_calls, left_out = take_first(calls, MAX_ROWS)
        yield Table(
            "Tokens out after calls",
            ("verifier", "calls", "exact", "measured", "from", "to"),
            tuple(
                (
                    Cell(row.verifier),
                    Cell(str(entry.calls), entry.calls),
                    Cell("shown, not judged")
                    if entry.exact is None
                    else number_cell(entry.exact, 8),
                    *(
                        number_cell(x, 6)
                        for x in (
                            entry.measured.mean,
                            entry.measured.ci_low,
                            entry.measured.ci_high,
                        )
                    ),
                )
                for row, entry in shown_calls
            ),
            numbers=frozenset(range(1, 6)),
            names=frozenset({0}),
            folded=True,
            left_out=left_out,
        )


def _real_model_blocks(
    run: CompareRun, decoding: Decoding, model: ModelInfo, rows: Sequence[CompareResult]
) -> Iterator[Block]:
    """Yield what there is of real models alone: the clock, rules on the same blocks, settings."""
    if (table := speedup_table(run, model.name)) is not None:
        yield table
    for words in speedup_words(run, model.name):
        yield Prose(words)
    paired = [(row.verifier, row.paired) for row in rows if row.paired is not None]
    if paired:
        yield Table(
            "E[tau] on the same drafted blocks, less another rule's",
            ("verifier", "less", "drafted blocks", "difference", "from", "to", "confidence"),
            tuple(
                (
                    Cell(verifier),
                    Cell(found.baseline),
                    Cell(f"{found.blocks:,}", found.blocks),
                    *(
                        Cell(f"{x:+.4f}", x)
                        for x in (found.difference, found.ci_low, found.ci_high)
                    ),
                    Cell(f"{found.confidence:.1%}", found.confidence),
                )
                for verifier, found in paired
            ),
            numbers=frozenset(range(2, 7)),
            names=frozenset({0, 1}),
        )
    yield decoding_table(decoding, draft_method_name(model))


def expected_cell(expected: Expected) -> Cell:
    """Return E[tau], or the middle of its bounds with how far they reach."""
    if expected.method == "counting":
        return number_cell(expected.upper, 8)
    if expected.method == "measured":
        return Cell("not known")
    if expected.exact is not None and expected.upper - expected.lower < 1e-5:
        return number_cell(expected.exact, 8)
    middle = (expected.lower + expected.upper) / 2
    if expected.lower == 0.0 and expected.method == "rao-blackwell":
        return Cell(f"0 to {expected.upper:.2g}", middle)  # its middle says nothing
    half = (expected.upper - expected.lower) / 2
    return Cell(f"{middle:.4g} \N{PLUS-MINUS SIGN} {half:.2g}", middle)
