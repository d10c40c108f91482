"""Tree Monte Carlo: one draw over all the places where a chain can end."""

from typing import Any, NamedTuple

import numpy as np

from simverify.simulators.kernels.tables.access import advance, correct, draft, mass, ratio
from simverify.simulators.kernels.trees.judging import Family, judges


class TreeMonteCarlo(NamedTuple):
    """Needs nothing but the model."""


TREE_MONTE_CARLO = Family(lambda tables, drafting: TreeMonteCarlo())


@judges(TreeMonteCarlo)
def judge_ends(
    rule: Any, tables: Any, drafts: Any, u_draft: Any, u_accept: Any, u_last: Any, t: Any,
    states: Any, tokens: Any, scratch: Any,
) -> Any:  # fmt: skip
    depth = tokens.shape[0]
    # The weight of each prefix, the mass of the outputs that end after it, and the share of
    # that which is left to this chain by the tokens that follow.
    weight, ends, share = scratch.floats[0], scratch.floats[1], scratch.floats[2]
    weight[0] = 1.0
    for i in range(depth):
        state = states[i, t]
        tokens[i, t] = draft(tables, state, u_draft[i, t])
        states[i + 1, t] = advance(tables, state, tokens[i, t])
        kept = weight[i] * ratio(tables, state, tokens[i, t])
        ends[i] = mass(tables, state, weight[i], 1.0)
        # Both rows sum to 1, so what q exceeds the target by follows.
        lost = ends[i] + 1.0 - weight[i]
        share[i] = max(1.0 - kept, 0.0) / lost if lost > 0.0 else 1.0
        weight[i + 1] = min(kept, 1.0)
    total = ends[depth] = weight[depth]
    factor = 1.0
    for i in range(depth - 1, -1, -1):
        factor *= share[i]
        ends[i] *= factor
        total += ends[i]
    goal = u_accept[0, t] * total
    tau = depth
    below = ends[depth]
    while tau > 0 and goal >= below:
        tau -= 1
        below += ends[tau]
    if tau == depth:
        return np.int64(depth), correct(tables, states[depth, t], 1.0, 0.0, u_last[0, t])
    return np.int64(tau), correct(tables, states[tau, t], weight[tau], 1.0, u_last[0, t])
