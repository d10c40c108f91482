"""Repeated streams: the uniform behind an earlier token, used once more for a later one.

A token that is drawn by inversion says where its uniform lay: in the interval of its own mass.
Were the same uniform used again, the later token's interval, under its own row, would meet it.
"""

from typing import Any

import numpy as np

from simverify.stats.ratios.bets import BetSums, bet_sums

STREAM_SHARES = (0.9, 0.5, 0.2, 0.05)
"""Shares of repeated uniforms that are bet on."""


def stream_sums(earlier: Any, later: Any) -> BetSums:
    """Bet that the later token of each pair was drawn with the uniform of the earlier one.

    Given that the earlier uniform is uniform on the interval I of its token, a later token with
    the interval J has the chance abs(I and J) / abs(I) if it is used again, and abs(J) under its
    row. Pairs may overlap, and there may be any number of them.

    Parameters
    ----------
    earlier, later : float64 arrays (2, n)
        Ends of the intervals of two tokens in one order of the vocabulary, as
        :func:`pit_bounds` gives them; ``later`` is that of the token drawn after the other.

    Raises
    ------
    ValueError
        If shapes differ, n is 0 or an interval is not inside [0, 1].
    """
    first, second = (np.asarray(x, dtype=np.float64) for x in (earlier, later))
    if first.ndim != 2 or len(first) != 2 or first.shape != second.shape or not first.size:
        raise ValueError(f"earlier, later have shapes {first.shape}, {second.shape}, expected "
                         "(2, n), n >= 1")  # fmt: skip
    for ends in (first, second):
        if not ((ends >= 0.0) & (ends <= 1.0)).all() or (ends[0] > ends[1]).any():
            raise ValueError("an interval is not inside [0, 1], expected F(x-) and F(x)")
    width, own = first[1] - first[0], second[1] - second[0]
    both = np.maximum(np.minimum(first[1], second[1]) - np.maximum(first[0], second[0]), 0.0)
    # A token of no mass tells nothing of its uniform, or has no chance that could be compared.
    area = width * own
    tells = area > 0.0
    ratio = np.divide(both, area, out=np.ones_like(area), where=tells)
    most = np.divide(1.0, width, out=np.ones_like(area), where=tells)
    # The ends are sums of their own, off by an ulp or so.
    return bet_sums(
        "a repeated uniform", np.minimum(ratio, most), np.zeros_like(most), most,
        shares=STREAM_SHARES,
    )  # fmt: skip
