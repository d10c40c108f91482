"""A draft tree as a picture: what share of calls keeps the way through each node."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from simverify.checks import clean
from simverify.reports.compare.by_gamma import curve
from simverify.reports.view import Cell, Picture, Table
from simverify.reports.words import MOST_ROWS, figure, first
from simverify.results import CompareResult, DraftTrees
from simverify.trees import ROOT, TreeShape

MOST_NODES = 64
"""Nodes of a tree that is drawn; a larger one stands in the table alone."""

WIDTH, ROW, TOP, FOOT = 420, 28, 14, 52
_LINE = 12
_RADIUS = 8.5
_NARROWEST = 34
"""Pixels of a level in which a number can be read."""


def tree_pictures(
    ident: str, found: DraftTrees, rows: Sequence[CompareResult]
) -> tuple[Picture, ...]:
    """Return a picture for each rule whose nodes are known, or were counted."""
    shape = TreeShape(found.parents)
    if len(shape) > MOST_NODES:
        return ()
    return tuple(
        _picture(f"{ident}-n{i}", shape, row)
        for i, row in enumerate(rows)
        if row.nodes is not None or row.node_counts is not None
    )


def node_table(found: DraftTrees, rows: Sequence[CompareResult]) -> Table | None:
    """Return the mass of each node by rule, or None where no rule's is known."""
    columns = list(_columns(rows))
    if not columns:
        return None
    shape = TreeShape(found.parents)
    shown, left_out = first(range(len(shape)), MOST_ROWS)
    return Table(
        "Pr(the way kept goes through the node)",
        ("node", "parent", "level", *(name for name, _ in columns)),
        tuple(
            (
                Cell(str(node), node),
                Cell("root" if shape.parents[node] == ROOT else str(shape.parents[node])),
                Cell(str(shape.depths[node]), shape.depths[node]),
                *(figure(masses[node]) for _, masses in columns),
            )
            for node in shown
        ),
        numbers=frozenset(range(2, 3 + len(columns))),
        folded=True,
        left_out=left_out,
    )


def _columns(rows: Sequence[CompareResult]) -> Iterator[tuple[str, Sequence[float]]]:
    for row in rows:
        if row.nodes is not None:
            yield f"{row.verifier}, exact", row.nodes
        if (counted := _counted(row)) is not None:
            yield f"{row.verifier}, measured", counted


def _counted(row: CompareResult) -> list[float] | None:
    """Return the share of calls that kept the way through each node, where that was counted."""
    found = row.node_counts
    return None if found is None else [kept / found.calls for kept in found.kept]


def _picture(ident: str, shape: TreeShape, row: CompareResult) -> Picture:
    counted = _counted(row)
    masses = row.nodes if row.nodes is not None else counted
    assert masses is not None
    places = _positions(shape)
    bottom = TOP + ROW * max(1.0, max(y for _, y in places.values()) + 1)
    parts = [*_edges(places, shape, masses), *_nodes(places, shape, row.nodes, counted)]
    parts += _levels(shape, row, bottom)
    name = clean(row.verifier, 40)
    title = f"Mass of nodes, {name} on {clean(row.model, 80)}"
    said = [
        f"{kind}, {', '.join(f'{node}: {mass:.3g}' for node, mass in enumerate(known))}."
        for kind, known in (("Exact", row.nodes), ("Measured", counted))
        if known is not None
    ]
    svg = Markup(
        '<svg class="chart" role="img" viewBox="0 0 {} {:.0f}" aria-labelledby="{}-t {}-d">'
        '<title id="{}-t">{}</title><desc id="{}-d">{}</desc>{}</svg>'
    ).format(
        WIDTH, bottom + FOOT, ident, ident, ident, title, ident,
        clean(f"Share of calls that keep the way through each node. {' '.join(said)}", 6000),
        Markup("").join(parts),
    )  # fmt: skip
    return Picture(title, svg, " ".join(_words(row)))


