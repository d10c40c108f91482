"""The tests of rescored tokens, within a declared distance of the rescored rows, and their notes.

The row tolerance bounds the TV distance between the law that the engine sampled from and the
rescored row, on average over the contexts: what the engine's own rounding, and ours, may come to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

from simverify import results as doc
from simverify import stats
from simverify.arrays import Floats
from simverify.battery.battery import pvalue_words, rejection_findings, score_can_vary
from simverify.checks import MIN_ALPHA, MIN_DETECT, check_ranges
from simverify.errors import UsageError
from simverify.models.transformer import TransformerPair
from simverify.served.evidence import (
    REPORTED_TEST_NAME,
    LogprobKind,
    OutputEvidence,
    cdf_distances,
    centred_features,
    logit_spread,
    looks_test,
    pair_tests,
    skipped_tests,
)
from simverify.served.requests import Request, limit_tokens, retokenise
from simverify.served.rescore import rescore_in_other_precision, tv_distances

_DELTA = 1e-3


@dataclass(frozen=True)
class RowTolerance:
    """What the tests allow for: ``tv``, and where it was measured what it came to in each test.

    ``moved``: by the name of a test of a mean, the mean over contexts of how far its row moved
    what it sums up; of a test that is not there the whole of ``tv`` may count.
    """

    tv: float
    moved: Mapping[str, float]

    def of(self, name: str, unit: float) -> float:
        """Return the radius of the test ``name``, whose mean moves by ``unit`` at a TV of 1."""
        radius = self.moved.get(name)
        return self.tv if radius is None or unit <= 0.0 else min(self.tv, radius / unit)


@dataclass(frozen=True)
class OutputTestReport:
    """Tests and what follows: ``detectable`` and the certificate are of the judged tokens."""

    tests: tuple[stats.TestResult, ...]
    findings: tuple[str, ...]
    detectable: float
    deviation: str
    certificate: stats.Certificate


def plan_tokens(detect: float, alpha: float, ball: float, proxy: bool) -> int:
    """Return how many tokens find a deviation of ``detect`` with power .9."""
    each = split_output_alpha(alpha)["pits"] / (3 if proxy else 2)
    return stats.ks_samples(detect, alpha=each, bins=stats.PIT_BINS, ball=ball)


def detectable_deviation(
    planned: int, judged: int, alpha: float, ball: float, proxy: bool
) -> float:
    """Return what ``judged`` tokens of ``planned`` find with power .9; the rest are fair draws."""
    each = split_output_alpha(alpha)["pits"] / (3 if proxy else 2)
    distance = stats.ks_min_detectable(planned, alpha=each, bins=stats.PIT_BINS)
    return min(distance * planned / judged + ball, 1.0)


def judge_evidence(
    found: OutputEvidence,
    planned: int,
    alpha: float,
    ball: RowTolerance,
    seed: int,
    ball_from: str = "",
) -> OutputTestReport:
    """Judge the tokens at level ``alpha``; the certificate holds at 1 - ``_DELTA``.

    ``planned``: N as fixed beforehand. Where requests ended before, the PITs are filled up
    with fresh uniforms: the whole is N independent uniforms if the tokens are the target's,
    whenever they ended. ``ball_from``: what the certificate says of where the ball is from.
    """
    shares = split_output_alpha(alpha)
    pits = np.concatenate(found.pits, axis=1)
    spare = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 2, 0]))
    fill = spare.random((len(pits), planned - found.n))
    bins = [_pit_histogram(np.concatenate(row)) for row in zip(pits, fill, strict=True)]
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
    findings += rejection_findings(tests)
    proxy = len(found.orders) == 3
    words = "in token order, in descending P" + (" or in the proxy's q/p" if proxy else "")
    return OutputTestReport(
        tests=tuple(tests),
        findings=tuple(findings),
        detectable=detectable_deviation(planned, found.n, alpha, ball.tv, proxy),
        deviation=f"mean one-token TV, monotone {words}, in the same direction in every context",
        certificate=_output_certificate(bins[-1], found, planned, ball.tv, ball_from),
    )


def split_output_alpha(alpha: float) -> dict[str, float]:
    """Split a run's alpha: tests at the fixed N, and "looks", the e-process that may end it."""
    parts = {"pits": 3.0, "scores": 1.0, "pairs": 1.0}
    bets = dict.fromkeys(("weights", "rates", "reported", "looks"), 0.25)
    return stats.split_alpha(alpha, parts | bets)


