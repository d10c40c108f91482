"""What a result says of shorter drafts: block efficiency and speed-up for gamma' up to gamma.

Every built-in rule accepts the first l drafted tokens with a probability that what is drafted
after them does not change: its closed form, ``tree_step``, knows no gamma. So the first
gamma' terms of Pr(tau >= l) are the curve of a draft of gamma' tokens, and their sum is its
E[tau] (of the first call, for a rule with state).
"""

from dataclasses import dataclass

from simverify.results import CompareResult
from simverify.simulators.latency import Load, predicted_speedup
from simverify.verifiers import VERIFIERS


@dataclass(frozen=True)
class Shorter:
    """One verifier at draft length ``gamma``: by its law, and by measured frequencies.

    ``accepted``: Pr(tau >= gamma).
    """

    gamma: int
    accepted: float
    measured_accepted: float
    block_efficiency: float
    speedup: float
    measured_efficiency: float
    measured_speedup: float


def curve(result: CompareResult) -> tuple[float, ...]:
    """Return Pr(tau >= l), l = 1..gamma, exact or in the middle of its bounds."""
    ccdf = result.acceptance_ccdf
    if ccdf.exact is not None:
        return ccdf.exact
    return tuple((low + high) / 2 for low, high in zip(ccdf.lower, ccdf.upper, strict=True))


def by_gamma(result: CompareResult) -> tuple[Shorter, ...]:
    """Return the result at every gamma' = 1..gamma.

    () for a rule that is not built in, or that judges several drafts.
    """
    rows = result.speedup.rows
    if result.verifier not in VERIFIERS or rows not in (None, result.gamma + 1):
        return ()
    cost = result.speedup.cost_ratio
    load = Load(result.speedup.batch_size, result.speedup.free_rows)
    law, measured = curve(result), result.acceptance_ccdf.measured
    points = []
    for gamma in range(1, result.gamma + 1):
        expected, mean = sum(law[:gamma]), sum(measured[:gamma])
        points.append(
            Shorter(
                gamma,
                law[gamma - 1],
                measured[gamma - 1],
                expected + 1,
                predicted_speedup(expected, gamma, cost, load),
                mean + 1,
                predicted_speedup(mean, gamma, cost, load),
            )
        )
    return tuple(points)