def _words(row: CompareResult) -> Iterator[str]:
    """Yield what the picture shows."""
    found, known = row.node_counts, row.nodes is not None
    yield "A node is as full as its share of the calls that keep the way through it."
    if found is None:
        yield "The numbers are exact."
    elif known:
        yield f"Beside it the exact share, and under that the share of {found.calls:,} calls."
    else:
        yield f"It was measured in {found.calls:,} calls; the exact share is not known."
    law = "exact" if row.acceptance_ccdf.exact is not None else "the middle of its bounds"
    yield f"Below, the sum of each level: {law}, and measured in all calls."


def _positions(shape: TreeShape) -> dict[int, tuple[float, float]]:
    """Return x in pixels and y in rows of each node: a leaf a row, a parent amid its children."""
    places: dict[int, tuple[float, float]] = {}
    step = (WIDTH - 60) / shape.depth
    rows = iter(range(len(shape)))

    def place(node: int) -> float:
        children = [place(child) for child in shape.children[node]]
        y = (children[0] + children[-1]) / 2 if children else float(next(rows))
        depth = 0 if node == ROOT else shape.depths[node]
        places[node] = (24 + depth * step, y)
        return y

    place(ROOT)
    return places


def _down(y: float) -> float:
    return TOP + ROW * (y + 0.5)


def _edges(
    places: dict[int, tuple[float, float]], shape: TreeShape, nodes: Sequence[float]
) -> Iterator[Markup]:
    for node, parent in enumerate(shape.parents):
        (x0, y0), (x1, y1) = places[parent], places[node]
        middle = (x0 + x1) / 2
        kind = "axis" if nodes[node] > 0 else "grid"
        yield _path(
            kind,
            f"M{x0:.1f} {_down(y0):.1f}C{middle:.1f} {_down(y0):.1f} {middle:.1f} "
            f"{_down(y1):.1f} {x1:.1f} {_down(y1):.1f}",
        )


def _nodes(
    places: dict[int, tuple[float, float]],
    shape: TreeShape,
    exact: Sequence[float] | None,
    counted: Sequence[float] | None,
) -> Iterator[Markup]:
    readable = (WIDTH - 60) / shape.depth >= _NARROWEST
    known = [masses for masses in (exact, counted) if masses is not None]
    for node, (x, y) in places.items():
        mass = 1.0 if node == ROOT else known[0][node]
        yield _path("dot s0", _circle(x, _down(y), _RADIUS))
        # As an area, so that twice the mass looks like twice as much.
        yield _path("b0", _circle(x, _down(y), _RADIUS * min(max(mass, 0.0), 1.0) ** 0.5))
        if node != ROOT and readable:
            for line, masses in enumerate(known):
                down = _down(y) + 4 + _LINE * (line - (len(known) - 1) / 2)
                shown = f"{masses[node]:.3f}".removeprefix("0")
                yield _text(x + _RADIUS + 2, down, shown, "start")


def _levels(shape: TreeShape, row: CompareResult, bottom: float) -> Iterator[Markup]:
    step = (WIDTH - 60) / shape.depth
    every = max(1, -(-_NARROWEST // int(step)))
    yield _text(4, bottom + 18, "law", "start")
    yield _text(4, bottom + 36, "measured", "start")
    levels = zip(curve(row), row.acceptance_ccdf.measured, strict=True)
    for level, (law, measured) in enumerate(levels, 1):
        if level % every == 0 or level == shape.depth:
            x = 24 + level * step
            yield _text(x, bottom + 18, f"{law:.3f}".removeprefix("0"), "middle")
            yield _text(x, bottom + 36, f"{measured:.3f}".removeprefix("0"), "middle")


def _circle(x: float, y: float, radius: float) -> str:
    half = f"a{radius:.2f} {radius:.2f} 0 1 0"
    return f"M{x - radius:.2f} {y:.1f}{half} {2 * radius:.2f} 0{half} {-2 * radius:.2f} 0Z"


def _path(kind: str, d: str) -> Markup:
    return Markup('<path class="{}" d="{}"/>').format(kind, d)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text class="t" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, clean(text, 80)
    )