def _pit_histogram(pits: Floats) -> npt.NDArray[np.int64]:
    bins = np.minimum((pits * stats.PIT_BINS).astype(np.int64), stats.PIT_BINS - 1)
    return np.bincount(bins, minlength=stats.PIT_BINS)


def _score_tests(found: OutputEvidence, alpha: float, ball: RowTolerance) -> list[stats.TestResult]:
    each = alpha / (len(found.scores) + len(found.indicators))
    tests = []
    for score, sums in found.scores.items():
        name = f"score {score}"
        if score_can_vary(sums):
            # A ball on average: the rows that are off may be those of the widest range.
            radius = min(ball.tv * sums.n * sums.width / sums.ranges, 0.999)
            radius = min(radius, ball.of(name, sums.ranges / sums.n))
            tests.append(stats.score_test(sums, alpha=each, ball=radius, name=name))
    for score, bits in found.indicators.items():
        name = f"score {score}"
        if bits.variance > 0.0:
            radius = ball.of(name, 1.0)
            tests.append(stats.indicator_test(bits, alpha=each, ball=radius, name=name))
    return tests


def _bet_tests(
    found: OutputEvidence, shares: Mapping[str, float], ball: float
) -> list[stats.TestResult]:
    """Deviations of all tokens at once: weights that were rounded, and rates that are learned."""
    tests = []
    reported = found.reported.said(shares["reported"])
    if reported is not None and reported.tells:
        radius = max(ball, found.reported.allowed)
        tests.append(reported.test(shares["reported"], radius))
    if found.weights is not None:
        tests.append(
            stats.bet_test(
                found.weights,
                alpha=shares["weights"],
                ball=ball,
                name="weights, rounded to few bits",
                deviation="share of the law of rounded weights",
            )
        )
    if found.rates.sums is not None:
        tests.append(
            stats.bet_test(
                found.rates.sums,
                alpha=shares["rates"],
                ball=ball,
                name="rates of single tokens",
                deviation="rates of single tokens, in all contexts alike",
            )
        )
    tests.append(looks_test(found.snapshots, alpha=shares["looks"], ball=ball))
    return tests


