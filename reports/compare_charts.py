"""The charts of a comparison: E[tau], acceptance, block efficiency, speed-up, PITs, draft trees.

On real models the expected values are intervals too: what the drafted blocks were worth.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from markupsafe import Markup

from simverify import results, stats
from simverify.checks import clean_line
from simverify.reports import compare_text
from simverify.reports.charts import (
    STYLE_COUNT,
    WIDTH,
    Axis,
    Series,
    line_picture,
    svg_image,
    svg_path,
    svg_text,
)
from simverify.reports.view import Block, Cell, Items, On, Picture, Pictures, Prose
from simverify.reports.words import join_names, make_table, number_cell
from simverify.trees import ROOT, TreeShape


def model_charts(
    ident: str,
    model: results.ModelInfo,
    rows: Sequence[results.CompareResult],
    timed: Sequence[results.Latency] = (),
) -> tuple[Picture, ...]:
    """Return the charts of one model; ``timed``: what the wall clock said of its verifiers.

    As many ``rows`` are drawn as there are styles.
    """
    rows = rows[:STYLE_COUNT]
    pictures = [
        _expected_chart(f"{ident}-e", model, rows),
        _acceptance_chart(f"{ident}-a", model, rows),
    ]
    drawn = [
        (i, row, points)
        for i, row in enumerate(rows)
        if (points := compare_text.results_by_gamma(row))
    ]
    if drawn and drawn[0][1].gamma > 1:
        pictures += _gamma_charts(ident, model, drawn, timed)
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


def _short_name(row: results.CompareResult) -> str:
    return clean_line(row.verifier, 40)


def _expected_chart(
    ident: str, model: results.ModelInfo, rows: Sequence[results.CompareResult]
) -> Picture:
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
        expected, measured = row.expected_accepted, row.measured
        middle = expected.exact
        if middle is None:
            middle = (expected.lower + expected.upper) / 2
        bar, mark = (i + 1.0 - 0.3, i + 1.0 + 0.02), i + 1.0 + 0.2
        series += [
            Series("", i, tuple((x, expected.lower, expected.upper) for x in bar), "band"),
            Series("", i, tuple((x, middle) for x in bar), "rule"),
            Series("", i, ((mark, measured.ci_low), (mark, measured.ci_high)), "rule"),
            Series(row.verifier, i, ((mark, measured.mean),), "dots"),
        ]
        exact = f"{'expected' if real else 'exact'} {middle:.6g}, "
        descriptions.append(
            f"{_short_name(row)}: {'' if expected.method == 'measured' else exact}"
            f"measured {measured.mean:.4g} ({measured.ci_low:.4g} to {measured.ci_high:.4g})"
        )
    confidence = rows[0].measured.confidence
    caption = (
        f"Bar: exact, or its bounds. Mark: measured, with a {confidence:.1%} interval. "
        "No rule beats the coupling bound in one call."
    )
    if real:
        where = compare_text.coupling_bound_words(model.bounds)
        caption = (
            "Bar: what the drafted blocks let expect of a first call. Mark: measured. Dotted: the "
            f"coupling bound{where}. With {confidence:.1%} intervals."
        )
    return line_picture(
        ident,
        f"E[tau] on {compare_text.model_name(model, 60)}",
        f"{'; '.join(descriptions)}; coupling bound {bound:.6g}.",
        Axis("verifier", 0.5, len(rows) + 0.5, names=tuple(row.verifier for row in rows)),
        Axis("E[tau], accepted tokens a call", 0.0, high),
        series,
        caption,
    )


def _acceptance_chart(
    ident: str, model: results.ModelInfo, rows: Sequence[results.CompareResult]
) -> Picture:
    series, descriptions = [], []
    real = model.bounds.blocks_of is not None
    for i, row in enumerate(rows):
        ccdf, law = row.acceptance_ccdf, compare_text.acceptance_levels(row)
        levels = range(1, row.gamma + 1)
        if ccdf.exact is None:
            points = tuple(zip(levels, ccdf.lower, ccdf.upper, strict=True))
            series.append(Series("", i, points, "band"))
        series += [
            Series(row.verifier, i, tuple(zip(levels, law, strict=True))),
            Series("", i, tuple(zip(levels, ccdf.measured, strict=True)), "dots"),
        ]
        if not real:
            counts = np.rint(np.array(ccdf.measured) * row.measured.blocks).astype(np.int64)
            ends = stats.rate_interval(counts, row.measured.blocks, error=1e-3)
            series += [
                Series("", i, ((level, low), (level, high)), "rule")
                for level, low, high in zip(levels, *(end.tolist() for end in ends), strict=True)
            ]
        descriptions.append(f"{_short_name(row)}: {', '.join(f'{v:.3g}' for v in law)}")
    gamma = max(row.gamma for row in rows)
    caption = (
        "Line: the rule's exact distribution, or the middle of its bounds. Marks: measured, with "
        "99.9% intervals (Clopper and Pearson, each level by itself)."
    )
    if real:
        caption = (
            "Line: what the drafted blocks let expect of a first call, with intervals. "
            "Marks: measured."
        )
    return line_picture(
        ident,
        f"Acceptance on {compare_text.model_name(model, 60)}",
        f"Pr(tau >= l) for l = 1 to {gamma}. {'; '.join(descriptions)}.",
        Axis("l, draft tokens", 1 if gamma > 1 else 0, gamma, whole=True),
        Axis("Pr(tau \N{GREATER-THAN OR EQUAL TO} l)", 0.0, 1.0),
        series,
        caption,
    )


_FIRST_CALL_CAPTION = (
    "Shorter drafts by the first terms of Pr(tau \N{GREATER-THAN OR EQUAL TO} l), which do not "
    "depend on gamma; first call of a rule with state."
)


def _gamma_charts(
    ident: str,
    model: results.ModelInfo,
    drawn: Sequence[tuple[int, results.CompareResult, tuple[compare_text.GammaResult, ...]]],
    timed: Sequence[results.Latency],
) -> Iterator[Picture]:
    """Yield block efficiency and speed-up against gamma, by the law and as measured.

    Where the wall clock was read, its marks stand in the place of those of measured frequencies.
    """
    clock = {latency.verifier: latency.measured for latency in timed}
    efficiency: list[Series] = []
    speedup: list[Series] = []
    efficiency_words, captions = [], []
    for i, row, points in drawn:
        values = ", ".join(f"{p.block_efficiency:.3g}" for p in points)
        efficiency_words.append(f"{_short_name(row)}: {values}")
        best = max(points, key=lambda p: p.speedup)
        words = f"{_short_name(row)}: predicted at best {best.speedup:.3g}, at gamma {best.gamma}"
        marks = tuple((p.gamma, p.measured_speedup) for p in points)
        if row.verifier in clock:
            marks = ((row.gamma, clock[row.verifier]),)
            words += f"; measured {clock[row.verifier]:.3g} at gamma {row.gamma}"
        captions.append(words)
        efficiency += [
            Series(row.verifier, i, tuple((p.gamma, p.block_efficiency) for p in points)),
            Series("", i, tuple((p.gamma, p.measured_efficiency) for p in points), "dots"),
        ]
        speedup += [
            Series(row.verifier, i, tuple((p.gamma, p.speedup) for p in points)),
            Series("", i, marks, "dots"),
        ]
    on = compare_text.model_name(model, 60)
    title = f"Block efficiency on {on}"
    yield _gamma_chart(
        (f"{ident}-b", title), "tokens a target call", efficiency_words, efficiency, 1, ""
    )
    title = f"Speed-up on {on}, predicted{' and measured' if clock else ''}"
    cost = join_names(f"{c:g}" for c in sorted({row.speedup.cost_ratio for _, row, _ in drawn}))
    mark = "by the wall clock" if clock else "the same of measured frequencies"
    caption = f"Line: the latency model's (E[tau] + 1) / (gamma c + 1), c = {cost}. Mark: {mark}. "
    yield _gamma_chart((f"{ident}-s", title), "times plain decoding", captions, speedup, 0, caption)


def _gamma_chart(
    names: tuple[str, str],
    label: str,
    words: list[str],
    series: list[Series],
    low: float,
    caption: str,
) -> Picture:
    gammas = [point[0] for entry in series for point in entry.points]
    high = max(point[1] for entry in series for point in entry.points)
    return line_picture(
        *names,
        f"Against gamma = 1 to {max(gammas):g}. {'; '.join(words)}.",
        Axis("gamma, draft length", 1, max(gammas), whole=True),
        Axis(label, low, max(high * 1.05, low + 0.1)),
        series,
        caption + _FIRST_CALL_CAPTION,
    )


def _pit_chart(
    ident: str,
    model: results.ModelInfo,
    order: str,
    curves: Sequence[tuple[int, results.CompareResult, results.PitCurve]],
) -> Picture:
    series, descriptions, reach = [], [], 1e-9
    widest = max(pit.band for *_, pit in curves)
    for i, row, pit in curves:
        steps = len(pit.differences) - 1
        points = tuple((k / steps, value) for k, value in enumerate(pit.differences))
        series.append(Series(row.verifier, i, points))
        largest = max(map(abs, pit.differences))
        inside = "inside" if largest <= pit.band else "outside"
        descriptions.append(
            f"{_short_name(row)}: at most {largest:.2g}, {inside} its band of {pit.band:.2g}"
        )
        reach = max(reach, largest)
    series.append(
        Series("widest band", 7, ((0.0, -widest, widest), (1.0, -widest, widest)), "band")
    )
    limit = max(reach, widest) * 1.1
    return line_picture(
        ident,
        f"PITs in {clean_line(order, 30)} on {compare_text.model_name(model, 60)}",
        f"Empirical distribution less u. {'; '.join(descriptions)}.",
        Axis("u", 0.0, 1.0),
        Axis("F(u) \N{MINUS SIGN} u", -limit, limit),
        series,
        f"Simultaneous {curves[0][2].confidence:.1%} band: {'; '.join(descriptions)}. The tests "
        "judge every position by itself.",
    )


# A draft tree as a picture: the share of calls that keep the path through each node.


MAX_DRAWN_NODES = 64
"""Nodes of a tree that is drawn; a larger one stands in the table alone."""

ROW_HEIGHT, TOP_MARGIN, BOTTOM_MARGIN = 28, 14, 52
_LINE_HEIGHT = 12
_NODE_RADIUS = 8.5
_MIN_LEVEL_WIDTH = 34
"""Pixels of a level in which a number can be read."""


def tree_pictures(
    ident: str, trees: results.DraftTrees, rows: Sequence[results.CompareResult]
) -> tuple[Picture, ...]:
    """Return a picture for each rule whose nodes are known, or were counted."""
    shape = TreeShape(trees.parents)
    if len(shape) > MAX_DRAWN_NODES:
        return ()
    return tuple(
        _tree_picture(f"{ident}-n{i}", shape, row, masses)
        for i, row in enumerate(rows)
        if (masses := _node_masses(row))
    )


def _node_masses(row: results.CompareResult) -> dict[str, Sequence[float]]:
    """Return the share of calls that keep the way through each node: exact, and as counted."""
    masses: dict[str, Sequence[float]] = {} if row.nodes is None else {"exact": row.nodes}
    if (counts := row.node_counts) is not None:
        masses["measured"] = [kept / counts.calls for kept in counts.kept]
    return masses


def _node_blocks(
    trees: results.DraftTrees, rows: Sequence[results.CompareResult]
) -> Iterator[Block]:
    """Yield the mass of each node by rule, where a rule's is known."""
    masses = {
        f"{row.verifier}, {kind}": known
        for row in rows
        for kind, known in _node_masses(row).items()
    }
    if masses:
        shape = TreeShape(trees.parents)
        yield make_table(
            "Pr(the way kept goes through the node)",
            ("node", "parent", "level", *masses),
            (
                (
                    node,
                    "root" if shape.parents[node] == ROOT else str(shape.parents[node]),
                    shape.depths[node],
                    *(float(known[node]) for known in masses.values()),
                )
                for node in range(len(shape))
            ),
            folded=True,
            on=On.PAGE,
        )


