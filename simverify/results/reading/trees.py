"""What goes together in a comparison on draft trees: the tree, its nodes, its optimum."""

from collections.abc import Iterator

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
        if row.nodes is not None:
            yield f"{where}.nodes stands beside a single draft: expected null"
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
    if row.nodes is None:
        return
    if len(row.nodes) != len(parents):
        yield f"{where}.nodes has {len(row.nodes)} values: expected {len(parents)}, one a node"
        return
    for node, mass in enumerate(row.nodes):
        above = 1.0 if parents[node] < 0 else row.nodes[parents[node]]
        if not -_ROUNDING <= mass <= above + _ROUNDING:
            yield f"{where}.nodes[{node}] is {mass:g}: expected 0 to {above:g}, as its parent has"
    exact = row.acceptance_ccdf.exact
    for level in range(1, row.gamma + 1):
        total = sum(m for m, depth in zip(row.nodes, depths, strict=True) if depth == level)
        if (
            exact is not None
            and len(exact) == row.gamma
            and abs(total - exact[level - 1]) > _ROUNDING
        ):
            yield (
                f"{where}.nodes add up to {total:g} at level {level}: expected "
                f"{exact[level - 1]:g}, as acceptance_ccdf.exact"
            )
