"""The tests of rescored tokens, within a declared distance of the rescored rows, and their notes.

The row tolerance, or ball, bounds the TV distance between the distribution that the engine sampled
from and the rescored row, on average over the contexts: it covers the rounding of both.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import cycle, islice

import numpy as np
import numpy.typing as npt

from simverify import results as doc
from simverify import stats
from simverify.arrays import Floats
from simverify.battery.battery import pvalue_words, rejection_findings, score_can_vary
from simverify.errors import UsageError
from simverify.models.transformer import TransformerPair
from simverify.served.evidence import (
    LOOKS_TEST_NAME,
    LogprobKind,
    OutputEvidence,
    cdf_distances,
    centred_features,
    logit_spread,
    looks_test,
    pair_tests,
    skipped_tests,
)
from simverify.served.requests import Request, check_settings, limit_tokens, retokenise
from simverify.served.rescore import dtype_name, rescore_in_other_precision, tv_distances
from simverify.served.variants import VARIANT_TOLERANCE

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
        check_settings(self, tokens=(1, MAX_JUDGED_TOKENS))

    @property
    def shares(self) -> dict[str, float]:
        """Each part's share of alpha."""
        return split_output_alpha(self.alpha)

    def planned(self, proxy: bool) -> int:
        """Return N: the tokens that are judged, and no more, whatever they say."""
        if self.tokens is not None:
            return self.tokens
        radius = self.ball or 0.0
        if self.detect <= 2 * radius + 1e-4:
            raise UsageError(
                f"detect is {self.detect:g} with a ball of {radius:g}: expected more than twice "
                f"the ball, and 1e-4"
            )
        each = self.shares["pits"] / (3 if proxy else 2)
        needed = stats.ks_samples(self.detect, alpha=each, bins=stats.PIT_BINS, ball=radius)
        if needed > MAX_JUDGED_TOKENS:
            raise UsageError(
                f"detect is {self.detect:g}: that takes {needed:,} tokens, more than "
                f"{MAX_JUDGED_TOKENS:,}; ask for a larger deviation"
            )
        return max(needed, DEFAULT_TOKENS)

    def detectable(self, proxy: bool, ball: float, judged: int | None = None) -> float:
        """Return what N tokens find with power .9 if ``judged`` are there and the rest are fair."""
        n, each = self.planned(proxy), self.shares["pits"] / (3 if proxy else 2)
        distance = stats.ks_min_detectable(n, alpha=each, bins=stats.PIT_BINS)
        return min(distance * n / (judged or n) + ball, 1.0)

    def plan(self, proxy: bool) -> str:
        """Say before anything is scored what will be judged, and what it can find."""
        beside = "" if self.ball else ", and the ball that rescoring shows"
        return (
            f"plan: the first {self.planned(proxy):,} tokens, request after request; false-alarm "
            f"rate {self.alpha:g}; power {POWER:g} against TV "
            f"{self.detectable(proxy, self.ball or 0.0):.2g}{beside}"
        )


def split_output_alpha(alpha: float) -> dict[str, float]:
    """Split a run's alpha: tests at the fixed N, and "looks", the e-process that may end it."""
    parts = {"pits": 3.0, "scores": 1.0, "pairs": 1.0}
    bets = dict.fromkeys(("weights", "rates", "reported", "looks", "variants"), 0.25)
    return stats.split_alpha(alpha, parts | bets)


@dataclass(eq=False)
class JudgedTokens:
    """A run's requests and evidence; ``fine``: what the precision of a coarse target moves."""

    evidence: OutputEvidence
    requests: Sequence[Request]
    pair: TransformerPair
    settings: OutputSettings
    fine: "PrecisionTrial | None" = None

    @cached_property
    def rounding(self) -> "PrecisionTrial":
        """What another precision does to the first tokens."""
        return measure_rounding(self.requests, self.pair, self.evidence.proxy)


# The tests.


_DELTA = 1e-3