def _tree_picture(
    ident: str, shape: TreeShape, row: results.CompareResult, masses: dict[str, Sequence[float]]
) -> Picture:
    places = _node_positions(shape)
    bottom = max(TOP_MARGIN + ROW_HEIGHT, max(y for _, y in places.values()) + ROW_HEIGHT / 2)
    known = list(masses.values())
    parts = [*_edge_marks(places, shape, known[0]), *_node_marks(places, shape, known)]
    parts += _level_labels(shape, row, bottom)
    title = f"Mass of nodes, {_short_name(row)} on {clean_line(row.model, 80)}"
    descriptions = [
        f"{kind.capitalize()}, {', '.join(f'{i}: {mass:.3g}' for i, mass in enumerate(values))}."
        for kind, values in masses.items()
    ]
    words = f"Share of calls that keep the way through each node. {' '.join(descriptions)}"
    svg = svg_image(ident, title, clean_line(words, 6000), bottom + BOTTOM_MARGIN, parts)
    counts = row.node_counts
    if counts is None:
        numbers = "The numbers are exact."
    elif row.nodes is not None:
        numbers = f"Beside it the exact share, and under that the share of {counts.calls:,} calls."
    else:
        numbers = f"It was measured in {counts.calls:,} calls; the exact share is not known."
    law = "exact" if row.acceptance_ccdf.exact is not None else "the middle of its bounds"
    return Picture(
        title,
        svg,
        f"A node is as full as its share of the calls that keep the way through it. {numbers} "
        f"Below, the sum of each level: {law}, and measured in all calls.",
    )


