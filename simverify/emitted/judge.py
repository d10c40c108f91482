"""The tests of rescored tokens, all of them within a declared ball around the rescored rows.

The ball bounds the TV distance between the law that the engine sampled from and the rescored
row, on average over the contexts: what the engine's own rounding, and ours, may come to.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats
from simverify.battery.battery import score_moves
from simverify.battery.judgement import rejections
from simverify.emitted.evidence import SAME_TOKENS, OutputEvidence
from simverify.stats.pits.correlation import MIN_PAIRS

_LAGS = {"in a request": None, "neighbouring requests": 1, "requests two apart": 2}
_DELTA = 1e-3
_STAKE = 1e-3
"""What is bet on each pair of neighbours being a copy."""


@dataclass(frozen=True)
class Judged:
    """Tests and what follows: ``detectable`` and the certificate are of the judged tokens."""

    tests: tuple[stats.TestResult, ...]
    findings: tuple[str, ...]
    detectable: float
    deviation: str
    certificate: stats.Certificate


def plan_tokens(detect: float, alpha: float, ball: float, proxy: bool) -> int:
    """Return how many tokens find a deviation of ``detect`` with power .9."""
    each = _shares(alpha)["pits"] / (3 if proxy else 2)
    return stats.ks_samples(detect, alpha=each, bins=stats.PIT_BINS, ball=ball)


def detectable(planned: int, judged: int, alpha: float, ball: float, proxy: bool) -> float:
    """Return what ``judged`` tokens of ``planned`` find with power .9; the rest are fair draws."""
    each = _shares(alpha)["pits"] / (3 if proxy else 2)
    found = stats.ks_min_detectable(planned, alpha=each, bins=stats.PIT_BINS)
    return min(found * planned / judged + ball, 1.0)


def judge_evidence(
    found: OutputEvidence,
    planned: int,
    alpha: float,
    ball: float,
    seed: int,
    ball_from: str = "",
) -> Judged:
    """Judge the tokens at level ``alpha``; the certificate holds at 1 - ``_DELTA``.

    ``planned``: N as fixed beforehand. Where requests ended before, the PITs are filled up
    with fresh uniforms: the whole is N independent uniforms if the tokens are the target's,
    whenever they ended. ``ball_from``: what the certificate says of where the ball is from.
    """
    shares = _shares(alpha)
    pits = np.concatenate(found.pits, axis=1)
    spare = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 2, 0]))
    fill = spare.random((len(pits), planned - found.n))
    bins = [_histogram(np.concatenate(row)) for row in zip(pits, fill, strict=True)]
    each = shares["pits"] / len(bins)
    tests = [
        stats.pit_ks(histogram, alpha=each, ball=ball, name=f"PIT in {order} order")
        for order, histogram in zip(found.orders, bins, strict=True)
    ]
    tests += _score_tests(found, shares["scores"], ball)
    tests += _pair_tests(found, shares["pairs"], ball)
    findings = []
    if found.unsupported:
        findings.append(
            f"support: {found.unsupported} tokens emitted that truncation cuts off, by more than "
            f"a logit of {found.margin:.2g}"
        )
    findings += rejections(tests)
    proxy = len(found.orders) == 3
    words = "in token order, in descending P" + (" or in the proxy's q/p" if proxy else "")
    return Judged(
        tests=tuple(tests),
        findings=tuple(findings),
        detectable=detectable(planned, found.n, alpha, ball, proxy),
        deviation=f"mean one-token TV, monotone {words}, in the same direction in every context",
        certificate=_certificate(bins[-1], found, planned, ball, ball_from),
    )


def _shares(alpha: float) -> dict[str, float]:
    return stats.split_alpha(alpha, {"pits": 2.0, "scores": 1.0, "pairs": 1.0})


def _histogram(pits: Floats) -> npt.NDArray[np.int64]:
    bins = np.minimum((pits * stats.PIT_BINS).astype(np.int64), stats.PIT_BINS - 1)
    return np.bincount(bins, minlength=stats.PIT_BINS)


def _score_tests(found: OutputEvidence, alpha: float, ball: float) -> list[stats.TestResult]:
    each = alpha / (len(found.scores) + len(found.indicators))
    tests = []
    for name, sums in found.scores.items():
        if score_moves(sums):
            # A ball on average: the rows that are off may be those of the widest range.
            radius = min(ball * sums.n * sums.width / sums.ranges, 0.999)
            tests.append(
                stats.score_test(sums, alpha=each, ball=radius, name=f"score {name}")
            )  # fmt: skip
    for name, bits in found.indicators.items():
        if bits.variance > 0.0:
            tests.append(stats.indicator_test(bits, alpha=each, ball=ball, name=f"score {name}"))
    return tests


def _pair_tests(found: OutputEvidence, alpha: float, ball: float) -> list[stats.TestResult]:
    """Tokens that follow each other, and requests that share a stream or are copies."""
    each = alpha / (2 * len(_LAGS) + 2)
    tests = []
    for words, lag in _LAGS.items():
        for order in (0, 1):
            sums = _pairs([pits[order] for pits in found.pits], lag)
            if sums is not None and sums.n >= MIN_PAIRS:
                name = f"pairs, correlation {words}, {found.orders[order]} order"
                # Twice the ball, as the rows that are off may be those of extreme PITs.
                tests.append(
                    stats.pit_correlation(sums, alpha=each, ball=min(2 * ball, 0.999), name=name)
                )
    if found.same is not None and found.same.variance > 0.0:
        tests.append(
            stats.indicator_test(
                found.same, alpha=each, ball=ball, name="pairs, same token as the request before"
            )
        )
    if found.neighbours:
        tests.append(_copies_test(found, each, ball))
    return tests


def _pairs(pits: list[Floats], lag: int | None) -> stats.PairSums | None:
    """Pairs within each request, or at the same place of requests ``lag`` apart."""
    if lag is None:
        pairs = [(own[:-1], own[1:]) for own in pits]
    else:
        pairs = [(a[: len(b)], b[: len(a)]) for a, b in zip(pits, pits[lag:], strict=False)]
    if sum(len(first) for first, _ in pairs) == 0:
        return None
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return stats.pair_sums(first, second)


def _copies_test(found: OutputEvidence, alpha: float, ball: float) -> stats.TestResult:
    """Bet on copies: a request repeats the one before with the chance that its own rows give."""
    log_evalue = (found.neighbours - len(found.copies)) * math.log1p(-_STAKE)
    for chances in found.copies:
        log_chance = float(np.log(np.minimum(chances + ball, 1.0)).sum())
        log_evalue += float(np.logaddexp(math.log1p(-_STAKE), math.log(_STAKE) - log_chance))
    return stats.TestResult(
        name="pairs, copies of the request before",
        statistic=float(len(found.copies)),
        log_pvalue=min(0.0, -log_evalue),
        alpha=alpha,
        n=found.neighbours,
        df=None,
        method=f"e-value of requests that repeat the first {SAME_TOKENS} tokens of the one before",
        min_detectable=math.inf,
        deviation="copies",
    )


def _certificate(
    histogram: npt.NDArray[np.int64],
    found: OutputEvidence,
    planned: int,
    ball: float,
    ball_from: str,
) -> stats.Certificate:
    """Bound the TV from the rescored rows; fresh uniforms dilute it, the ball widens it."""
    bound = stats.monotone_certificate(histogram, delta=_DELTA)
    order = "q/p, q the proxy's" if len(found.orders) == 3 else "descending P"
    return replace(
        bound,
        bound=min(1.0, bound.bound * planned / found.n + ball),
        method=f"N/n 2 (K + sqrt(ln(2/delta) / 2N)) + ball, N = {planned}, n = {found.n}",
        assumption=f"P'/P is monotone in {order}, in the same direction in every context, and "
        f"the engine's own P lies within TV {ball:.2g} of the rescored rows on average{ball_from}; "
        "N fixed beforehand, requests in an order fixed before they were answered, none left out",
    )
