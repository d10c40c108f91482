"""Repeated contexts: transition counts against the rows they were drawn from, pooled to a G2.

Given its total, a row of counts is multinomial. Its G2 is the deviance of independent
Poisson cells less the deviance of their total, so its cumulants are, but for terms of order
1/N^2, the sum of the cells' less that of the total.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from simverify.stats._checks import Floats, Ints, count_rows, probability_rows
from simverify.stats._checks import counts as check_counts
from simverify.stats.counts.deviance import MIN_EXPECTED, TwoCells, sum_of_cumulants
from simverify.stats.counts.g2 import G2, Pooled
from simverify.stats.counts.rare import RareTokens

MIN_LIKELIEST = 0.75
"""A pool whose likeliest token has this much of it has its other tokens counted as rare."""


def transition_g2(counts: Any, probabilities: Any) -> G2:
    """G2 of transition counts, conditional on the row totals.

    The cells of a row that expect fewer than 10 counts are pooled, in ascending order of
    probability, into cells that expect 10 or more; what is left joins the next cell. Pools
    depend on the probabilities and the row's total alone, never on its counts. Rows without
    two such cells are not tested: each is one pool as it stands. What moves within a pool is
    hidden; where one token has nearly all of its pool, :func:`rare_test` judges how often the
    others of it are drawn. Tokens of probability 0 are pooled like other rare ones;
    :func:`support_violations` is the test that sees a single one of them, and all that a row
    with a single possible token needs.

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
    layout = _Layout.of(totals, rows)
    sorted_counts = np.take_along_axis(array, layout.order, axis=1)
    observed = layout.pooled(sorted_counts)[layout.used]
    g2 = _null(layout, totals)
    two_cells = None
    if g2.df == 1:
        total = int(totals[layout.tested][0])
        two_cells = TwoCells(int(observed[0]), total, float(layout.means[0]) / total)
    rare = None
    if g2.rare is not None:
        rare = replace(g2.rare, count=int(sorted_counts[layout.rare].sum()))
    # Deviances of whole rows: sum O = sum E, so that the linear terms cancel.
    statistic = 2.0 * float(special.kl_div(observed, layout.means).sum())
    pooled = (Pooled(observed, layout.means),) if g2.df else ()
    return replace(g2, statistic=statistic, two_cells=two_cells, rare=rare, pooled=pooled)


def expected_g2(totals: Any, probabilities: Any) -> G2:
    """G2 of counts that are yet to be drawn: its null moments, with a statistic of 0.

    It plans: degrees of freedom, ``unresolved`` and ``rare`` follow from the row totals.

    Parameters
    ----------
    totals : int array (contexts,)
        Tokens to be emitted after each context.
    probabilities : float64 array (contexts, V)
        Target rows; each sums to 1 within 1e-9.

    Raises
    ------
    ValueError
        If there is no token, totals are negative or not integers, shapes differ, V < 2 or a
        row is no law.
    """
    array = check_counts("totals", totals, 1)
    rows = probability_rows("probabilities", probabilities)
    if len(array) != len(rows):
        raise ValueError(f"totals has shape {array.shape}, expected ({len(rows)},): one per row")
    if not array.any():
        raise ValueError("totals are all 0, expected at least one token: skip this slot")
    seen = array > 0
    return _null(_Layout.of(array[seen], rows[seen]), array[seen])


def _null(layout: "_Layout", totals: Ints) -> G2:
    """Everything about the G2 that the counts have no part in."""
    tested = totals[layout.tested].astype(np.float64)
    cumulants = sum_of_cumulants(layout.means) - sum_of_cumulants(tested)
    rare = None
    if layout.rare.any():
        rare = RareTokens(
            count=0,
            expected=float(layout.expected[layout.rare].sum()),
            n=int(totals[layout.rare.any(axis=1)].sum()),
            pooled=layout.led,
        )
    possible = (layout.expected > 0.0).sum(axis=1)
    whole = totals[~layout.tested & (possible > 1)].sum()
    return G2(
        statistic=0.0,
        cumulants=(float(cumulants[0]), float(cumulants[1]), float(cumulants[2])),
        df=int(layout.means.size - tested.size),
        n=int(totals.sum()),
        unresolved=float(layout.blurred + whole),
        rare=rare,
    )


@dataclass(frozen=True, eq=False)
class _Layout:
    """How the cells of rows with these totals are pooled; tokens in ascending probability.

    ``order`` int64 (rows, V); ``expected`` float64 (rows, V) in that order; ``flat`` int64
    (rows V,) the pool of each cell; ``used`` bool (rows, V) the pools that are tested and
    ``means`` float64 (cells,) what they expect; ``tested`` bool (rows,); ``rare`` bool (rows,
    V) the possible tokens that one other token of their pool outweighs by far, and ``led``
    the counts expected in their pools; ``blurred`` those in tested pools of several possible
    tokens.
    """

    order: Ints
    expected: Floats
    flat: Ints
    used: npt.NDArray[np.bool_]
    means: Floats
    tested: npt.NDArray[np.bool_]
    rare: npt.NDArray[np.bool_]
    led: float
    blurred: float

    @classmethod
    def of(cls, totals: Ints, rows: Floats) -> "_Layout":
        law = rows / rows.sum(axis=1, keepdims=True)
        order = np.argsort(rows, axis=1, kind="stable")
        expected = totals[:, None] * np.take_along_axis(law, order, axis=1)
        group, cells = _pools(expected)
        tested = cells >= 2
        group[~tested] = 0
        width = rows.shape[1]
        flat = (group + width * np.arange(len(rows))[:, None]).ravel()
        used = tested[:, None] & (np.arange(width) < cells[:, None])
        pooled = _sums(flat, expected)
        members = _sums(flat, expected > 0.0)
        # The last of its pool is its likeliest token: tokens ascend, and so do pools.
        last = np.append(np.diff(group, axis=1) > 0, np.ones((len(rows), 1), bool), axis=1)
        top = np.where(last, expected, 0.0)
        led = (members > 1) & (_sums(flat, top) >= MIN_LIKELIEST * pooled)
        rare = np.take_along_axis(led, group, axis=1) & ~last & (expected > 0.0)
        return cls(
            order,
            expected,
            flat,
            used,
            pooled[used],
            tested,
            rare,
            float(pooled[led].sum()),
            float(pooled[used & (members > 1)].sum()),
        )

    def pooled(self, values: npt.NDArray[Any]) -> Floats:
        """Sum ``values`` (rows, V), in the order of the cells, over each pool."""
        return _sums(self.flat, values)


def _sums(flat: Ints, values: npt.NDArray[Any]) -> Floats:
    sums = np.bincount(flat, values.ravel(), values.size)
    return np.asarray(sums, dtype=np.float64).reshape(values.shape)


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
    position = starts / np.where(pools > 0, step, 1.0)[:, None]
    # A large cell may start any number of steps out, too many for an integer.
    within = np.minimum(position, np.maximum(pools - 1, 0)[:, None]).astype(np.int64)
    beyond = pools[:, None] + index - small[:, None]
    group = np.where(index < small[:, None], within, beyond)
    large = width - small
    cells = np.where((large == 0) & (pools == 0), 0, pools + large)
    return group.astype(np.int64), cells
