"""Support: a token of probability 0 is a fault with certainty."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.stats._checks import count_rows


@dataclass(frozen=True)
class SupportResult:
    """Tokens of probability 0 that were emitted.

    ``tokens`` counts them all; ``first`` is the (context, token, count) of the lowest
    context and token among them, None if there are none.
    """

    tokens: int
    first: tuple[int, int, int] | None

    @property
    def rejected(self) -> bool:
        """Whether a token of probability 0 was seen: a fault with certainty, free of alpha."""
        return self.tokens > 0


def support_violations(counts: Any, probabilities: Any) -> SupportResult:
    """Find emitted tokens to which the target gives probability exactly 0.

    Parameters
    ----------
    counts : int array (contexts, V)
        Emitted tokens per context.
    probabilities : float64 array (contexts, V)
        The verifier's own target rows; each sums to 1.

    Raises
    ------
    ValueError
        If counts are negative or not integers, shapes differ, V < 2 or a row is no law.
    """
    array, rows = count_rows("counts", counts, probabilities)
    outside = (rows == 0.0) & (array > 0)
    if not outside.any():
        return SupportResult(0, None)
    context, token = (int(i) for i in np.unravel_index(int(outside.argmax()), outside.shape))
    return SupportResult(int(array[outside].sum()), (context, token, int(array[context, token])))
