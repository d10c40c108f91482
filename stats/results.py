"""What every test returns."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

Direction = Literal["above", "below"]


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """One test of one null hypothesis.

    Attributes
    ----------
    name : str
        What was tested, in the caller's words.
    statistic : float
        Value of the statistic that ``method`` names.
    log_pvalue : float
        Natural logarithm of the p-value; finite and right where ``pvalue`` underflows to 0,
        -inf only for what the null hypothesis excludes.
    alpha : float
        Share of the run's false-alarm rate that this test spends.
    n : int
        Observations: emitted tokens, or blocks for the acceptance test.
    df : int or None
        Degrees of freedom, where the law has any.
    method : str
        The statistic and the law its tail is computed from.
    min_detectable : float
        Smallest deviation that is rejected with probability .9 at this ``n`` and ``alpha``;
        inf where ``n`` is too small to promise anything.
    deviation : str
        What ``min_detectable`` measures.
    level, direction : int, str or None
        Acceptance test alone: the level l of 1{tau >= l} with the smallest p-value, and the
        side of its bounds on which the observed rate lies (None when inside them).
    """

    # pytest collects classes named Test*.
    __test__: ClassVar[bool] = False

    name: str
    statistic: float
    log_pvalue: float
    alpha: float
    n: int
    df: int | None
    method: str
    min_detectable: float
    deviation: str
    level: int | None = None
    direction: Direction | None = None

    @property
    def pvalue(self) -> float:
        """The p-value; 0.0 below 1e-323, where ``log_pvalue`` still tells."""
        return math.exp(self.log_pvalue)

    @property
    def rejected(self) -> bool:
        """Whether the null hypothesis is rejected at ``alpha``."""
        return self.log_pvalue < math.log(self.alpha)