def _node_positions(shape: TreeShape) -> dict[int, tuple[float, float]]:
    """Return where each node stands: a leaf has a row, a parent is amid its children."""
    places: dict[int, tuple[float, float]] = {}
    step = (WIDTH - 60) / shape.depth
    rows = iter(range(len(shape)))

    def place(node: int) -> float:
        children = [place(child) for child in shape.children[node]]
        y = (children[0] + children[-1]) / 2 if children else float(next(rows))
        depth = 0 if node == ROOT else shape.depths[node]
        places[node] = (24 + depth * step, TOP_MARGIN + ROW_HEIGHT * (y + 0.5))
        return y

    place(ROOT)
    return places


def _edge_marks(
    places: dict[int, tuple[float, float]], shape: TreeShape, masses: Sequence[float]
) -> Iterator[Markup]:
    for node, parent in enumerate(shape.parents):
        (x0, y0), (x1, y1) = places[parent], places[node]
        x = (x0 + x1) / 2
        curve = f"M{x0:.1f} {y0:.1f}C{x:.1f} {y0:.1f} {x:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
        yield svg_path("axis" if masses[node] > 0 else "grid", curve)


def _node_marks(
    places: dict[int, tuple[float, float]], shape: TreeShape, known: Sequence[Sequence[float]]
) -> Iterator[Markup]:
    readable = (WIDTH - 60) / shape.depth >= _MIN_LEVEL_WIDTH
    for node, (x, y) in places.items():
        mass = 1.0 if node == ROOT else known[0][node]
        yield svg_path("dot s0", _circle_path(x, y, _NODE_RADIUS))
        # As an area, so that twice the mass looks like twice as much.
        yield svg_path("b0", _circle_path(x, y, _NODE_RADIUS * min(max(mass, 0.0), 1.0) ** 0.5))
        if node != ROOT and readable:
            for line, masses in enumerate(known):
                down = y + 4 + _LINE_HEIGHT * (line - (len(known) - 1) / 2)
                yield svg_text(x + _NODE_RADIUS + 2, down, _share_text(masses[node]), "start")


