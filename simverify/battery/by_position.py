"""The output tier: emitted tokens of a real model, each against its own target row.

Contexts never repeat, so nothing is counted by context. All tokens are judged together, by
randomised PITs in three orders, scores and the likelihood ratios of named faults; N is fixed
beforehand. Scores and pairs of tokens are tested wherever tokens stream by with whole rows.
"""

from collections.abc import Iterator
from dataclasses import replace

from simverify import stats
from simverify.battery.battery import score_moves
from simverify.battery.judgement import Judgement, rejections
from simverify.battery.localise import Evidence, locate
from simverify.battery.naming import BETA, Named
from simverify.battery.shares import output_shares
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


DEVIATION = (
    "mean one-token TV, monotone in q/p, in token order or in descending P, in the same "
    "direction in every context"
)

_ORDERS = ("q/p", "token", "descending P")


def judge_output(found: Features, alpha: float) -> Judgement:
    """Judge the features of ``found.n`` emitted tokens at level ``alpha``."""
    shares = output_shares(alpha)
    findings = []
    if found.unsupported:
        findings.append(f"support: {found.unsupported} tokens of probability 0 emitted")
    gate = stats.ratio_gate(found.ratios, alpha=shares["ratios"], beta=BETA, name="named faults")
    pits = [
        stats.pit_ks(bins, alpha=_each(alpha), name=f"PIT in {order} order")
        for order, bins in zip(_ORDERS, found.pits, strict=True)
    ]
    alone = [gate.test, *pits, *feature_scores(found, shares["scores"])]
    pairs = list(feature_pairs(found, shares["pairs"]))
    tests = [*alone, *pairs]
    findings += rejections(tests)
    if findings and gate.best.log_evalue > 0.0:
        findings.append(
            f"of the named faults {gate.best.fault} at strength {gate.best.strength:g} fits best"
        )
    named = Named(gate.refuted, gate.not_refuted, None, 0.0)
    evidence = Evidence(
        independence=any(test.rejected for test in pairs),
        tokens=any(test.rejected for test in alone),
        lossy=False, by_slot=(), bonus=None, named=named,
    )  # fmt: skip
    return Judgement(
        tests=tuple(tests),
        findings=tuple(findings),
        detectable=output_detectable(found.n, alpha),
        deviation=DEVIATION,
        named=named,
        located=locate(evidence) if findings else None,
    )


def output_detectable(n: int, alpha: float) -> float:
    """Return the deviation that ``n`` tokens find with power .9."""
    return min(stats.ks_min_detectable(n, alpha=_each(alpha), bins=stats.PIT_BINS), 1.0)


def output_tokens(detect: float, alpha: float) -> int:
    """Return how many tokens find a deviation of ``detect`` with power .9."""
    return stats.ks_samples(detect, alpha=_each(alpha), bins=stats.PIT_BINS)


def certify_output(found: Features, delta: float) -> stats.Certificate:
    """Bound the mean one-token TV by the PITs in q/p order, with its assumption."""
    return stats.monotone_certificate(found.pits[0], delta=delta)


def _each(alpha: float) -> float:
    return output_shares(alpha)["pits"] / len(_ORDERS)
