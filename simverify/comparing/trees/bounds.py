"""What the best rule could accept on draft trees: the memoryless optimum, the coupling bound.

Both are linear programs where the trees are few, and closed forms on certain drafts, on a single
level and on a chain. Elsewhere a bound stands in, and its name says which.
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from simverify.comparing.exact.curves import AcceptanceCurve, acceptance_curves
from simverify.comparing.trees.curves import block_curve, curve_of
from simverify.comparing.trees.rows import StateRows
from simverify.comparing.trees.walk import closed_form
from simverify.models.base import MarkovModel
from simverify.simulators.exact.bounds import tree_bounds
from simverify.simulators.exact.one_step import best_hit
from simverify.simulators.exact.tree_optimum import coupling_bound, memoryless_optimum
from simverify.trees import ROOT, Drafting
from simverify.verifiers import VERIFIERS
from simverify.verifiers.trees import TREE_VERIFIERS

if TYPE_CHECKING:
    from simverify.arrays import Floats

Found = Literal["linear-programme", "closed-form", "coupling", "counting"]

MAX_TEXTS = 3_000
"""Most drafted texts V^n, on all nodes of a tree, for its linear programs: a second or two."""

MAX_COUNTED = 100_000
"""Most pairs of a node and a text V^depth that are counted one by one."""

MAX_SIBLINGS = 50_000
"""Most ordered siblings V^k of which a level's law is listed."""


@dataclass(frozen=True, eq=False)
class Best:
    """``value``: E[tau] of the best rule, found as ``by`` says; a ``bound`` may not be reached."""

    value: float
    by: Found
    bound: bool = False


@dataclass(frozen=True, eq=False)
class Bounds:
    """What no lossless rule exceeds on trees so drafted.

    ``memoryless``: no rule without state; ``coupling``: no rule at all, in one call. ``levels``:
    bounds on Pr(tau >= l), l = 1..depth, of a rule without state, and ``of_any`` of any, where it
    is another.
    """

    memoryless: Best
    coupling: Best
    levels: AcceptanceCurve
    of_any: AcceptanceCurve | None = None


def bounds_of(drafting: Drafting, model: MarkovModel, rows: StateRows) -> Bounds:
    """Return the best bounds that can be had for ``drafting`` on ``model``."""
    shape, scheme = drafting.shape, drafting.scheme
    counts = [len(children) for children in shape.children.values() if children]
    if all(scheme.certain(k) >= k for k in counts):
        fixed = closed_form(TREE_VERIFIERS["fixed-tree"], drafting, rows)
        if fixed is not None:
            curve = curve_of(fixed.curve, "closed-form")
            best = Best(curve.expected, "closed-form")
            return Bounds(best, best, curve)
    if shape.is_chain:
        block, greedy = block_curve(model, shape.depth), _coupling_of_a_chain(model, shape.depth)
        best = Best(block.expected, "closed-form")
        return Bounds(best, Best(greedy.expected, "closed-form"), block, greedy)
    if shape.depth == 1 and _listable(drafting, rows):
        k = len(shape.children[ROOT])
        hit = best_hit(rows.target[-1], rows.draft[-1], k, scheme)
        curve = curve_of([hit], "closed-form")
        best = Best(curve.expected, "closed-form")
        return Bounds(best, best, curve)
    levels = _levels(drafting, model, rows)
    if rows.vocab_size ** len(shape) <= MAX_TEXTS:
        # The programs' own rounding must not lift them above what is counted.
        most = levels.expected_upper
        coupling = min(coupling_bound(drafting, model.target, model.draft).value, most)
        memoryless = min(memoryless_optimum(drafting, model.target, model.draft).value, coupling)
        return Bounds(
            Best(memoryless, "linear-programme"), Best(coupling, "linear-programme"), levels
        )
    counted = Best(levels.expected_upper, "counting", bound=True)
    return Bounds(counted, counted, levels)


def _coupling_of_a_chain(model: MarkovModel, depth: int) -> AcceptanceCurve:
    # Greedy's first call attains it (Sun et al. 2025, theorem 3).
    rules = {"greedy": VERIFIERS["greedy"]}
    return acceptance_curves(model, rules, depth, seed=0, threads=2)["greedy"]