def _level_labels(shape: TreeShape, row: results.CompareResult, bottom: float) -> Iterator[Markup]:
    step = (WIDTH - 60) / shape.depth
    every = max(1, -(-_MIN_LEVEL_WIDTH // int(step)))
    levels = {"law": compare_text.acceptance_levels(row), "measured": row.acceptance_ccdf.measured}
    for line, (name, shares) in enumerate(levels.items(), 1):
        yield svg_text(4, bottom + 18 * line, name, "start")
        for level, share in enumerate(shares, 1):
            if level % every == 0 or level == shape.depth:
                yield svg_text(24 + level * step, bottom + 18 * line, _share_text(share), "middle")


def _share_text(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


def _circle_path(x: float, y: float, radius: float) -> str:
    half = f"a{radius:.2f} {radius:.2f} 0 1 0"
    return f"M{x - radius:.2f} {y:.1f}{half} {2 * radius:.2f} 0{half} {-2 * radius:.2f} 0Z"


# One model of a comparison as blocks of a report: charts, curves against gamma, calls.


def model_blocks(
    ident: str,
    run: results.CompareRun,
    model: results.ModelInfo,
    rows: Sequence[results.CompareResult],
) -> Iterator[Block]:
    """Yield the charts of a model and the tables behind them; ``ident`` is its own on the page."""
    coupling = model.bounds.coupling
    by = {"counting": ", by counting texts", "linear-programme": ", a linear program"}
    words = (
        f"No rule accepts more than {expected_cell(coupling).text} tokens in one call (coupling "
        f"bound{by.get(coupling.method, '')}{compare_text.coupling_bound_words(model.bounds)})."
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
    yield Prose(words, on=On.DETAIL)
    latencies = compare_text.model_latencies(run, model.name)
    yield Pictures(partial(model_charts, ident, model, rows, latencies))
    if run.drafting is not None:
        yield Pictures(partial(tree_pictures, ident, run.drafting, rows))
        yield from _node_blocks(run.drafting, rows)
    if run.decoding is not None:
        yield from _real_model_blocks(run, run.decoding, model, rows)
    elif not any(row.lossless.pits for row in rows):
        words = "Contexts repeat here: tokens are counted by context, not by PITs."
        yield Prose(words, on=On.PAGE)
    gammas = [(row, point) for row in rows for point in compare_text.results_by_gamma(row)]
    if gammas:
        of = "" if run.decoding is None else ", expected of first calls, measured over all"
        yield make_table(
            f"Against gamma{of}",
            (
                "verifier | gamma | Pr(tau >= gamma) | measured | block efficiency | "
                "predicted speed-up"
            ),
            (
                (
                    row.verifier,
                    point.gamma,
                    point.accepted,
                    point.measured_accepted,
                    number_cell(point.block_efficiency, 5),
                    point.speedup,
                )
                for row, point in gammas
            ),
            names=frozenset({0}),
            folded=True,
            narrow=(
                "0:\nverifier | 1:\ngamma | 2:Pr(tau\n>= gamma) | 3:\nmeasured | "
                "4:block\nefficiency | 5:predicted\nspeed-up"
            ),
            on=On.DETAIL,
        )


def _real_model_blocks(
    run: results.CompareRun,
    decoding: results.Decoding,
    model: results.ModelInfo,
    rows: Sequence[results.CompareResult],
) -> Iterator[Block]:
    """Yield what there is of real models alone: the clock, rules on the same blocks, settings."""
    if (table := compare_text.speedup_table(run, model.name)) is not None:
        yield table
    yield Items(tuple(compare_text.speedup_words(run, model.name)), on=On.DETAIL)
    paired = [(row.verifier, row.paired) for row in rows if row.paired is not None]
    if paired:
        yield make_table(
            "E[tau] on the same drafted blocks, less another rule's",
            "verifier | less | drafted blocks | difference | from | to | confidence",
            (
                (
                    verifier,
                    pair.baseline,
                    pair.blocks,
                    *(Cell(f"{x:+.4f}", x) for x in (pair.difference, pair.ci_low, pair.ci_high)),
                    Cell(f"{pair.confidence:.1%}", pair.confidence),
                )
                for verifier, pair in paired
            ),
            names=frozenset({0, 1}),
            on=On.DETAIL,
        )
    yield compare_text.decoding_table(decoding, compare_text.draft_method_name(model))


def expected_cell(expected: results.Expected) -> Cell:
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
