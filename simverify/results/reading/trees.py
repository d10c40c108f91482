"""What goes together in a comparison on draft trees: the tree, its nodes, its optimum."""

from collections.abc import Iterator, Sequence

from simverify.results import CompareResult, CompareRun

_ROUNDING = 1e-6

_BOUNDS = ("coupling", "counting")
"""Ways to the optimum that only bound it."""


def parents_complaints(parents: tuple[int, ...], where: str) -> Iterator[str]:
    """Name what makes ``parents`` no tree."""
    if not parents:
        yield f"{where} is empty: expected the parent of each node"
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            yield f"{where}[{node}] is {parent}: expected -1, or a node before it"
            return


def tree_complaints(run: CompareRun, row: CompareResult, where: str) -> Iterator[str]:
    """Name each field of ``row`` that the run's draft tree contradicts; its parents make one."""
    yield from _optimum(run, row, where)
    if run.drafting is None or row.one_draft:
        for name in ("nodes", "node_counts"):
            if getattr(row, name) is not None:
                yield f"{where}.{name} stands beside a single draft: expected null"
        if run.drafting is None and row.one_draft:
            yield f"{where}.one_draft is true without drafting: expected false"
        nodes = run.gamma
    else:
        nodes = len(run.drafting.parents)
        yield from _nodes(run.drafting.parents, row, where)
    if row.speedup.rows not in (None, nodes + 1):
        yield f"{where}.speedup.rows is {row.speedup.rows}: expected {nodes + 1}, or null"


def _optimum(run: CompareRun, row: CompareResult, where: str) -> Iterator[str]:
    best = row.optimum
    of_tree = run.drafting is not None and not row.one_draft
    if (best.name == "memoryless") != of_tree:
        expected = "memoryless, of a draft tree" if of_tree else "block or coupling"
        yield f"{where}.optimum.name is {best.name}: expected {expected}"
    if (best.by is None) == of_tree:
        yield f"{where}.optimum.by is {best.by}: expected it on draft trees, and there alone"
    if best.bound != (best.by in _BOUNDS):
        yield f"{where}.optimum.bound is {str(best.bound).lower()}: expected otherwise, as by says"
    kept = row.block_efficiency - 1
    if of_tree and abs(row.optimality * best.expected_accepted - kept) > _ROUNDING * run.gamma:
        share = kept / best.expected_accepted if best.expected_accepted > 0 else 1.0
        if best.expected_accepted > 0:
            yield f"{where}.optimality is {row.optimality:g}: expected {share:g}, by the optimum"


def _nodes(parents: tuple[int, ...], row: CompareResult, where: str) -> Iterator[str]:
    depths: list[int] = []
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            return  # said of the tree itself
        depths.append(1 if parent < 0 else depths[parent] + 1)
    if max(depths) != row.gamma:
        yield f"{where}.gamma is {row.gamma}: expected {max(depths)}, the depth of drafting.parents"
        return
    if row.nodes is not None:
        exact = row.acceptance_ccdf.exact
        known = exact if exact is not None and len(exact) == row.gamma else None
        yield from _masses(parents, depths, row.nodes, known, f"{where}.nodes")
    if row.node_counts is not None:
        calls, kept = row.node_counts.calls, row.node_counts.kept
        here = f"{where}.node_counts.kept"
        if not 0 < calls <= row.measured.blocks:
            yield (
                f"{where}.node_counts.calls is {calls:,}: expected 1 to {row.measured.blocks:,}, "
                "as measured.blocks"
            )
        else:
            yield from _masses(parents, depths, [n / calls for n in kept], None, here)


def _masses(
    parents: tuple[int, ...],
    depths: list[int],
    masses: Sequence[float],
    levels: Sequence[float] | None,
    where: str,
) -> Iterator[str]:
    """Name what is no share of calls by node, or adds up to something else than ``levels``."""
    if len(masses) != len(parents):
        yield f"{where} has {len(masses)} values: expected {len(parents)}, one a node"
        return
    for node, mass in enumerate(masses):
        above = 1.0 if parents[node] < 0 else masses[parents[node]]
        if not -_ROUNDING <= mass <= above + _ROUNDING:
            yield f"{where}[{node}] is {mass:g}: expected 0 to {above:g}, as its parent has"
    for level, expected in enumerate(levels or (), 1):
        total = sum(m for m, depth in zip(masses, depths, strict=True) if depth == level)
        if abs(total - expected) > _ROUNDING:
            yield (
                f"{where} add up to {total:g} at level {level}: expected {expected:g}, as "
                "acceptance_ccdf.exact"
            )
