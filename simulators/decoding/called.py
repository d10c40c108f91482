"""What calls of someone's own rule on a model leave behind: its law where it can be had, counts."""

from dataclasses import dataclass

from simverify.arrays import Ints
from simverify.simulators.features import Features


@dataclass(frozen=True)
class ExactCall:
    """The exact law of the tokens in ``scope``, against the target's.

    ``accepted``: E[tau]; ``uncertain``: by how much it may be off, for paths too light to be run.
    ``deviates``: whether the law is further from the target's than ``tolerance``, what the code's
    own precision explains.
    """

    scope: str
    accepted: float
    uncertain: float
    max_abs_deviation: float
    tv: float
    tolerance: float
    deviates: bool


@dataclass(frozen=True, eq=False)
class Called:
    """All that is kept of the calls of one rule on one model: no rows.

    ``accepted``: int64 (most+1,), how many first calls accepted 0, 1, ... tokens; ``features`` of
    the tokens that are judged, None where a call broke the contract before there were any.
    ``exact`` is None where the law cannot be written out. ``findings``: what the code did against
    its contract. ``seconds``: of the calls, on the wall.
    """

    accepted: Ints
    features: Features | None
    exact: ExactCall | None
    findings: tuple[str, ...]
    seconds: float