@dataclass(frozen=True)
class RowTolerance:
    """What the tests allow for: ``tv``, and for each test what was measured of it, if anything.

    ``moved``: by the name of a test of a mean, how far its rows moved what it sums up, on average
    over contexts. A test without an entry may be off by all of ``tv``.
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


def judge_evidence(
    evidence: OutputEvidence, settings: OutputSettings, ball: RowTolerance, ball_from: str = ""
) -> OutputTestReport:
    """Judge the tokens by ``settings``; the certificate holds at 1 - ``_DELTA``.

    N is fixed beforehand. If there are fewer tokens, the PITs are filled up with fresh uniforms:
    the whole is N independent uniforms if the tokens are the target's, whenever they ended.
    ``ball_from``: what the certificate says about the origin of the ball.
    """
    planned, shares = settings.planned(evidence.proxy), settings.shares
    pits = np.concatenate(evidence.pits, axis=1)
    spare = np.random.Generator(np.random.Philox(key=settings.seed, counter=[0, 0, 2, 0]))
    fill = spare.random((len(pits), planned - evidence.n))
    bins = [pit_histogram(np.concatenate(row)) for row in zip(pits, fill, strict=True)]
    tests = []
    for order, histogram in zip(evidence.orders, bins, strict=True):
        name, each = f"PIT in {order} order", shares["pits"] / len(bins)
        tests.append(stats.pit_ks(histogram, alpha=each, ball=ball.of(name, 1.0), name=name))
    tests += _score_tests(evidence, shares["scores"], ball)
    tests += pair_tests(evidence, shares["pairs"], ball.tv)
    tests += _bet_tests(evidence, shares, ball.tv)
    findings = rejection_findings(tests)
    if evidence.unsupported:
        findings.insert(
            0,
            f"support: {evidence.unsupported} tokens emitted that truncation cuts off, by more "
            f"than a logit of {evidence.margin:.2g}",
        )
    words = "in token order, in descending P" + (" or in the proxy's q/p" if evidence.proxy else "")
    # Fresh uniforms dilute the bound on the TV from the rescored rows, the ball widens it.
    bound = stats.monotone_certificate(bins[-1], delta=_DELTA)
    order = "q/p, q the proxy's" if evidence.proxy else "descending P"
    certificate = replace(
        bound,
        bound=min(1.0, bound.bound * planned / evidence.n + ball.tv),
        method=f"N/n 2 (K + sqrt(ln(2/delta) / 2N)) + ball, N = {planned}, n = {evidence.n}",
        assumption=f"P'/P is monotone in {order}, in the same direction in every context, which "
        f"one token a context cannot show, and the engine's own P lies within TV {ball.tv:.2g} of "
        f"the rescored rows on average{ball_from}; "
        "N fixed beforehand, requests in an order fixed before they were answered, none left out",
    )
    return OutputTestReport(
        tests=tuple(tests),
        findings=tuple(findings),
        detectable=settings.detectable(evidence.proxy, ball.tv, evidence.n),
        deviation=f"mean one-token TV, monotone {words}, in the same direction in every context",
        certificate=certificate,
    )


def pit_histogram(pits: Floats) -> npt.NDArray[np.int64]:
    """Return how many PITs fall into each of ``PIT_BINS`` bins."""
    bins = np.minimum((pits * stats.PIT_BINS).astype(np.int64), stats.PIT_BINS - 1)
    return np.bincount(bins, minlength=stats.PIT_BINS)


def _score_tests(
    evidence: OutputEvidence, alpha: float, ball: RowTolerance
) -> list[stats.TestResult]:
    each = alpha / (len(evidence.scores) + len(evidence.indicators))
    tests = []
    for score, sums in evidence.scores.items():
        name = f"score {score}"
        if score_can_vary(sums):
            # A ball on average: the rows that are off may be those of the widest range.
            radius = min(ball.tv * sums.n * sums.width / sums.ranges, 0.999)
            radius = min(radius, ball.of(name, sums.ranges / sums.n))
            tests.append(stats.score_test(sums, alpha=each, ball=radius, name=name))
    for score, bits in evidence.indicators.items():
        name = f"score {score}"
        if bits.variance > 0.0:
            radius = ball.of(name, 1.0)
            tests.append(stats.indicator_test(bits, alpha=each, ball=radius, name=name))
    return tests


_BET_WORDS = {
    "weights": ("weights, rounded to few bits", "share of the distribution of rounded weights"),
    "rates": ("rates of single tokens", "rates of single tokens, in all contexts alike"),
    "variants": ("other ways to sample", "share of tokens sampled in another way than asked"),
}
"""The name of a test, and the deviation that it looks for."""

_BEST_WEIGHTS = "of rounded weights these fit best"


def _bet_tests(
    evidence: OutputEvidence, shares: Mapping[str, float], ball: float
) -> list[stats.TestResult]:
    """Test all tokens at once: reported values, rounded weights, rates that are learned."""
    tests = []
    reported = evidence.reported.identify(shares["reported"])
    if reported is not None and reported.tells:
        radius = max(ball, evidence.reported.allowed)
        tests.append(reported.test(shares["reported"], radius))
    bets = {
        "weights": (evidence.weights, ball),
        "rates": (evidence.rates.sums, ball),
        "variants": (evidence.variants, max(ball, VARIANT_TOLERANCE)),
    }
    for share, (sums, radius) in bets.items():
        if sums is not None:
            name, off = _BET_WORDS[share]
            tests.append(
                stats.bet_test(sums, alpha=shares[share], ball=radius, name=name, deviation=off)
            )
    tests.append(looks_test(evidence.snapshots, alpha=shares["looks"], ball=ball))
    return tests


_EXACT_VALUES = 1e-3  # TV of reported values, far below what few bits move


def blames_exact_weights(
    report: OutputTestReport, reported: "ReportedLogprobs | None", explained: bool
) -> bool:
    """Whether rounded weights failed beside other tests, and other evidence says they are exact.

    That is reported values, or, if another way to sample has ``explained`` the tokens, that bets on
    such ways won more.
    """
    log_p = {test.name: test.log_pvalue for test in report.tests if test.rejected}
    weights, variants = (_BET_WORDS[bets][0] for bets in ("weights", "variants"))
    if weights not in log_p or log_p.keys() <= {weights, LOOKS_TEST_NAME}:
        return False
    values = None if reported is None or not reported.values.tells else reported.values
    if values is not None and max(values.tv, values.rounding) <= _EXACT_VALUES:
        return True
    return explained and log_p.get(variants, 0.0) < log_p[weights]


def without_weights(lines: Iterable[str]) -> tuple[str, ...]:
    """Leave out the findings and notes that name rounded weights."""
    return tuple(x for x in lines if not x.startswith((_BET_WORDS["weights"][0], _BEST_WEIGHTS)))


# The shape of rounding: another precision is tried on the tokens, and the deviation compared.
#
# Rounding moves a logit up as often as down, the more the wider the logits lie apart, so its effect
# on a score mostly cancels in the mean. The effect is measured by rows in the other precision, in
# groups of tokens by the spread of their logits; the engine is compared with that.


ROUNDING_TOKENS = 1024  # first tokens, which are scored in the other precision
ROUNDING_ALPHA = 1e-3  # rate at which rounding is wrongly denied
_SPREAD_GROUPS = 4
_MIN_GROUP_TOKENS, _MIN_VARIANCE_TERMS = 30, 5.0
"""For nearly normal means: tokens of a group at least, in both samples, and its variance in units
of its largest term."""


@dataclass(frozen=True, eq=False)
class PrecisionTrial:
    """What another precision does to the first ``tokens`` tokens.

    ``tv``: mean TV distance of the rows. ``shift``: by how much a token's log probability moves
    at most. ``moved``: float64 (n,) by name of a test, by how much the mean moves of what it
    sums up; ``reach``: by name, how far on average, whichever way. ``spreads``: float64 (n,),
    standard deviation of the rows' logits.
    """

    tokens: int
    tv: float
    shift: float
    moved: dict[str, Floats]
    reach: dict[str, float]
    spreads: Floats


def measure_rounding(
    requests: Sequence[Request], pair: TransformerPair, proxy: bool
) -> PrecisionTrial:
    """Score the first tokens in float32 too, or in bfloat16 where the target is in float32."""
    movements: dict[str, list[Floats]] = defaultdict(list)
    reach: dict[str, list[Floats]] = defaultdict(list)
    off, spreads, shift = [], [], 0.0
    for scored, rows, moves in rescore_in_other_precision(
        limit_tokens(requests, ROUNDING_TOKENS), pair, proxy
    ):
        for name, table in centred_features(scored.p_again, scored.p, scored.q).items():
            movements[name].append((rows * table).sum(axis=1))
        for name, values in cdf_distances(scored.p_again, scored.p, scored.q, rows).items():
            reach[name].append(values)
        off.append(tv_distances(scored.p, rows))
        spreads.append(logit_spread(scored.p_again))
        shift = max(shift, float(moves.max()))
    every = {name: np.concatenate(values) for name, values in movements.items()}
    distances = {name: [np.abs(values)] for name, values in every.items()} | reach
    return PrecisionTrial(
        tokens=sum(map(len, off)),
        tv=float(np.concatenate(off).mean()),
        shift=shift,
        moved=every,
        reach={name: float(np.concatenate(values).mean()) for name, values in distances.items()},
        spreads=np.concatenate(spreads),
    )


def rounding_drift_test(
    names: Sequence[str], evidence: OutputEvidence, rounding: PrecisionTrial
) -> stats.TestResult | None:
    """Test that rounding moved the means of the tests ``names``; None if too few tokens tell.

    Returns the worst, each at its part of ``ROUNDING_ALPHA``. Only tests of a mean tell anything.
    """
    names = [name for name in names if name in evidence.deviations]
    spreads = np.concatenate(evidence.spreads)
    edges = np.quantile(rounding.spreads, np.arange(1, _SPREAD_GROUPS) / _SPREAD_GROUPS)
    groups, tried = np.searchsorted(edges, spreads), np.searchsorted(edges, rounding.spreads)
    results = []
    for name in names:
        off, variance = np.concatenate(evidence.deviations[name], axis=1)
        cells = []
        for g in range(_SPREAD_GROUPS):
            x, total = off[groups == g], float(variance[groups == g].sum())
            moved = rounding.moved[name][tried == g]
            if (
                min(len(x), len(moved)) >= _MIN_GROUP_TOKENS
                and total > 0.0
                and total >= _MIN_VARIANCE_TERMS * (x**2).max()
            ):
                cells.append(
                    (x.mean(), total / len(x) ** 2, moved.mean(), moved.var() / len(moved))
                )
        if cells:
            alpha, test_name = ROUNDING_ALPHA / len(names), f"rounding, {name}"
            results.append(
                stats.drift_test(*np.array(cells).T, n=len(off), alpha=alpha, name=test_name)
            )
    return min(results, key=lambda test: test.log_pvalue, default=None)


# Notes beside the verdict.


_SURPRISE_TEST = "score -log p"  # the mean whose drift is looked at whatever failed


def verdict_notes(report: OutputTestReport, run: JudgedTokens) -> Iterator[str]:
    """Yield what may help to read the verdict, a line each."""
    evidence, pair = run.evidence, run.pair
    surprise = next((test for test in report.tests if test.name == _SURPRISE_TEST), None)
    if report.findings and surprise is not None and surprise.rejected:
        side = "likelier" if surprise.statistic < 0 else "less likely"
        yield (
            f"the emitted tokens are {side} under the target than its own: -log p is off by "
            f"{surprise.statistic:+.3g} on average"
        )
    failed = [test.name for test in report.tests if test.rejected]
    if evidence.weights is not None and any(name.startswith("weights") for name in failed):
        yield f"{_BEST_WEIGHTS}: {evidence.weights.best()}"
    if not evidence.proxy:
        yield (
            "--draft was not given: a fault of the acceptance shows best in the order q/p, which "
            "takes the draft or a model near it"
        )
    if skipped := tuple(skipped_tests(evidence)):
        yield f"not run: {'; '.join(skipped)}"
    if dtype_name(pair) != "float32":
        yield (
            "bets on rounded weights and on rates of single tokens tell little in this precision, "
            "as they must allow for its rounding"
        )
    if unread := [request.unread for request in run.requests if request.unread is not None]:
        yield (
            f"log probabilities of {len(unread):,} requests could not be read as such: {unread[0]}"
        )
    if evidence.near:
        lie = "token lies" if evidence.near == 1 else "tokens lie"
        yield (
            f"{evidence.near:,} {lie} just outside the rescored top-k or top-p, within what logits "
            f"off by {evidence.margin:.2g} allow: counted as support"
        )
    restored = sum(r.restored and r.tokens[-1] in pair.eos for r in run.requests)
    if report.findings and restored:
        yield (
            f"{restored:,} end-of-sequence tokens were put back by finish_reason stop: if the "
            f"engine stopped at a string instead, they were not drawn: give its stop_reason"
        )
    unfinished = sum(request.unfinished for request in run.requests)
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


def rounding_shape_test(report: OutputTestReport, run: JudgedTokens) -> stats.TestResult | None:
    """Test that rounding caused what failed; None if nothing can tell.

    Rounding makes no requests that depend on each other, no rates and no rounded weights: where
    such a test failed it is out of the question. It may look like a wider cut, by what crosses the
    edge of one in another precision, but by no more than that.
    """
    evidence, rounding = run.evidence, run.rounding
    failed = {test.name for test in report.tests if test.rejected}
    named = [test.name for test in report.tests if test.name in failed & evidence.deviations.keys()]
    shape = rounding_drift_test(list(dict.fromkeys([*named, _SURPRISE_TEST])), evidence, rounding)
    untold = failed.difference(named)
    if shape is None or shape.rejected or not untold:
        return shape
    if not untold <= {_BET_WORDS["variants"][0], LOOKS_TEST_NAME}:
        return None
    ball = RowTolerance(min(max(rounding.tv, MIN_TOLERANCE), 0.999), rounding.reach)
    within = judge_evidence(evidence, run.settings, ball).tests
    return None if any(test.rejected and test.name in untold for test in within) else shape


def coarser_precision_note(
    report: OutputTestReport, run: JudgedTokens
) -> tuple[str, stats.TestResult] | None:
    """Say so, with the test of its shape, if bfloat16's rounding alone would fail likewise."""
    if dtype_name(run.pair) != "float32":
        return None
    rounding = run.rounding
    margin = max(run.evidence.margin, 2.0 * rounding.shift)
    if not 0.0 < rounding.tv < 0.5 or run.evidence.beyond(margin):
        return None
    shape = rounding_shape_test(report, run)
    ball = RowTolerance(rounding.tv, rounding.reach)
    if shape is None or shape.rejected:
        return None
    if any(test.rejected for test in judge_evidence(run.evidence, run.settings, ball).tests):
        return None
    words = (
        f"rows in bfloat16 differ from these, in float32, by TV {rounding.tv:.2g} on average; what "
        f"failed passes within that, and has the shape of rounding (a test that denies it at a "
        f"rate of {ROUNDING_ALPHA:g} gives p = {shape.pvalue:.2g}): if the engine computes in "
        f"bfloat16, judge it with --dtype bfloat16"
    )
    return words, shape