def _output_certificate(
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


# The shape of rounding: another precision is tried on the tokens, and the deviation compared.
#
# Rounding moves a logit up as often as down, the more the wider the logits lie apart, so its effect
# on a score mostly cancels in the mean. The effect is measured, by rows in the other precision, in
# groups of tokens by the spread of their logits; the engine is held against that.


ROUNDING_TOKENS = 1024  # First tokens that are scored in the other precision
ROUNDING_ALPHA = 1e-3  # Rate at which rounding is said to be none
_SPREAD_GROUPS = 4
_MIN_GROUP_TOKENS, _MIN_VARIANCE_TERMS = 30, 5.0
"""Tokens of a group at least, in both samples, and its variance in units of its largest term: for
means that are nearly normal."""


@dataclass(frozen=True, eq=False)
class PrecisionTrial:
    """What another precision did to the tokens on which it was tried, ``tokens`` of them.

    ``tv``: mean TV distance of the rows. ``shift``: by how much a token's log-probability moved
    at most. ``moved``: float64 (n,) by name of a test, by how much the mean moved of what it
    sums up; ``reach``: by name, how far on average, whichever way. ``spreads``: float64 (n,),
    standard deviation of the rows' logits.
    """

    tokens: int
    tv: float
    shift: float
    moved: dict[str, Floats]
    reach: dict[str, float]
    spreads: Floats


def measure_rounding(kept: Sequence[Request], pair: TransformerPair, proxy: bool) -> PrecisionTrial:
    """Score the first tokens in float32 too, or in bfloat16 where the target is in float32."""
    movements: dict[str, list[Floats]] = {}
    reach: dict[str, list[Floats]] = {}
    off, spreads, shift = [], [], 0.0
    for scored, rows, moves in rescore_in_other_precision(
        limit_tokens(kept, ROUNDING_TOKENS), pair, proxy
    ):
        for name, table in centred_features(scored.p_again, scored.p, scored.q).items():
            movements.setdefault(name, []).append((rows * table).sum(axis=1))
        for name, values in cdf_distances(scored.p_again, scored.p, scored.q, rows).items():
            reach.setdefault(name, []).append(values)
        off.append(tv_distances(scored.p, rows))
        spreads.append(logit_spread(scored.p_again))
        shift = max(shift, float(moves.max()))
    every = {name: np.concatenate(own) for name, own in movements.items()}
    means = {name: float(np.abs(own).mean()) for name, own in every.items()}
    return PrecisionTrial(
        tokens=sum(map(len, off)),
        tv=float(np.concatenate(off).mean()),
        shift=shift,
        moved=every,
        reach=means | {name: float(np.concatenate(own).mean()) for name, own in reach.items()},
        spreads=np.concatenate(spreads),
    )


def rounding_drift_test(
    names: Sequence[str], found: OutputEvidence, rounding: PrecisionTrial
) -> stats.TestResult | None:
    """Test that rounding moved the means of the tests ``names``; None where too few tokens tell.

    Of several the worst is returned, each at its part of ``ROUNDING_ALPHA``. Names of tests that
    are not of a mean tell nothing.
    """
    names = [name for name in names if name in found.deviations]
    spreads = np.concatenate(found.spreads)
    edges = np.quantile(rounding.spreads, np.arange(1, _SPREAD_GROUPS) / _SPREAD_GROUPS)
    groups, rounding_groups = (
        np.searchsorted(edges, spreads),
        np.searchsorted(edges, rounding.spreads),
    )
    results = []
    for name in names:
        off, variance = np.concatenate(found.deviations[name], axis=1)
        cells = [
            _group_means(
                off[groups == g], variance[groups == g], rounding.moved[name][rounding_groups == g]
            )
            for g in range(_SPREAD_GROUPS)
        ]
        whole = np.array([cell for cell in cells if cell is not None])
        if len(whole):
            results.append(
                stats.drift_test(
                    *whole.T,
                    n=len(off),
                    alpha=ROUNDING_ALPHA / len(names),
                    name=f"rounding, {name}",
                )
            )
    return min(results, key=lambda test: test.log_pvalue, default=None)


def _group_means(off: Floats, variance: Floats, moved: Floats) -> tuple[float, ...] | None:
    """Mean and its variance of what was emitted, then of what rounding did."""
    if (
        min(len(off), len(moved)) < _MIN_GROUP_TOKENS
        or variance.sum() < _MIN_VARIANCE_TERMS * (off**2).max()
    ):
        return None
    return (
        float(off.mean()),
        float(variance.sum()) / len(off) ** 2,
        float(moved.mean()),
        float(moved.var()) / len(moved),
    )


# Settings: the number of tokens, error rates and the row tolerance, fixed before any token is seen.


POWER = 0.9
DEFAULT_TOKENS = 20_000  # N by default, at least
MAX_JUDGED_TOKENS = 100_000_000


@dataclass(frozen=True)
class OutputSettings:
    """How emitted tokens are judged.

    ``tokens``: N, fixed beforehand; None: what ``detect`` needs, ``DEFAULT_TOKENS`` or more.
    ``ball``: TV of the engine's own rows from the rescored ones, on average over contexts; None:
    what rescoring in the target's own precision moves.
    """

    tokens: int | None = None
    alpha: float = 1e-6
    detect: float = 0.04
    ball: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        rules = (
            (
                "tokens",
                self.tokens,
                self.tokens is None or 1 <= self.tokens <= MAX_JUDGED_TOKENS,
                f"1 to {MAX_JUDGED_TOKENS}",
            ),
            ("alpha", self.alpha, MIN_ALPHA <= self.alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
            (
                "detect",
                self.detect,
                MIN_DETECT <= self.detect < 1,
                f"{MIN_DETECT:g} or more, below 1",
            ),
            ("ball", self.ball, self.ball is None or 0 <= self.ball < 1, "0 or more, below 1"),
            ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
        )
        check_ranges(rules)

    def planned(self, proxy: bool) -> int:
        """N: the tokens that are judged, and no more, whatever they say."""
        if self.tokens is not None:
            return self.tokens
        radius = self.ball or 0.0
        if self.detect <= 2 * radius + 1e-4:
            raise UsageError(
                f"detect is {self.detect:g} with a ball of {radius:g}: expected more than twice "
                f"the ball, and 1e-4"
            )
        wanted = max(plan_tokens(self.detect, self.alpha, radius, proxy), DEFAULT_TOKENS)
        if wanted > MAX_JUDGED_TOKENS:
            raise UsageError(
                f"detect is {self.detect:g}: that takes {wanted:,} tokens, more than "
                f"{MAX_JUDGED_TOKENS:,}; ask for a larger deviation"
            )
        return wanted

    def plan(self, proxy: bool) -> str:
        """Say before anything is scored what will be judged, and what it can find."""
        n = self.planned(proxy)
        tv = detectable_deviation(n, n, self.alpha, self.ball or 0.0, proxy)
        beside = "" if self.ball else ", and the ball that rescoring shows"
        return (
            f"plan: the first {n:,} tokens, request after request; false-alarm rate "
            f"{self.alpha:g}; power {POWER:g} against TV {tv:.2g}{beside}"
        )


# Notes beside the verdict.


_SURPRISE_TEST = "score -log p"  # The mean whose drift is looked at whatever failed


def verdict_notes(
    judged: OutputTestReport,
    found: OutputEvidence,
    kept: Sequence[Request],
    pair: TransformerPair,
    proxy: bool,
) -> Iterator[str]:
    """Yield what may help to read the verdict, a line each."""
    surprise = next((test for test in judged.tests if test.name == _SURPRISE_TEST), None)
    if judged.findings and surprise is not None and surprise.rejected:
        side = "likelier" if surprise.statistic < 0 else "less likely"
        yield (
            f"the emitted tokens are {side} under the target than its own: -log p is off by "
            f"{surprise.statistic:+.3g} on average"
        )
    if found.weights is not None and any(
        test.rejected and test.name.startswith("weights") for test in judged.tests
    ):
        yield f"of rounded weights these fit best: {found.weights.best()}"
    if not proxy:
        yield (
            "--draft was not given: a fault of the acceptance shows best in the order q/p, which "
            "takes the draft or a model near it"
        )
    skipped = tuple(skipped_tests(found))
    if skipped:
        yield f"not run: {'; '.join(skipped)}"
    if str(pair.target_model.dtype) != "torch.float32":
        yield (
            "bets on rounded weights and on rates of single tokens tell little in this precision: "
            "they must allow for what it moves, which is as much"
        )
    unread = [request.unread for request in kept if request.unread is not None]
    if unread:
        yield (
            f"log probabilities of {len(unread):,} requests could not be read as such: {unread[0]}"
        )
    if found.near:
        yield (
            f"{found.near:,} tokens lie just outside the rescored top-k or top-p, within what "
            f"logits off by {found.margin:.2g} allow: counted as support"
        )
    put_back = sum(request.restored and request.tokens[-1] in pair.eos for request in kept)
    if judged.findings and put_back:
        yield (
            f"{put_back:,} end-of-sequence tokens were put back by finish_reason stop: where the "
            f"engine stopped at a string instead, nobody drew them: give its stop_reason"
        )
    unfinished = sum(request.unfinished for request in kept)
    if unfinished and pair.eos:
        yield (
            f"{unfinished:,} requests end without an end-of-sequence token and say no "
            f"finish_reason: taken as cut off by a limit"
        )


def prompt_mismatch_note(differing: Sequence[Request], requests: int) -> str:
    """Say that the server made other tokens of its prompts than are made of them here."""
    n = len(differing)
    if all(request.differs == "told" for request in differing):
        return (
            f"{n:,} of {requests:,} prompts have other tokens on the server than the tokenizer and "
            f"the chat template of --target make of them; those of the server are taken"
        )
    return (
        f"{n:,} of {requests:,} prompts have another number of tokens on the server than the "
        f"tokenizer and the chat template of --target make of them: give --target the server's "
        f"template, or ask for token ids of the prompt"
    )


def rounding_shape_test(
    judged: OutputTestReport, found: OutputEvidence, rounding: PrecisionTrial
) -> stats.TestResult | None:
    """Return the test that what failed is rounding's doing; None where nothing can tell.

    Rounding makes no requests that depend on each other, no rates and no rounded weights: where
    such a test failed there is no question of it.
    """
    failed = [test.name for test in judged.tests if test.rejected]
    if any(name not in found.deviations for name in failed):
        return None
    return rounding_drift_test(list(dict.fromkeys([*failed, _SURPRISE_TEST])), found, rounding)


def coarser_precision_note(
    judged: OutputTestReport,
    found: OutputEvidence,
    kept: Sequence[Request],
    pair: TransformerPair,
    planned: int,
    settings: OutputSettings,
) -> tuple[str, stats.TestResult] | None:
    """Say so if an engine in bfloat16 would fail in the same way by its rounding alone.

    With the test of its shape, which did not reject.
    """
    if str(pair.target_model.dtype) != "torch.float32":
        return None
    rounding = measure_rounding(kept, pair, len(found.orders) == 3)
    margin = max(found.margin, 2.0 * rounding.shift)
    if not 0.0 < rounding.tv < 0.5 or found.beyond(margin):
        return None
    shape = rounding_shape_test(judged, found, rounding)
    if shape is None or shape.rejected:
        return None
    ball = RowTolerance(rounding.tv, rounding.reach)
    again = judge_evidence(found, planned, settings.alpha, ball, settings.seed)
    if any(test.rejected for test in again.tests):
        return None
    words = (
        f"rows in bfloat16 differ from these, in float32, by TV {rounding.tv:.2g} on average; what "
        f"failed passes within that, and has the shape of rounding (a test that denies it at a "
        f"rate of {ROUNDING_ALPHA:g} gives p = {shape.pvalue:.2g}): if the engine computes in "
        "bfloat16, "
        f"judge it with --dtype bfloat16"
    )
    return words, shape


# The row tolerance of a run: measured or claimed, and what the claim hides.


_MIN_TOLERANCE = 1e-6  # A ball below which nobody's float32 logits stay
_MEASURED_WORDS = (
    ", which is what computing them again here shows: it takes the engine to round alike"
)
_CLAIMED_WORDS = ", as declared, which nothing here shows"


@dataclass(frozen=True)
class RunTolerance:
    """The ball of a run.

    ``measured``: what computing rows again in the declared precision moved, which is the ball
    unless one is named. ``claimed``: whether a larger one was named. ``words``: where it is from.
    """

    ball: RowTolerance
    measured: RowTolerance
    claimed: bool
    words: str


@dataclass(frozen=True)
class HiddenFailures:
    """What fails by the measured ball and passes by the claimed one.

    ``findings``: in words. ``shape``: the test that rounding did it, None where nothing is
    hidden or nothing can tell. ``why``: no verdict, where that is not what rounding does.
    """

    findings: tuple[str, ...] = ()
    shape: stats.TestResult | None = None
    why: str | None = None


def choose_tolerance(
    found: OutputEvidence,
    fine: PrecisionTrial | None,
    text: doc.Retokenised | None,
    given: float | None,
) -> RunTolerance:
    """Return the ball: ``given``, or what was measured.

    Raises
    ------
    UsageError
        If the one given is below what was measured.
    """
    mean = found.distance / found.n
    rounding = max(mean, 0.0 if fine is None else fine.tv)
    spelt = text.changed / text.control_tokens if text else 0.0
    shown = rounding + spelt
    if given is not None and given < shown:
        raise UsageError(
            f"row tolerance is {given:g}: the same rows differ by {shown:.2g} on average when they "
            f"are computed again: name more, or none"
        )
    # Of texts twice: their share is an estimate from few tokens.
    least = min(max(rounding, _MIN_TOLERANCE) + 2.0 * spelt, 0.999)
    reach = {} if fine is None or spelt or mean > fine.tv else fine.reach
    measured = RowTolerance(least, reach)
    if given is None or given <= least:
        ball = measured if given is None else RowTolerance(given, reach)
        return RunTolerance(ball, measured, False, _MEASURED_WORDS)
    return RunTolerance(RowTolerance(min(given, 0.999), {}), measured, True, _CLAIMED_WORDS)


def find_hidden_failures(
    judged: OutputTestReport,
    allowed: RunTolerance,
    found: OutputEvidence,
    kept: Sequence[Request],
    pair: TransformerPair,
    planned: int,
    settings: OutputSettings,
) -> HiddenFailures:
    """Return what only the claim lets pass."""
    if not allowed.claimed or judged.findings:
        return HiddenFailures()
    honest = judge_evidence(found, planned, settings.alpha, allowed.measured, settings.seed)
    if not honest.findings:
        return HiddenFailures()
    shape = rounding_shape_test(honest, found, measure_rounding(kept, pair, len(found.orders) == 3))
    if shape is not None and not shape.rejected:
        return HiddenFailures(honest.findings, shape)
    suffix = "" if shape is None else f" (p = {pvalue_words(shape.log_pvalue)})"
    return HiddenFailures(
        honest.findings,
        shape,
        f"it passes by the ball of {allowed.ball.tv:g} that was claimed alone, and what it hides "
        f"is not of the shape that rounding makes{suffix}: {honest.findings[0]}",
    )


# The engine's own log probabilities, for the tests, the notes and the bound.


_BFLOAT16_FACTOR = 2.0
"""How many times as far as bfloat16 moves rows an engine's may be: its rounding and that of here
need not be the same."""


@dataclass(frozen=True)
class ReportedLogprobs:
    """Reported values of a run: ``said``, and whether they are ``beyond`` the ball.

    ``coarse``: what bfloat16 moves rows by, where a target in float32 had to be tried in it, or
    what the target's ``own`` precision does where that is coarser. ``doubted``: whether they are
    off by more than that, and yet no evidence on the tokens.
    """

    said: LogprobKind
    beyond: bool
    ball: float
    coarse: float | None
    own: bool
    doubted: bool = False

    def document(self, alpha: float) -> doc.Reported:
        """As the document has it."""
        limit = self.said.limit(max(self.ball, self.allowed))
        return doc.Reported(
            tokens=len(self.said.off),
            kind=self.said.kind,
            fits=self.said.fits and not self.doubted,
            error=self.said.error,
            tv=self.said.tv,
            tv_upper=self.said.upper,
            allowed=limit,
            needed=stats.values_needed(self.said.off, limit=limit, alpha=alpha),
        )

    @property
    def allowed(self) -> float:
        """The least ball of the test: that of a coarser precision, where it was tried."""
        return 0.0 if self.coarse is None else _BFLOAT16_FACTOR * self.coarse

    def notes(self, failed: bool) -> list[str]:
        """Remarks on what was reported."""
        if self.doubted:
            return [
                f"what is reported is not what was sampled, or it cannot be told: of the engine's "
                f"log probabilities, off by TV {self.said.tv:.2g}, {self.said.doubt}: they say "
                f"nothing of the tokens, which are judged by themselves"
            ]
        lines = [f"the engine's log probabilities {self.said.words()}"]
        if not self.said.fits or not self.beyond:
            return lines
        far = (
            f"by its log probabilities the engine's rows are off from the target's by TV "
            f"{self.said.tv:.2g} on average, where {self.ball:.2g} is allowed for"
        )
        if failed and (exact := self.said.exact(self.ball)):
            return [
                *lines,
                f"{far}: {exact} of {len(self.said.each)} requests are exact, so that its weights "
                f"and its precision are right, and what is off is of single requests, such as a "
                f"prefix taken from a cache",
            ]
        if failed:
            return [*lines, f"{far}: its weights or its logits are not the target's"]
        precision = "bfloat16"
        advice = "; if the engine computes in bfloat16, judge it with --dtype bfloat16"
        if self.own:
            precision, advice = "that precision", ""
        return [
            *lines,
            f"{far}: no more than twice what {precision} moves them ({self.coarse or 0.0:.2g}), so "
            f"that it is no finding; the bound allows for it{advice}",
        ]

    def widened(self, certificate: stats.Certificate) -> stats.Certificate:
        """Return a certificate that holds for rows as far off as reported values say."""
        more = self.said.upper - self.ball
        if self.doubted or not (self.beyond and self.said.fits and more > 0.0):
            return certificate
        return replace(
            certificate,
            bound=min(1.0, certificate.bound + more),
            method=f"{certificate.method} + {more:.2g}, by which the engine's own rows are off at "
            f"most, as its log probabilities say",
        )


def weigh_reported_logprobs(
    found: OutputEvidence,
    kept: Sequence[Request],
    pair: TransformerPair,
    ball: float,
    alpha: float,
    fine: PrecisionTrial | None,
) -> ReportedLogprobs | None:
    """Weigh the reported values of a run, and say to ``found`` what their test allows for.

    They never widen the ball of any other test. Where rows are off by no more than twice what
    bfloat16 moves a target that was declared in float32, that is rounding, and is told; but not
    where some requests are exact. ``fine``: what the precision of a coarser target moves.
    """
    reported = found.reported.said(alpha)
    if reported is None:
        return None
    beyond = reported.test(alpha, ball).rejected
    coarse = None if fine is None else fine.tv
    rounds = str(pair.target_model.dtype) == "torch.float32" and not reported.exact(ball)
    if beyond and reported.fits and rounds:
        coarse = measure_rounding(kept, pair, len(found.orders) == 3).tv
    rows = ReportedLogprobs(reported, beyond, ball, coarse, fine is not None)
    if beyond and reported.fits and reported.doubt is not None:
        limit = min(max(ball, rows.allowed), 0.999)
        unexplained = reported.tv > limit or reported.test(alpha, limit).rejected
        rows = replace(rows, doubted=unexplained)
    found.reported.allowed = rows.allowed
    return rows


def reported_test_failed(judged: OutputTestReport) -> bool:
    """Whether the test of reported values rejected."""
    return any(test.rejected and test.name == REPORTED_TEST_NAME for test in judged.tests)


# Text instead of token ids: how often a tokenizer does not give back the tokens that were drawn.
#
# A model may draw "th" and "e" where its tokenizer has "the": the text is the same, the tokens
# are not. No reader of the text can tell; so the target itself writes texts, as a control.


CONTROL_TOKENS = 2048  # Tokens of the control, about
_CONTROL_LANES = 32

_TOKEN_ID_HINT = (
    "vLLM and SGLang give them where they are asked for, llama.cpp and mlx-lm with their log "
    "probabilities"
)


def retokenisation_words(drawn: int, changed: int, settings: OutputSettings, proxy: bool) -> str:
    """Say what text alone can tell, if ``changed`` of ``drawn`` own tokens come back as others."""
    n, ball = settings.planned(proxy), min(2.0 * changed / drawn, 0.999)
    tv = detectable_deviation(n, n, settings.alpha, ball, proxy)
    words = (
        f"text alone: of {drawn:,} tokens that the target wrote {changed:,} come back from their "
        f"text as others, so that {n:,} tokens find a TV of {tv:.2g}; of texts nothing ends the "
        f"run before them"
    )
    if tv <= settings.detect:
        return words
    others = f", or --detect {tv * 1.05:.2g}" if tv < 0.9 else ""
    return (
        f"{words}, and not {settings.detect:g}: this run will be INCONCLUSIVE or FAIL. A PASS "
        f"takes token ids ({_TOKEN_ID_HINT}){others}"
    )


def count_changed_tokens(
    requests: Sequence[Request], pair: TransformerPair, seed: int
) -> tuple[int, int]:
    """Let the target answer the prompts; return its tokens, and how many come back as others."""
    given = [request for request in requests if request.from_text]
    lanes = [given[i % len(given)] for i in range(_CONTROL_LANES)]
    drawn: list[list[int]] = [[] for _ in lanes]
    model = pair.cached(pair.target_model, len(lanes))
    rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 3, 0]))
    room = min(pair.context - len(request.prompt) for request in lanes)
    feed = [list(request.prompt) for request in lanes]
    written: list[list[int]] = [[] for _ in lanes]
    for _ in range(min(CONTROL_TOKENS // _CONTROL_LANES, room)):
        rows = np.stack(
            [
                request.judged_by(pair).after(own[-1:], request.prompt, out, len(out))[0]
                for request, own, out in zip(lanes, model.feed(feed), written, strict=True)
            ]
        )
        sums = np.cumsum(rows, axis=1)
        u = rng.random(len(lanes))[:, None] * sums[:, -1:]
        tokens = (sums <= u).sum(axis=1).tolist()
        for lane, out, token in zip(drawn, written, tokens, strict=True):
            out.append(token)
            if not lane or lane[-1] not in pair.eos:
                lane.append(token)
        feed = [[token] for token in tokens]
    changed = 0
    for lane in drawn:
        body = lane[:-1] if lane[-1] in pair.eos else lane
        text = pair.tokenizer.decode(body, clean_up_tokenization_spaces=False)
        again = retokenise(text, pair)
        matches = SequenceMatcher(None, body, again, autojunk=False).get_matching_blocks()
        changed += max(len(body), len(again)) - sum(block.size for block in matches)
    return sum(map(len, drawn)), changed
