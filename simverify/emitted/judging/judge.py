"""The tests of rescored tokens, all of them within a declared ball around the rescored rows.

The ball bounds the TV distance between the law that the engine sampled from and the rescored
row, on average over the contexts: what the engine's own rounding, and ours, may come to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats
from simverify.battery.battery import score_moves
from simverify.battery.judgement import rejections
from simverify.emitted.judging.dependence import pair_tests
from simverify.emitted.judging.evidence import OutputEvidence
from simverify.emitted.judging.looks import looks_test

_DELTA = 1e-3


@dataclass(frozen=True)
class Ball:
    """What the tests allow for: ``tv``, and where it was measured what it came to in each test.

    ``moved``: by the name of a test of a mean, the mean over contexts of how far its row moved
    what it sums up; of a test that is not there the whole of ``tv`` may count.
    """

    tv: float
    moved: Mapping[str, float]

    def of(self, name: str, unit: float) -> float:
        """Return the radius of the test ``name``, whose mean moves by ``unit`` at a TV of 1."""
        own = self.moved.get(name)
        return self.tv if own is None or unit <= 0.0 else min(self.tv, own / unit)


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
    each = shares_of(alpha)["pits"] / (3 if proxy else 2)
    return stats.ks_samples(detect, alpha=each, bins=stats.PIT_BINS, ball=ball)


def detectable(planned: int, judged: int, alpha: float, ball: float, proxy: bool) -> float:
    """Return what ``judged`` tokens of ``planned`` find with power .9; the rest are fair draws."""
    each = shares_of(alpha)["pits"] / (3 if proxy else 2)
    found = stats.ks_min_detectable(planned, alpha=each, bins=stats.PIT_BINS)
    return min(found * planned / judged + ball, 1.0)


def judge_evidence(
    found: OutputEvidence,
    planned: int,
    alpha: float,
    ball: Ball,
    seed: int,
    ball_from: str = "",
) -> Judged:
    """Judge the tokens at level ``alpha``; the certificate holds at 1 - ``_DELTA``.

    ``planned``: N as fixed beforehand. Where requests ended before, the PITs are filled up
    with fresh uniforms: the whole is N independent uniforms if the tokens are the target's,
    whenever they ended. ``ball_from``: what the certificate says of where the ball is from.
    """
    shares = shares_of(alpha)
    pits = np.concatenate(found.pits, axis=1)
    spare = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 2, 0]))
    fill = spare.random((len(pits), planned - found.n))
    bins = [_histogram(np.concatenate(row)) for row in zip(pits, fill, strict=True)]
    each = shares["pits"] / len(bins)
    tests = []
    for order, histogram in zip(found.orders, bins, strict=True):
        name = f"PIT in {order} order"
        tests.append(stats.pit_ks(histogram, alpha=each, ball=ball.of(name, 1.0), name=name))
    tests += _score_tests(found, shares["scores"], ball)
    tests += pair_tests(found, shares["pairs"], ball.tv)
    tests += _bet_tests(found, shares, ball.tv)
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
        detectable=detectable(planned, found.n, alpha, ball.tv, proxy),
        deviation=f"mean one-token TV, monotone {words}, in the same direction in every context",
        certificate=_certificate(bins[-1], found, planned, ball.tv, ball_from),
    )


def shares_of(alpha: float) -> dict[str, float]:
    """Split a run's alpha: tests at the fixed N, and "looks", the e-process that may end it."""
    parts = {"pits": 3.0, "scores": 1.0, "pairs": 1.0}
    bets = dict.fromkeys(("weights", "rates", "reported", "looks"), 0.25)
    return stats.split_alpha(alpha, parts | bets)


def _histogram(pits: Floats) -> npt.NDArray[np.int64]:
    bins = np.minimum((pits * stats.PIT_BINS).astype(np.int64), stats.PIT_BINS - 1)
    return np.bincount(bins, minlength=stats.PIT_BINS)


def _score_tests(found: OutputEvidence, alpha: float, ball: Ball) -> list[stats.TestResult]:
    each = alpha / (len(found.scores) + len(found.indicators))
    tests = []
    for own, sums in found.scores.items():
        name = f"score {own}"
        if score_moves(sums):
            # A ball on average: the rows that are off may be those of the widest range.
            radius = min(ball.tv * sums.n * sums.width / sums.ranges, 0.999)
            radius = min(radius, ball.of(name, sums.ranges / sums.n))
            tests.append(stats.score_test(sums, alpha=each, ball=radius, name=name))
    for own, bits in found.indicators.items():
        name = f"score {own}"
        if bits.variance > 0.0:
            radius = ball.of(name, 1.0)
            tests.append(stats.indicator_test(bits, alpha=each, ball=radius, name=name))
    return tests


def _bet_tests(
    found: OutputEvidence, shares: Mapping[str, float], ball: float
) -> list[stats.TestResult]:
    """Deviations of all tokens at once: weights that were rounded, and rates that are learned."""
    tests = []
    said = found.reported.said(shares["reported"])
    if said is not None and said.tells:
        radius = max(ball, found.reported.allowed)
        tests.append(said.test(shares["reported"], radius))
    if found.weights is not None:
        tests.append(
            stats.bet_test(
                found.weights, alpha=shares["weights"], ball=ball,
                name="weights, rounded to few bits",
                deviation="share of the law of rounded weights",
            )
        )  # fmt: skip
    if found.rates.sums is not None:
        tests.append(
            stats.bet_test(
                found.rates.sums, alpha=shares["rates"], ball=ball, name="rates of single tokens",
                deviation="rates of single tokens, in all contexts alike",
            )
        )  # fmt: skip
    tests.append(looks_test(found.snapshots, alpha=shares["looks"], ball=ball))
    return tests


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
        assumption=f"P'/P is monotone in {order}, in the same direction in every context, which "
        f"one token a context cannot show, and the engine's own P lies within TV {ball:.2g} of the "
        f"rescored rows on average{ball_from}; "
        "N fixed beforehand, requests in an order fixed before they were answered, none left out",
    )