# The row tolerance of a run: measured or claimed, and what the claim hides.


MIN_TOLERANCE = 1e-6  # no logits in float32 stay below it
_MEASURED_WORDS = (
    ", which is what computing them again here shows: it takes the engine to round alike"
)
_CLAIMED_WORDS = ", as declared, which nothing here shows"


@dataclass(frozen=True)
class RunTolerance:
    """The ball of a run.

    ``measured``: what computing rows again in the declared precision moved, the default.
    ``claimed``: whether a larger one was named. ``words``: its origin.
    """

    ball: RowTolerance
    measured: RowTolerance
    claimed: bool
    words: str


@dataclass(frozen=True)
class HiddenFailures:
    """What fails by the measured ball and passes by the claimed one.

    ``shape``: the test that rounding did it, None if nothing is hidden or nothing can tell.
    ``why``: why there is no verdict, if rounding did not do it.
    """

    findings: tuple[str, ...] = ()
    shape: stats.TestResult | None = None
    why: str | None = None


def choose_tolerance(
    evidence: OutputEvidence,
    fine: PrecisionTrial | None,
    text: doc.Retokenised | None,
    given: float | None,
) -> RunTolerance:
    """Return the ball: ``given``, or what was measured; ``UsageError`` if ``given`` is below."""
    mean = evidence.distance / evidence.n
    rounding = max(mean, 0.0 if fine is None else fine.tv)
    spelt = text.changed / text.control_tokens if text else 0.0
    shown = rounding + spelt
    if given is not None and given < shown:
        raise UsageError(
            f"row tolerance is {given:g}: the same rows differ by {shown:.2g} on average when they "
            f"are computed again: name more, or none"
        )
    # Of texts twice: their share is an estimate from few tokens.
    least = min(max(rounding, MIN_TOLERANCE) + 2.0 * spelt, 0.999)
    reach = {} if fine is None or spelt or mean > fine.tv else fine.reach
    measured = RowTolerance(least, reach)
    if given is None or given <= least:
        ball = measured if given is None else RowTolerance(given, reach)
        return RunTolerance(ball, measured, False, _MEASURED_WORDS)
    return RunTolerance(RowTolerance(min(given, 0.999), {}), measured, True, _CLAIMED_WORDS)


