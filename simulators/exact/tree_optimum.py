"""What any rule can reach on a draft tree: two linear programs, for small instances.

A rule for one drafted tree is a choice of a(T, v, y) = Pr(the tree is T, the way to v is accepted,
the next token is y). It is usable in the plain loop when the tokens of the call, continued by the
target, follow the target's law; maximising the mean depth of v over all such rules gives the
memoryless optimum. Without that constraint on the continuation only the joint law of T and the
target's own text matters, and the value is the coupling bound. On a chain the first is block's
E[tau] (Sun et al. 2025, theorem 2), the second the sum of min(Ms, Mb).

Numerics: HiGHS at its defaults is off by up to 2.7e-6 at V = 4, gamma = 4. Variables are
conditional on T (divided by its probability), rows divided by Mb, and the dual is repaired: given
the prices of the rows, those of the drafts are set to the least feasible value.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, sparse

from simverify.arrays import Floats
from simverify.errors import UsageError
from simverify.symbolic.enumeration.paths import TooManyPaths
from simverify.trees import Drafting, RowAfter, law_of_trees

Text = tuple[int, ...]
Columns = Sequence[tuple[int, float, float, Iterable[int]]]

MAX_VARIABLES = 200_000

MAX_DRAFTS = 20_000
"""Most drafted trees: listing so many takes some seconds."""


@dataclass(frozen=True)
class TreeOptimum:
    """``value``: HiGHS's optimum, its feasibility tolerance 1e-10. ``upper``: repaired dual.

    ``upper`` bounds the true optimum but for the rounding of float64; ``value`` may err either
    way, so a rule's own E[tau] is the better lower bound.
    """

    value: float
    upper: float


def memoryless_optimum(drafting: Drafting, target: RowAfter, draft: RowAfter) -> TreeOptimum:
    """Largest E[tau] of any lossless rule without carried state, on trees so drafted.

    Parameters
    ----------
    drafting
        The shape of the tree, and the scheme of its siblings.
    target, draft
        ``target(text)`` and ``draft(text)`` give float64 rows (V,) that sum to 1, for any
        tuple of token ids; the methods of a model fit. Entries of .02 and more keep the two
        figures of the result within 1e-9 of each other.

    Raises
    ------
    UsageError
        An instance of more than 20,000 drafts, or 200,000 variables.
    RuntimeError
        HiGHS did not reach an optimum.
    """
    size = len(target(()))
    drafts = _drafts(drafting, draft)
    depth = drafting.shape.depth
    # Pr(o^n) of every beginning, to divide by: an emitted o^(t+1) is continued by the target.
    emitted = {o: w for n in range(1, depth + 2) for o, w in _law(target, size, n).items()}
    outputs = [o for o in emitted if len(o) == depth + 1]
    below: dict[Text, list[int]] = {}
    for row, o in enumerate(outputs):
        for n in range(1, depth + 2):
            below.setdefault(o[:n], []).append(row)
    columns = [
        (index, float(len(way)), mass / emitted[out], below[out])
        for index, (ways, mass) in enumerate(drafts.items())
        for way in ways
        for out in ((*way, y) for y in range(size))
        # To stop before a token that was drafted there gains nothing over accepting it.
        if out in emitted and out not in ways
    ]
    return _solve(np.array(list(drafts.values())), columns, len(outputs))


def coupling_bound(drafting: Drafting, target: RowAfter, draft: RowAfter) -> TreeOptimum:
    """Largest mean number of tokens that the tree and the target's own text can share.

    Over all couplings of the two; parameters, result and errors as in :func:`memoryless_optimum`.
    """
    size = len(target(()))
    drafts = _drafts(drafting, draft)
    outputs = _law(target, size, drafting.shape.depth)
    if len(drafts) * len(outputs) > MAX_VARIABLES:
        raise _too_large(len(drafts) * len(outputs))
    columns = [
        (index, float(max(len(way) for way in ways if o[: len(way)] == way)), mass / weight, [row])
        for index, (ways, mass) in enumerate(drafts.items())
        for row, (o, weight) in enumerate(outputs.items())
    ]
    return _solve(np.array(list(drafts.values())), columns, len(outputs))


def _drafts(drafting: Drafting, draft: RowAfter) -> dict[frozenset[Text], float]:
    """Probability of every set of ways from the root, the empty one among them.

    The order of siblings, and how often one came, are chance that helps no rule.
    """
    try:
        law = law_of_trees(drafting, draft, max_trees=MAX_DRAFTS)
    except TooManyPaths:
        raise UsageError(
            f"more than {MAX_DRAFTS:,} trees can be drafted: take a smaller vocabulary or tree "
            "for its optimum"
        ) from None
    drafts: dict[frozenset[Text], float] = {}
    for tree, mass in law:
        ways = frozenset(tree.text(node) for node in range(-1, len(tree.tokens)))
        drafts[ways] = drafts.get(ways, 0.0) + float(mass)
    return drafts


def _law(row: RowAfter, size: int, length: int) -> dict[Text, float]:
    """Probability of every text of ``length`` tokens, zeros left out."""
    if size**length > MAX_VARIABLES:
        raise _too_large(size**length)
    law: dict[Text, float] = {(): 1.0}
    for _ in range(length):
        rows = {text: row(text) for text in law}
        law = {
            (*text, token): mass * float(rows[text][token])
            for (text, mass), token in itertools.product(law.items(), range(size))
            if mass * float(rows[text][token]) > 0
        }
    return law


def _too_large(variables: int) -> UsageError:
    return UsageError(
        f"the optimum of this tree takes {variables:,} variables or more: expected at most "
        f"{MAX_VARIABLES:,}; take a smaller vocabulary or tree for its optimum"
    )


def _solve(drafts: Floats, columns: Columns, rows: int) -> TreeOptimum:
    """Maximise the sum of Pr(T) gain b over b >= 0 with sum b = 1 per draft, rows <= 1.

    A column is (draft T, gain, coefficient, the rows it enters).
    """
    if len(columns) > MAX_VARIABLES:
        raise _too_large(len(columns))
    owner = np.array([index for index, _, _, _ in columns])
    gain = drafts[owner] * np.array([value for _, value, _, _ in columns])
    entries = [
        (row, column, coefficient)
        for column, (_, _, coefficient, its_rows) in enumerate(columns)
        for row in its_rows
    ]
    row, column, coefficient = (np.array(x) for x in zip(*entries, strict=True))
    law = sparse.csr_array((coefficient, (row, column)), shape=(rows, owner.size))
    total = sparse.csr_array(
        (np.ones(owner.size), (owner, np.arange(owner.size))), shape=(drafts.size, owner.size)
    )
    result = optimize.linprog(
        -gain,
        A_ub=law,
        b_ub=np.ones(rows),
        A_eq=total,
        b_eq=np.ones(drafts.size),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0:
        raise RuntimeError(f"linear program not solved: {result.message}; shrink V or the tree")
    prices = np.maximum(-result.ineqlin.marginals, 0.0)
    margin = gain - law.T @ prices
    least = np.full(drafts.size, -np.inf)
    np.maximum.at(least, owner, margin)
    return TreeOptimum(float(-result.fun), float(least.sum() + prices.sum()))
