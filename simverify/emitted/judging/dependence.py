"""Tests of tokens that follow each other, and of requests that share a stream or are copies."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.emitted.judging.evidence import OutputEvidence
from simverify.emitted.judging.repeats import SAME_TOKENS, log_evalue
from simverify.stats.pits.correlation import MIN_PAIRS

_LAGS = {"in a request": None, "neighbouring requests": 1, "requests two apart": 2}


def pair_tests(found: OutputEvidence, alpha: float, ball: float) -> list[stats.TestResult]:
    """Return the tests there are pairs for, at ``alpha`` in all."""
    each = alpha / (4 * len(_LAGS) + 3)
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
            bets = _streams([places[order] for places in found.places], lag)
            if bets is not None:
                tests.append(
                    stats.bet_test(
                        bets, alpha=each, ball=ball,
                        name=f"pairs, repeated stream {words}, {found.orders[order]} order",
                        deviation="share of tokens drawn with a uniform that was used before",
                    )
                )  # fmt: skip
    if found.same is not None and found.same.variance > 0.0:
        tests.append(
            stats.indicator_test(
                found.same, alpha=each, ball=ball, name="pairs, same token as the request before"
            )
        )
    if found.neighbours:
        chances = [float(np.log(np.minimum(own + ball, 1.0)).sum()) for own in found.copies]
        tests.append(_copies_test("the request before", found.neighbours, chances, each))
    if found.repeats.compared:
        chances = list(found.repeats.copies(ball))
        of = "an earlier answer to the prompt"
        tests.append(_copies_test(of, found.repeats.compared, chances, each))
    return tests


def not_run(found: OutputEvidence) -> Iterator[str]:
    """Say which of the tests had too little to go by."""
    for words, lag in _LAGS.items():
        sums = _pairs([pits[0] for pits in found.pits], lag)
        n = 0 if sums is None else sums.n
        if n < MIN_PAIRS:
            rest = " and of a repeated stream" if n == 0 else ""
            yield f"test of correlation{rest} ({words}): {n:,} pairs, it takes {MIN_PAIRS:,}"
    if not found.neighbours:
        yield "tests against the request before: there is one request"


def _paired(parts: Sequence[Floats], lag: int | None) -> tuple[Floats, Floats] | None:
    """Pairs within each request, or at the same place of requests ``lag`` apart; (..., n) each."""
    if lag is None:
        pairs = [(own[..., :-1], own[..., 1:]) for own in parts]
    else:
        pairs = [
            (a[..., : b.shape[-1]], b[..., : a.shape[-1]])
            for a, b in zip(parts, parts[lag:], strict=False)
        ]
    if sum(first.shape[-1] for first, _ in pairs) == 0:
        return None
    first, second = (np.concatenate(side, axis=-1) for side in zip(*pairs, strict=True))
    return first, second


def _pairs(pits: Sequence[Floats], lag: int | None) -> stats.PairSums | None:
    pairs = _paired(pits, lag)
    return None if pairs is None else stats.pair_sums(*pairs)


def _streams(places: Sequence[Floats], lag: int | None) -> stats.BetSums | None:
    pairs = _paired(places, lag)
    return None if pairs is None else stats.stream_sums(*pairs)


def _copies_test(
    of: str, compared: int, chances: Sequence[float], alpha: float
) -> stats.TestResult:
    """Bet on copies, of which each had the log chance that its rows give."""
    return stats.TestResult(
        name=f"pairs, copies of {of}",
        statistic=float(len(chances)),
        log_pvalue=min(0.0, -log_evalue(compared, chances)),
        alpha=alpha,
        n=compared,
        df=None,
        method=f"e-value of requests that repeat the first {SAME_TOKENS} tokens of {of}",
        min_detectable=math.inf,
        deviation="copies",
    )
