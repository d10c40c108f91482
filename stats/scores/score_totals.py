"""What is kept of a score: its sum, and the sums of its moments under P.

Constant memory in the number of tokens, and shards add. Sums built from repeated contexts
also keep the law of each context, from which the whole law of the sum follows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.stats._checks import Floats, count_rows, positive_float
from simverify.stats.scores.functions import centre, score_moments, scores_iv


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreTable:
    """Laws of a score in repeated contexts.

    Attributes
    ----------
    totals : float64 array (contexts,)
        Tokens emitted in each context.
    rows, scores : float64 array (contexts, V)
        Law of the token, and its score.
    """

    totals: Floats
    rows: Floats
    scores: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreSums:
    """Sums over tokens of a score and its moments; those of disjoint samples add up.

    Rows and scores of repeated contexts are kept, not copied: leave them as they are.

    Attributes
    ----------
    n : int
        Tokens.
    deviation : float
        Sum of the scores less their expectations under P.
    variance, third, fourth : float
        Sums of the conditional central moments under P.
    ranges : float
        Sum of the conditional ranges, max less min over the support of P.
    width : float
        No conditional range exceeds it; declared beforehand.
    tables : tuple of ScoreTable or None
        The laws themselves; None if a part of the tokens was streamed.
    """

    n: int
    deviation: float
    variance: float
    third: float
    fourth: float
    ranges: float
    width: float
    tables: tuple[ScoreTable, ...] | None = None

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        return ScoreSums(
            n=self.n + other.n,
            deviation=self.deviation + other.deviation,
            variance=self.variance + other.variance,
            third=self.third + other.third,
            fourth=self.fourth + other.fourth,
            ranges=self.ranges + other.ranges,
            width=max(self.width, other.width),
            tables=_joined(self.tables, other.tables),
        )


def _joined(
    first: tuple[ScoreTable, ...] | None, second: tuple[ScoreTable, ...] | None
) -> tuple[ScoreTable, ...] | None:
    """Tables of both; the same contexts, as the shards of a run have them, are kept once."""
    if first is None or second is None:
        return None
    tables = list(first)
    for new in second:
        for i, old in enumerate(tables):
            if new.rows is old.rows and new.scores is old.scores:
                totals = old.totals + new.totals
                tables[i] = ScoreTable(totals=totals, rows=old.rows, scores=old.scores)
                break
        else:
            tables.append(new)
    return tuple(tables)


def score_sums_of_contexts(counts: Any, rows: Any, scores: Any) -> ScoreSums:
    """Sum up the scores of tokens counted per context.

    Parameters
    ----------
    counts : int array (contexts, V)
        Emitted tokens per context.
    rows : float64 array (contexts, V)
        Target rows; each sums to 1. Shards that pass the very same array keep it once.
    scores : float64 array (contexts, V)
        Finite scores of the tokens.

    Raises
    ------
    ValueError
        If there is no token, counts are negative or not integers, shapes differ, V < 2, a row
        is no law or a score is not finite.
    """
    array, law = count_rows("counts", counts, rows)
    law, values = scores_iv(law, scores, 2)
    n = int(array.sum())
    if n == 0:
        raise ValueError("counts are all 0, expected at least one token: skip this slot")
    moments = score_moments(law, values)
    totals = array.sum(axis=1).astype(np.float64)
    widths = moments.high - moments.low
    return ScoreSums(
        n=n,
        deviation=float((array * centre(law, values)).sum()),
        variance=float(totals @ moments.variance),
        third=float(totals @ moments.third),
        fourth=float(totals @ moments.fourth),
        ranges=float(totals @ widths),
        width=float(widths.max()),
        tables=(ScoreTable(totals=totals, rows=law, scores=values),),
    )


def score_sums(
    score: Any, *, mean: Any, variance: Any, third: Any, fourth: Any, low: Any, high: Any,
    width: float,
) -> ScoreSums:  # fmt: skip
    """Sum up the scores of single tokens, each with its own law.

    Parameters
    ----------
    score : float64 array (n,)
        Score of the emitted token; n fixed beforehand.
    mean, variance, third, fourth, low, high : float64 array (n,)
        Moments of the score given all that came before, as :class:`ScoreMoments` has them.
    width : float
        No ``high - low`` exceeds it, whatever the contexts: 1 for ``accept``, 2 for
        ``contrast``, the cap for ``surprise``.

    Raises
    ------
    ValueError
        If shapes differ, n is 0, a number is not finite, a variance or fourth moment is
        negative, a range exceeds ``width`` or ``width`` is not positive.
    """
    parts = {"score": score, "mean": mean, "variance": variance, "third": third,
             "fourth": fourth, "low": low, "high": high}  # fmt: skip
    arrays = {name: np.asarray(part, dtype=np.float64) for name, part in parts.items()}
    shape = arrays["score"].shape
    for name, array in arrays.items():
        if array.ndim != 1 or array.shape != shape or array.size == 0:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape} = (n,), n >= 1")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is NaN or infinite somewhere, expected finite numbers")
    if min(arrays["variance"].min(), arrays["fourth"].min()) < 0.0:
        raise ValueError("a variance or fourth moment is negative, expected central moments")
    width = positive_float("width", width)
    widths = arrays["high"] - arrays["low"]
    if widths.min() < 0.0 or widths.max() > width * (1.0 + 1e-9):
        raise ValueError(
            f"high - low spans {widths.min():g}..{widths.max():g}, expected 0..width = {width:g}"
        )
    return ScoreSums(
        n=shape[0],
        deviation=float((arrays["score"] - arrays["mean"]).sum()),
        variance=float(arrays["variance"].sum()),
        third=float(arrays["third"].sum()),
        fourth=float(arrays["fourth"].sum()),
        ranges=float(widths.sum()),
        width=width,
    )
