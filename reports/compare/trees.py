"""What a comparison on draft trees says beside that of a single draft, in words."""

from collections.abc import Iterator, Sequence

from simverify.reports.audit.found import count
from simverify.results import CompareResult, CompareRun, DraftTrees, Expected
from simverify.trees import TreeShape

_NEAR = 5e-4
"""Difference that three decimals show."""


OPTIMUM = {
    "closed-form": "in closed form",
    "linear-programme": "by a linear program",
    "coupling": "at most, by the coupling bound",
    "counting": "at most, by counting the texts that a tree can hold",
}
"""How the best rule without state for a tree was found."""


def tree_words(found: DraftTrees) -> str:
    """Return the tree and the scheme of its siblings."""
    shape = TreeShape(found.parents)
    levels = shape.words().removesuffix(" children per level")
    if shape.is_chain:
        return f"one draft, {found.scheme}"
    first = len(shape.children[-1])
    if len(shape) == first * shape.depth and levels == ",".join(["1"] * shape.depth).replace(
        "1", str(first), 1
    ):
        return f"{first} drafts, {found.scheme}"
    # The parents of a tree that has no such numbers stand in the run file.
    how = f", {levels}" if levels != shape.words() else ""
    return f"tree of {count(len(shape), 'node')}{how}, {found.scheme}"


def gap_words(row: CompareResult) -> str:
    """Return how far a rule is from its optimum."""
    gap = row.optimum.expected_accepted * (1 - row.optimality)
    sign = "at most " if row.optimum.bound else ""
    name = row.optimum.name if row.optimum.name != "memoryless" else "the best rule for the trees"
    return f"{sign}{gap:.3g} ({1 - row.optimality:.1%} of {name})"


def load_words(run: CompareRun) -> Iterator[str]:
    """Yield what the optimum of draft trees is, and how the latency model counts rows."""
    if run.drafting is not None:
        ways = dict.fromkeys(row.optimum.by for row in run.results if row.optimum.by is not None)
        how = ", or ".join(OPTIMUM[way] for way in ways)
        yield (
            f"The optimum is E[tau] of the best rule without state for these trees: {how}. "
            "Rules for a single draft have block verification's."
        )
    load = run.results[0].speedup
    if load.free_rows is not None:
        yield (
            f"Predicted speed-up: a call on {load.batch_size:,} sequences of r rows each takes "
            f"max(1, {load.batch_size:,} r / {load.free_rows:g}) times what one of few rows takes "
            "(--batch-size, --free-rows), of target and draft alike; the target has a row after "
            "the prefix and one after each drafted token."
        )


def best_line(rows: Sequence[CompareResult], coupling: Expected) -> str:
    """Return which rule gives most tokens, how many the best one could, and which is fastest."""
    first = max(rows, key=lambda row: row.block_efficiency)
    fastest = max(rows, key=lambda row: row.speedup.predicted)
    words = f"most tokens: {first.verifier}, {first.block_efficiency:.3f} a call"
    of_trees = [row for row in rows if not row.one_draft]
    if of_trees:
        # On real models the optimum is of each rule's own calls.
        best = of_trees[0].optimum if first.one_draft else first.optimum
        words += f"; the best rule for these trees: {best.expected_accepted + 1:.3f}"
        words += " at most" if best.bound else ""
        # What carried state, or more than the tree, could add: one call alone.
        exact = coupling.confidence is None
        if exact and not best.bound and coupling.upper - best.expected_accepted > _NEAR:
            words += f", in one call with state {coupling.upper + 1:.3f}"
    if fastest.verifier != first.verifier:
        words += f"; fastest: {fastest.verifier}, {fastest.speedup.predicted:.2f}x"
    return words


def optimum_lines(rows: Sequence[CompareResult]) -> list[str]:
    """Return what the share of the optimum is of, on draft trees."""
    found = next((row.optimum for row in rows if row.optimum.name == "memoryless"), None)
    if found is None or found.by is None:
        return []
    value = f"{found.expected_accepted:.6g}"
    return [
        f"of opt.: of E[tau] of the best rule without state for these trees, {value}, "
        f"{OPTIMUM[found.by]}",
    ]