def _levels(drafting: Drafting, model: MarkovModel, rows: StateRows) -> AcceptanceCurve:
    """Bound Pr(tau >= l) by the target's own text being in the tree, for the best coupling.

    At the first level that is the optimal transport. A text o of l tokens is accepted with
    probability min(Pr(o), Pr(o is in the tree)) at most; where texts are too many to count, the
    second is at most the number of nodes times the draft's Pr(o), for independent siblings, and
    on chains from the root it follows from their first tokens.
    """
    shape, scheme = drafting.shape, drafting.scheme
    found: list[Any]
    if rows.vocab_size**shape.depth * len(shape) <= MAX_COUNTED and _listable(drafting, rows):
        found = _counted(drafting, rows)
    elif scheme.replaced:
        found = _scaled(drafting, model)
    elif _chains(drafting) and _listable(drafting, rows):
        # A text is on one of the chains at most, by its first token.
        first = scheme.included(model.draft_start, len(shape.children[ROOT]))
        scaled = replace(model, draft_start=first, rational=None)
        found = tree_bounds(scaled, shape.depth, "greedy").upper.tolist()
    else:
        found = [1.0] * shape.depth
    if _listable(drafting, rows):
        k = len(shape.children[ROOT])
        first = best_hit(rows.target[-1], rows.draft[-1], k, scheme)
        found = [min(first, level) for level in found]
    # No level is reached without those above it.
    found = list(itertools.accumulate(found, min))
    curve = curve_of(found, "closed-form")
    return replace(curve, lower=np.zeros_like(curve.upper), expected_lower=0.0)


def _listable(drafting: Drafting, rows: StateRows) -> bool:
    """Whether the law of a node's siblings is short, or has a closed form."""
    if drafting.scheme.replaced:
        return True
    most = max(len(children) for children in drafting.shape.children.values())
    return bool(rows.vocab_size**most <= MAX_SIBLINGS)


def _chains(drafting: Drafting) -> bool:
    """Whether the root alone has several children, and all others one sample of q."""
    children = drafting.shape.children.items()
    single = all(len(found) <= 1 for node, found in children if node != ROOT)
    return single and drafting.scheme.certain(1) == 0


def _counted(drafting: Drafting, rows: StateRows) -> list[Any]:
    """Sum min(Pr(o), Pr(o is in the tree)) over the texts of each length."""
    shape, scheme = drafting.shape, drafting.scheme
    known: dict[tuple[int, int], Any] = {}

    def marginals(state: int, k: int) -> Any:
        """Pr(sibling j is y), (k, V): of siblings without replacement only one can be y."""
        if (state, k) not in known:
            q = rows.draft[state]
            law = np.array([q] * k)
            if not scheme.replaced:
                law = 0 * law
                for siblings, mass in scheme.law(q, k).items():
                    for j, token in enumerate(siblings):
                        law[j, token] += mass
            known[state, k] = law
        return known[state, k]

    def inside(node: int, state: int, text: tuple[int, ...]) -> Any:
        """Pr(``text`` is a way below ``node``)."""
        if not text:
            return 1
        children = shape.children[node]
        if not children:
            return 0
        law, after = marginals(state, len(children)), text[0] % rows.states
        each = [
            law[j, text[0]] * inside(child, after, text[1:])
            for j, child in enumerate(children)
            if law[j, text[0]] > 0
        ]
        return 1 - math.prod(1 - x for x in each) if scheme.replaced else sum(each)

    levels: list[Any] = []
    texts: dict[tuple[int, ...], Any] = {(): 1}
    for _ in range(shape.depth):
        texts = {
            (*text, token): mass * p
            for text, mass in texts.items()
            for token, p in enumerate(rows.after(rows.target)(text))
            if p > 0
        }
        levels.append(sum(min(mass, inside(ROOT, -1, text)) for text, mass in texts.items()))
    return levels


def _scaled(drafting: Drafting, model: MarkovModel) -> list[float]:
    """Bound each level by the sum of min(Pr(o), n Ms(o)), n the nodes at that level."""
    depths = drafting.shape.depths
    nodes = [depths.count(level) for level in range(1, drafting.shape.depth + 1)]
    found: dict[int, Floats] = {}
    for n in nodes:
        if n not in found:
            longest = len(nodes) - nodes[::-1].index(n)
            scaled = replace(model, draft_start=n * model.draft_start, rational=None)
            found[n] = tree_bounds(scaled, longest, "greedy").upper
    return [float(found[n][level]) for level, n in enumerate(nodes)]