def find_hidden_failures(
    report: OutputTestReport, allowed: RunTolerance, run: JudgedTokens
) -> HiddenFailures:
    """Return what only the claim lets pass."""
    if not allowed.claimed or report.findings:
        return HiddenFailures()
    honest = judge_evidence(run.evidence, run.settings, allowed.measured)
    if not honest.findings:
        return HiddenFailures()
    shape = rounding_shape_test(honest, run)
    if shape is not None and not shape.rejected:
        return HiddenFailures(honest.findings, shape)
    suffix = "" if shape is None else f" (p = {pvalue_words(shape.log_pvalue)})"
    why = (
        f"it passes only by the ball of {allowed.ball.tv:g} that was claimed, and what that hides "
        f"is not of the shape that rounding makes{suffix}: {honest.findings[0]}"
    )
    return HiddenFailures(honest.findings, shape, why)


# The engine's own log probabilities, for the tests, the notes and the bound.


_BFLOAT16_FACTOR = 2.0
"""An engine's rows may be off by so many times what bfloat16 moves them here."""


@dataclass(frozen=True)
class ReportedLogprobs:
    """Reported values of a run: ``values``, and whether they are ``beyond`` the ball.

    ``coarse``: what bfloat16 moves rows by, if a target in float32 was tried in it, or what the
    target's ``own`` coarser precision does. ``doubted``: whether they are off by more than that,
    and yet no evidence on the tokens.
    """

    values: LogprobKind
    beyond: bool
    ball: float
    coarse: float | None
    own: bool
    doubted: bool = False

    def document(self, alpha: float) -> doc.Reported:
        """Return the document's entry."""
        limit = self.values.limit(max(self.ball, self.allowed))
        return doc.Reported(
            tokens=len(self.values.off),
            kind=self.values.kind,
            fits=self.values.fits and not self.doubted,
            error=self.values.error,
            tv=self.values.tv,
            tv_upper=self.values.upper,
            allowed=limit,
            needed=stats.values_needed(self.values.off, limit=limit, alpha=alpha),
        )

    @property
    def allowed(self) -> float:
        """The least ball of the test: that of a coarser precision, if it was tried."""
        return 0.0 if self.coarse is None else _BFLOAT16_FACTOR * self.coarse

    def notes(self, failed: bool) -> list[str]:
        """Return remarks on what was reported; ``failed``: whether its test rejected."""
        if self.values.constant is not None and not self.values.tells:
            return [f"the engine's log probabilities {self.values.words()}"]
        if self.doubted:
            return [
                f"what is reported is not what was sampled, or it cannot be told: of the engine's "
                f"log probabilities, off by TV {self.values.tv:.2g}, {self.values.doubt}: they say "
                f"nothing of the tokens, which are judged by themselves"
            ]
        lines = [f"the engine's log probabilities {self.values.words()}"]
        if not self.values.fits or not self.beyond:
            return lines
        far = (
            f"by its log probabilities the engine's rows are off from the target's by TV "
            f"{self.values.tv:.2g} on average, where {self.ball:.2g} is allowed for"
        )
        advice = "; if the engine computes in bfloat16, judge it with --dtype bfloat16"
        if failed and (exact := self.values.exact(self.ball)):
            why = (
                f"{exact} of {len(self.values.each)} requests are exact, so that its weights and "
                f"its precision are right, and what is off is of single requests, such as a prefix "
                f"taken from a cache"
            )
        elif failed:
            why = "its weights or its logits are not the target's"
        else:
            precision = "that precision" if self.own else "bfloat16"
            why = (
                f"no more than twice what {precision} moves them ({self.coarse or 0.0:.2g}), so "
                f"that it is no finding; the bound allows for it{'' if self.own else advice}"
            )
        return [*lines, f"{far}: {why}"]

    def widened(self, certificate: stats.Certificate) -> stats.Certificate:
        """Return a certificate that holds for rows as far off as reported values say."""
        more = self.values.upper - self.ball
        if self.doubted or not (self.beyond and self.values.fits and more > 0.0):
            return certificate
        return replace(
            certificate,
            bound=min(1.0, certificate.bound + more),
            method=f"{certificate.method} + {more:.2g}, by which the engine's own rows are off at "
            f"most, as its log probabilities say",
        )


