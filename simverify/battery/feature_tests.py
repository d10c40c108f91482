"""Tests of streamed tokens that every run with whole rows makes: scores, and pairs of tokens."""

from collections.abc import Iterator
from dataclasses import replace

from simverify import stats
from simverify.battery.battery import score_moves
from simverify.simulators.features import Features
from simverify.simulators.kernels.rows.row_sums import RARE
from simverify.stats.counts.independence import MIN_TABLE
from simverify.stats.pits.correlation import MIN_PAIRS

_SCORES = {"accept": "min(1, q/p)", "contrast": "(q-p)/(q+p)", "surprise": "-log p"}


def feature_scores(found: Features, alpha: float) -> Iterator[stats.TestResult]:
    """Test every score over all slots."""
    marks = {"q > p": found.q_above_p}
    marks |= {f"p < {level:g}": sums for level, sums in zip(RARE, found.rare, strict=True)}
    each = alpha / (len(_SCORES) + len(marks))
    for field, name in _SCORES.items():
        sums = getattr(found, field)
        if score_moves(sums):
            yield stats.score_test(sums, alpha=each, name=f"score {name}")
    for name, bits in marks.items():
        if bits.variance > 0.0:
            yield stats.indicator_test(bits, alpha=each, name=f"score {name}")


def feature_pairs(found: Features, alpha: float) -> Iterator[stats.TestResult]:
    """Test tokens that follow each other, within a trial and from one trial to the next."""
    if found.pairs.n >= MIN_PAIRS:
        yield stats.pit_correlation(found.pairs, alpha=alpha / 2.0, name="pairs, correlation")
    if found.pair_table.sum() >= MIN_TABLE:
        table = stats.pit_table_g2(found.pair_table)
        test = stats.g2_test(table, alpha=alpha / 2.0, name="pairs, 8 x 8 cells")
        yield replace(test, deviation="TV of pairs of PITs")
