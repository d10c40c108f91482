"""Repeated contexts: transition counts against the rows they were drawn from, pooled to a G2.

Given its total, a row of counts is multinomial. Its G2 is the deviance of independent
Poisson cells less the deviance of their total, so its cumulants are, but for terms of order
1/N^2, the sum of the cells' less that of the total.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from simverify.stats._checks import count_rows
from simverify.stats.cumulants import MIN_EXPECTED, sum_of_cumulants
from simverify.stats.g2 import G2, TwoCells

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def transition_g2(counts: Any, probabilities: Any) -> G2:
    """G2 of transition counts, conditional on the row totals.

    The cells of a row that expect fewer than 10 counts are pooled, in ascending order of
    probability, into cells that expect 10 or more; what is left joins the next cell. Pools
    depend on the probabilities and the row's total alone, never on its counts. Rows without
    two such cells are not tested. Tokens of probability 0 are pooled like other rare ones;
    :func:`support_violations` is the test that sees a single one of them.

    Parameters
    ----------
    counts : int array (contexts, V)
        Tokens emitted after each context, in one slot (the row totals may be random).
    probabilities : float64 array (contexts, V)
        Target rows; each sums to 1 within 1e-9.

    Raises
    ------
    ValueError
        If there is no token, counts are negative or not integers, shapes differ, V < 2 or a
        row is no law.
    """
    array, rows = count_rows("counts", counts, probabilities)
    n = int(array.sum())
    if n == 0:
        raise ValueError("counts are all 0, expected at least one token: skip this slot")
    seen = array.sum(axis=1) > 0
    array, rows = array[seen], rows[seen]
    totals = array.sum(axis=1)
    expected = totals[:, None] * (rows / rows.sum(axis=1, keepdims=True))

    order = np.argsort(rows, axis=1, kind="stable")
    sorted_expected = np.take_along_axis(expected, order, axis=1)
    group, cells = _pools(sorted_expected)
    tested = cells >= 2
    width = array.shape[1]
    flat = (group + width * np.arange(len(array))[:, None]).ravel()
    size = width * len(array)
    pooled_expected = np.bincount(flat, sorted_expected.ravel(), size).reshape(array.shape)
    sorted_counts = np.take_along_axis(array, order, axis=1)
    pooled_counts = np.bincount(flat, sorted_counts.ravel(), size).reshape(array.shape)
    members = np.bincount(flat, sorted_expected.ravel() > 0.0, size).reshape(array.shape)

    used = tested[:, None] & (np.arange(width) < cells[:, None])
    blurred = pooled_expected[used & (members > 1)].sum() + totals[~tested].sum()
    observed, means = pooled_counts[used], pooled_expected[used]
    # Deviances of whole rows: sum O = sum E, so that the linear terms cancel.
    statistic = 2.0 * float(special.kl_div(observed, means).sum())
    cumulants = sum_of_cumulants(means) - sum_of_cumulants(totals[tested].astype(np.float64))
    df = int(cells[tested].sum() - tested.sum())
    two_cells = None
    if df == 1:
        total = int(totals[tested][0])
        two_cells = TwoCells(int(observed[0]), total, float(means[0]) / total)
    return G2(
        statistic=statistic,
        cumulants=(float(cumulants[0]), float(cumulants[1]), float(cumulants[2])),
        df=df,
        n=n,
        unresolved=float(blurred),
        two_cells=two_cells,
    )


def _pools(expected: Floats) -> tuple[Ints, Ints]:
    """Find each cell's pool, numbered from 0, and count the pools of each row (0: too few tokens).

    ``expected`` float64 (rows, V), ascending in each row. The k cells below 10 are laid end
    to end and cut into B equal lengths of at least 10 plus the longest of them; each belongs
    to the length in which it starts, so that every pool holds at least 10.
    """
    width = expected.shape[1]
    index = np.arange(width)
    small = (expected < MIN_EXPECTED).sum(axis=1)
    ends = np.cumsum(expected, axis=1)
    starts = ends - expected
    row = np.arange(len(expected))
    length = np.where(small > 0, ends[row, small - 1], 0.0)
    longest = np.where(small > 0, expected[row, small - 1], 0.0)
    pools = np.maximum(np.floor(length / (MIN_EXPECTED + longest)), length >= MIN_EXPECTED)
    pools = pools.astype(np.int64)
    step = length / np.maximum(pools, 1)
    position = starts / np.where(step > 0.0, step, 1.0)[:, None]
    within = np.clip(position.astype(np.int64), 0, np.maximum(pools - 1, 0)[:, None])
    beyond = pools[:, None] + index - small[:, None]
    group = np.where(index < small[:, None], within, beyond)
    large = width - small
    cells = np.where((large == 0) & (pools == 0), 0, pools + large)
    return group.astype(np.int64), cells
