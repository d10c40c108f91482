"""The features of tokens counted in repeated contexts: everything from the counts.

The work is that of the table, not of the tokens; only the PITs are drawn one by one, and the
scores keep their exact laws.
"""

from typing import Any

import numpy as np

from simverify import stats
from simverify.faults import get_fault
from simverify.simulators.features import ORDERS, Features, Floats
from simverify.simulators.kernels.rows import features as kernel
from simverify.simulators.kernels.rows.row_sums import RARE
from simverify.stats.counts.independence import PIT_CELLS


class ContextLaws:
    """Rows of contexts that tokens are counted in, and what tests read from them.

    Make it once for a run: sums that share it keep the laws once.

    Parameters
    ----------
    p, q : float64 array (contexts, V)
        Target and draft row of each context; every row sums to 1 within 1e-9. Where no draft
        is judged ``q`` may be any row, such as ``p``.
    judged : bool
        Whether tokens of these contexts were judged with ``q``; False for bonus tokens.

    Raises
    ------
    ValueError
        If shapes differ, V < 2 or a row is no law.
    """

    def __init__(self, p: Any, q: Any, *, judged: bool) -> None:
        self.p = np.ascontiguousarray(p, dtype=np.float64)
        self.q = np.ascontiguousarray(q, dtype=np.float64)
        self.below = np.stack([_mass_before(self.p, self.q, order) for order in ORDERS])
        self.above = stats.q_above_p(self.p, self.q)
        self.rare = tuple(stats.rare_token(self.p, below=level) for level in RARE)
        self.accept = stats.accept(self.p, self.q)
        self.contrast = stats.contrast(self.p, self.q)
        self.surprise = stats.surprise(self.p)
        laws = [get_fault(name).law for name in kernel.FAULTS]
        # A call of one slot, or of none, whose first token is then the bonus.
        drafts = self.q[:, None] if judged else self.q[:, None][:, :0]
        self.faults = np.array(
            [[law(a[None], b, ()) for a, b in zip(self.p, drafts, strict=True)]
             for law in laws if law is not None]
        )  # fmt: skip


def features_of_counts(
    counts: Any, laws: ContextLaws, *, seed: int, first: int = 0
) -> Features:  # fmt: skip
    """Sum up the features of tokens counted per context.

    Parameters
    ----------
    counts : int array (contexts, V)
        Emitted tokens per context, one at least in all; their number fixed beforehand.
    laws : ContextLaws
        The rows of the contexts.
    seed, first : int
        Address of the draws that randomise the PITs: cell n of the table, row by row, takes
        trial ``first + n``. Tables of one run need ranges that do not overlap.

    Raises
    ------
    ValueError
        If counts are negative, no integers, all 0 or of another shape.
    """
    scores = {
        name: stats.score_sums_of_contexts(counts, laws.p, getattr(laws, name))
        for name in ("accept", "contrast", "surprise")
    }
    table = np.ascontiguousarray(counts, dtype=np.int64)
    pits = np.zeros((len(ORDERS), stats.PIT_BINS), np.int64)
    kernel.scatter(table, laws.below, laws.p, np.uint64(seed), first, pits)
    return Features(
        n=int(table.sum()),
        unsupported=int(table[laws.p == 0.0].sum()),
        pits=pits,
        q_above_p=stats.indicator_sums_of_contexts(table, laws.p, laws.above),
        rare=tuple(stats.indicator_sums_of_contexts(table, laws.p, rare) for rare in laws.rare),
        ratios=stats.ratio_sums(table, laws.p, laws.faults, names=kernel.FAULTS),
        pairs=stats.PairSums(n=0, products=0.0, spreads=0.0),
        pair_table=np.zeros((PIT_CELLS, PIT_CELLS), np.int64),
        **scores,
    )


def _mass_before(p: Floats, q: Floats, order: Any) -> Floats:
    """Mass of the tokens before each in the order, float64 (contexts, V)."""
    places = np.argsort(stats.order_key(order, p, q), axis=1, kind="stable")
    ranked = np.take_along_axis(p, places, axis=1)
    below = np.empty_like(p)
    np.put_along_axis(below, places, np.cumsum(ranked, axis=1) - ranked, axis=1)
    return np.minimum(below, 1.0)