def weigh_reported_logprobs(run: JudgedTokens, ball: float) -> ReportedLogprobs | None:
    """Weigh the reported values of a run, and note in its evidence what their test allows for.

    They never widen the ball of any other test. If rows are off by no more than twice what bfloat16
    moves a target that was declared in float32, that is rounding, and a note; but not if some
    requests are exact.
    """
    alpha = run.settings.shares["reported"]
    if (reported := run.evidence.reported.identify(alpha)) is None:
        return None
    beyond = reported.test(alpha, ball).rejected
    coarse = None if run.fine is None else run.fine.tv
    rounds = dtype_name(run.pair) == "float32" and not reported.exact(ball)
    if beyond and reported.fits and rounds:
        coarse = run.rounding.tv
    rows = ReportedLogprobs(reported, beyond, ball, coarse, run.fine is not None)
    if beyond and reported.fits and reported.doubt is not None:
        limit = min(max(ball, rows.allowed), 0.999)
        unexplained = reported.tv > limit or reported.test(alpha, limit).rejected
        rows = replace(rows, doubted=unexplained)
    run.evidence.reported.allowed = rows.allowed
    return rows


# Text instead of token ids: how often does a tokenizer return other tokens than were drawn?
#
# A model may draw "th" and "e" where its tokenizer has "the": the text is the same, the tokens
# are not. No reader of the text can tell; so the target itself writes texts, as a control.


