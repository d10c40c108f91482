"""Hierarchical speculative decoding: from the end of a chain, each prefix by its branches."""

from typing import Any, NamedTuple

import numpy as np

from simverify.simulators.kernels.debt import LARGEST
from simverify.simulators.kernels.tables.access import advance, correct, draft, mass, ratio
from simverify.simulators.kernels.trees.judging import Family, judges


class Hierarchical(NamedTuple):
    """Needs nothing but the model."""


HIERARCHICAL = Family(lambda tables, drafting: Hierarchical())


@judges(Hierarchical)
def judge_hierarchical(
    rule: Any, tables: Any, drafts: Any, u_draft: Any, u_accept: Any, u_last: Any, t: Any,
    states: Any, tokens: Any, scratch: Any,
) -> Any:  # fmt: skip
    depth = tokens.shape[0]
    capped = scratch.floats[0]
    joint = most = capped[0] = 1.0
    for i in range(depth):
        state = states[i, t]
        tokens[i, t] = draft(tables, state, u_draft[i, t])
        states[i + 1, t] = advance(tables, state, tokens[i, t])
        joint = min(joint * ratio(tables, state, tokens[i, t]), LARGEST)
        most = max(most, joint)
        capped[i + 1] = joint / most
    u = u_last[0, t]
    if u_accept[depth - 1, t] < capped[depth]:
        return depth, correct(tables, states[depth, t], 1.0, 0.0, u)
    tau = depth - 1
    while tau > 0:
        gained = mass(tables, states[tau, t], capped[tau], 1.0)
        # Both rows sum to 1, so what q exceeds the target by follows.
        larger = max(gained, gained + 1.0 - capped[tau])
        if larger <= 0.0 or u_accept[tau - 1, t] * larger < gained:
            break
        tau -= 1
    return np.int64(tau), correct(tables, states[tau, t], capped[tau], 1.0, u)
