"""The two small models on which every law is known as a fraction."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from simverify.models.base import MarkovModel, RationalRows

Fractions = Sequence[Fraction]


def rational_markov(
    name: str,
    target_start: Fractions,
    target_rows: Sequence[Fractions],
    draft_start: Fractions,
    draft_rows: Sequence[Fractions],
) -> MarkovModel:
    """Markov model from fractions; the float rows are their rounded values."""
    rational = RationalRows(
        tuple(target_start),
        tuple(map(tuple, target_rows)),
        tuple(draft_start),
        tuple(map(tuple, draft_rows)),
    )
    return MarkovModel(
        name,
        np.array(target_start, dtype=np.float64),
        np.array(target_rows, dtype=np.float64),
        np.array(draft_start, dtype=np.float64),
        np.array(draft_rows, dtype=np.float64),
        rational,
    )


def toy() -> MarkovModel:
    """Sun et al. 2025, section 2: independent tokens, p = (1/3, 2/3), q = (2/3, 1/3).

    Its residuals are point masses and its h_i are 0 or 1, so it is blind to many faults.
    """
    p = [Fraction(1, 3), Fraction(2, 3)]
    q = [Fraction(2, 3), Fraction(1, 3)]
    return rational_markov("toy", p, [p], q, [q])


def compact() -> MarkovModel:
    """Three tokens, order-1 Markov, in twelfths: small, and it exposes every fault tried."""

    def twelfths(*numerators: int) -> list[Fraction]:
        return [Fraction(n, 12) for n in numerators]

    return rational_markov(
        "compact",
        twelfths(5, 1, 6),
        [twelfths(6, 3, 3), twelfths(4, 2, 6), twelfths(3, 3, 6)],
        twelfths(6, 2, 4),
        [twelfths(5, 6, 1), twelfths(2, 9, 1), twelfths(4, 6, 2)],
    )
