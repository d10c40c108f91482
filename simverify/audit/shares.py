"""How one kernel's share of the run's false-alarm rate is split over its tests, all of it here.

A comparison gives each pair of a model and a verifier the same share of ``alpha``. What a run
does not need (rare tokens where there are none, calls that nobody asked for) is not spent.
"""

from simverify.stats import split_alpha


def kernel_shares(alpha: float, *, calls: bool) -> dict[str, float]:
    """Split a kernel's share: its tokens, its acceptance against the optimum, its own law.

    ``lossy`` and ``output`` decide on losslessness; ``acceptance`` and ``calls``, the latter
    if asked for, on whether it is the declared rule.
    """
    weights = {"output": 6.0, "lossy": 1.0, "acceptance": 1.0}
    return split_alpha(alpha, weights | ({"calls": 1.0} if calls else {}))


def context_shares(alpha: float) -> dict[str, float]:
    """Split the tokens' share where contexts repeat.

    ``transitions`` tests all positions at once and holds the promised power; ``positions``,
    one of each, tells where; ``rare`` judges rows that nearly always draw the same token.
    The last two are shared by the positions.
    """
    return split_alpha(alpha, {"transitions": 4.0, "positions": 1.0, "rare": 1.0})


def pit_shares(alpha: float, *, cells: bool) -> dict[str, float]:
    """Split the tokens' share where contexts are too many.

    ``pits``, shared by the orders and positions, hold the promised power. A Markov model has
    transitions between ``cells`` of tokens beside them, coarse and fine.
    """
    weights = {"coarse": 1.0, "fine": 1.0} if cells else {}
    return split_alpha(alpha, {"pits": 4.0} | weights)
