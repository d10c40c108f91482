"""How one trial's share of the run's false-alarm rate is split over its tests, all of it here.

A comparison gives each pair of a model and a verifier the same share of ``alpha``, an audit
each instance. Half goes to the likelihood ratios of named faults, a quarter to the score bank,
a quarter to the rest. What a run does not need (rare tokens where there are none, calls that
nobody asked for) is not spent.
"""

from collections.abc import Mapping

from simverify.stats import split_alpha
from simverify.stats.planning.budget import BATTERY

_OUTPUT = {"transitions": 4.0, "positions": 1.0, "rare": 1.0}
"""``transitions`` tests all positions at once and holds the promised power; ``positions``, one
of each, tells where; ``rare`` judges rows that nearly always draw the same token. The last two
are shared by the positions."""


def kernel_shares(alpha: float, *, calls: bool) -> dict[str, float]:
    """Split a kernel's share.

    ``ratios`` and ``scores`` are the battery's; ``output`` the rest of what is asked of its
    tokens; ``lossy`` its acceptance against the optimum. These decide on losslessness;
    ``acceptance`` and ``calls``, the latter if asked for, on whether it is the declared rule.
    """
    rest = {"output": 6.0, "lossy": 1.0, "acceptance": 1.0} | ({"calls": 1.0} if calls else {})
    names = {"ratios": "likelihood ratios", "scores": "scores"}
    return split_alpha(alpha, _beside(rest) | {ours: BATTERY[x] for ours, x in names.items()})


def context_shares(alpha: float) -> dict[str, float]:
    """Split the tokens' share ``output`` where contexts repeat.

    ``pairs`` is for what tokens know of each other beyond the contexts they are counted by.
    """
    return split_alpha(alpha, {**_OUTPUT, "pairs": 0.5})


def pit_shares(alpha: float, *, cells: bool) -> dict[str, float]:
    """Split the tokens' share where contexts are too many.

    ``pits``, shared by the orders and positions, hold the promised power. Of the first tokens
    there is a third order, ``descending``, and ``pairs``. A Markov model has transitions
    between ``cells`` of tokens beside them, coarse and fine.
    """
    weights = {"coarse": 1.0, "fine": 1.0} if cells else {}
    return split_alpha(alpha, {"pits": 4.0, "descending": 0.5, "pairs": 0.5} | weights)


def output_shares(alpha: float) -> dict[str, float]:
    """Split a real model's share: ``pits`` in three orders hold the promised power.

    ``acceptance`` decides on whether it is the declared rule, the others on losslessness.
    """
    rest = {"pits": 4.0, "pairs": 1.0, "acceptance": 1.0}
    names = {"ratios": "likelihood ratios", "scores": "scores"}
    return split_alpha(alpha, _beside(rest) | {ours: BATTERY[x] for ours, x in names.items()})


def callable_shares(alpha: float) -> dict[str, float]:
    """Split an instance's share in an audit, over all of its looks.

    ``gate`` is the e-process of the named faults, asked at every look; ``ratios`` their test
    of fixed size at the last. ``joint`` are the laws of the first tokens together;
    ``acceptance`` is the rate against the optimum; ``optimality`` never decides.
    """
    rest = {**_OUTPUT, "joint": 2.0, "independence": 3.0, "acceptance": 1.0, "optimality": 1.0}
    half = BATTERY["likelihood ratios"] / 2
    ours = {"gate": half, "ratios": half, "scores": BATTERY["scores"]}
    return split_alpha(alpha, _beside(rest) | ours)


def _beside(rest: Mapping[str, float]) -> dict[str, float]:
    """Weights of ``rest`` that together are its part of the battery."""
    total = sum(rest.values())
    return {name: BATTERY["rest"] * weight / total for name, weight in rest.items()}