CONTROL_TOKENS = 2048  # about
_CONTROL_LANES = 32

_TOKEN_ID_HINT = (
    "vLLM and SGLang give them where they are asked for, llama.cpp and mlx-lm with their log "
    "probabilities"
)


def retokenisation_words(drawn: int, changed: int, settings: OutputSettings, proxy: bool) -> str:
    """Say what text alone can tell, if ``changed`` of ``drawn`` own tokens come back as others."""
    tv = settings.detectable(proxy, min(2.0 * changed / drawn, 0.999))
    words = (
        f"text alone, with which no run ends early: {changed:,} of {drawn:,} tokens that the "
        f"target wrote were other tokens when their text was read again, so "
        f"{settings.planned(proxy):,} tokens find a TV of {tv:.2g}"
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
    lanes = list(islice(cycle(given), _CONTROL_LANES))
    drawn: list[list[int]] = [[] for _ in lanes]
    model = pair.cached(pair.target_model, len(lanes))
    rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 3, 0]))
    room = min(pair.context - len(request.prompt) for request in lanes)
    feed = [list(request.prompt) for request in lanes]
    written: list[list[int]] = [[] for _ in lanes]
    for _ in range(min(CONTROL_TOKENS // _CONTROL_LANES, room)):
        rows = [
            request.judged_by(pair).after(logits[-1:], request.prompt, out, len(out))[0]
            for request, logits, out in zip(lanes, model.feed(feed), written, strict=True)
        ]
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
