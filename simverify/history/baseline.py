"""Baselines: runs kept under a name, and the check whether another run is worse.

A check compares verdicts, certificates, acceptance and speed, row by row. All tests of all rows
share one false-alarm rate.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from simverify.checks import MIN_ALPHA, MIN_DETECT, check_ranges
from simverify.errors import UsageError
from simverify.results import (
    AuditRun,
    Certificate,
    CompareResult,
    CompareRun,
    Document,
    Expected,
    ModelInfo,
    SweepAudit,
    SweepRun,
    Verdict,
)
from simverify.results.reading import document_text, read_document, write_whole
from simverify.results.registry import kind_of

# Comparable runs: the same question, asked of the same thing.


RELATIVE_ROUNDING = 1e-9
"""Relative: numbers of one law, computed twice, differ by no more."""

_COMPARE_FIELDS = ("gamma", "eos", "drafting")
_AUDIT_FIELDS = (
    "spec",
    "contract",
    "gamma",
    "vocab_size",
    "batch",
    "company",
    "scheme",
    "tree",
    "pair",
)
_MODEL_FIELDS = (
    "vocab_size",
    "file_sha256",
    "corpus_sha256",
    "draft_distance",
    "temperature",
    "drafter",
)
_DECODING_FIELDS = (
    "target",
    "draft",
    "prompts_sha256",
    "request_tokens",
    "temperature",
    "top_k",
    "top_p",
    "dtype",
    "drafter",
    "trace_sha256",
)


def _comparison_differences(old: CompareRun, new: CompareRun) -> Iterator[str]:
    yield from _field_differences(old, new, _COMPARE_FIELDS)
    yield from _field_differences(old.decoding, new.decoding, _DECODING_FIELDS)
    models = {model.name: model for model in new.models}
    for model in old.models:
        if model.name not in models:
            yield f"the baseline has model {model.name}, the run has {', '.join(models)}"
        else:
            yield from model_differences(model, models[model.name])
    rows = [(row.verifier, row.model, row.one_draft) for row in new.results]
    for row in old.results:
        if (row.verifier, row.model, row.one_draft) not in rows:
            there = ", ".join(sorted({verifier for verifier, _, _ in rows}))
            yield f"the baseline has {row.verifier} on {row.model}, the run has {there}"


def _sweep_differences(old: SweepRun, new: SweepRun) -> Iterator[str]:
    cells = {cell.name: cell for cell in new.cells}
    for cell in old.cells:
        if cell.name not in cells:
            yield f"the baseline has {cell.name}, and the run has not"
        else:
            yield from model_differences(cell.model, cells[cell.name].model)
    names = {audit.name for audit in new.audits}
    for audit in old.audits:
        if audit.name not in names:
            yield f"the baseline has the {audit.name}, and the run has not"


def model_differences(old: ModelInfo, new: ModelInfo) -> Iterator[str]:
    """Yield what tells two models of one name apart."""
    yield from _field_differences(old, new, _MODEL_FIELDS, f"model {old.name}: ")
    bounds = old.bounds.coupling.exact, new.bounds.coupling.exact
    sampled = old.bounds.blocks_of is not None or new.bounds.blocks_of is not None
    # A bound that depends on the model alone tells two models of one name apart.
    if not sampled and None not in bounds and not nearly_equal(*bounds):  # type: ignore[arg-type]
        yield f"model {old.name}: its coupling bound was {bounds[0]:.9g} and is {bounds[1]:.9g}"


def nearly_equal(a: float, b: float) -> bool:
    """Whether two numbers are equal but for rounding."""
    return abs(a - b) <= RELATIVE_ROUNDING * max(1.0, abs(a), abs(b))


def _field_differences(
    old: Any, new: Any, names: tuple[str, ...], where: str = ""
) -> Iterator[str]:
    if (old is None) != (new is None):
        which = "baseline" if new is None else "run"
        yield f"{where}only the {which} decoded real models"
        return
    for name in names if old is not None else ():
        a, b = getattr(old, name), getattr(new, name)
        if a != b:
            yield f"{where}{name} was {_short_text(a)} and is {_short_text(b)}"


def _short_text(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# The check of two runs: its items, and the verdict that follows.


DEFAULT_ALPHA = 1e-6
DEFAULT_DETECT = 0.02
"""Of a check for which nobody asked for others."""

Outcome = Literal["same", "worse", "better", "too short", "shown"]


@dataclass(frozen=True)
class Item:
    """One thing that was held against the baseline.

    ``low``, ``high``: interval of the difference, new less old; all intervals of a check hold
    together with probability 1 - alpha. ``pvalue``: adjusted by Holm for all tests of the check;
    both null where nothing was estimated. ``outcome``: "shown" where nothing is judged, and
    "too short" where the drop that was asked for would not be found. ``note``: a sentence.
    """

    subject: str
    what: str
    old: str
    new: str
    outcome: Outcome
    low: float | None = None
    high: float | None = None
    pvalue: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Check:
    """A run held against a baseline.

    ``alpha``: probability that the tests of a check in which nothing changed call something worse
    or better; ``verdicts``: the same of the runs' own verdicts, by the alpha of each.
    ``detect``: relative drop of E[tau] that is found with power .9, or the verdict is
    INCONCLUSIVE. ``tests``: how many share ``alpha``. ``blocks``: what would do, of each run
    ("both") or of the new one; null where the run is long enough. ``cells``: how many cells and
    audits of sweeps were held against each other; null where no sweeps were.
    """

    items: tuple[Item, ...]
    alpha: float
    detect: float
    tests: int
    blocks: int | None = None
    both: bool = False
    notes: tuple[str, ...] = ()
    verdicts: float = 0.0
    cells: int | None = None

    @property
    def rate(self) -> float:
        """Probability of a false word in all, at most: of the tests and of both runs' verdicts."""
        return min(1.0, (self.alpha if self.tests else 0.0) + self.verdicts)

    @property
    def verdict(self) -> Verdict:
        """FAIL if anything is worse, INCONCLUSIVE if anything cannot be told, else PASS."""
        outcomes = {item.outcome for item in self.items}
        if "worse" in outcomes:
            return "FAIL"
        return "INCONCLUSIVE" if "too short" in outcomes else "PASS"

    def of(self, outcome: Outcome) -> tuple[Item, ...]:
        """Return the items with this outcome."""
        return tuple(item for item in self.items if item.outcome == outcome)


# Verdicts and certificates of two runs, side by side.


_CERTIFICATE_NOTE = "both bounds hold, each with its own delta: one does not refute the other"


_VERDICT_CHANGES: dict[tuple[Verdict, Verdict], tuple[Outcome, str]] = {
    ("INCONCLUSIVE", "INCONCLUSIVE"): ("too short", "neither run could tell"),
    ("FAIL", "FAIL"): ("same", "it failed before too"),
    ("PASS", "FAIL"): ("worse", "a fault was found"),
    ("INCONCLUSIVE", "FAIL"): ("worse", "a fault was found"),
    ("PASS", "INCONCLUSIVE"): (
        "too short",
        "too few tokens: without --blocks a run takes what it needs",
    ),
    ("FAIL", "PASS"): ("better", ""),
}


def verdict_item(
    subject: str,
    what: str,
    old: Verdict,
    new: Verdict,
    promised: float | None = None,
    found: float | None = None,
) -> Item:
    """Return what a change of verdict means.

    FAIL where there was none is worse, also where the baseline was INCONCLUSIVE: a fault was
    found. INCONCLUSIVE where there was a PASS is a run that is too short; so is one where neither
    run could tell, since what came between them would not show; and so is a PASS that promises less
    than the baseline did. ``promised``: the deviation that the baseline was asked to
    find; ``found``: the smallest that the run finds; null where one of them says none.
    """
    outcome, note = _VERDICT_CHANGES.get((old, new), ("same", ""))
    if old == new == "PASS" and promised is not None and found is not None and found > promised:
        of = f"it finds deviations of {found:.3g}, the baseline of {promised:g}"
        outcome, note = "too short", f"{of}: give both one --detect"
    return Item(subject, what, old, new, outcome, note=note)


def certificate_items(
    subject: str, old: Certificate | None, new: Certificate | None, verdict: Verdict
) -> Iterator[Item]:
    """Yield what became of a certificate.

    It stands beside a PASS alone, so that a lost one is a verdict's matter too. Its bound is an
    upper one and falls with the size of a run: a larger one is no worse rule, and is shown.
    """
    if old is None and new is None:
        return
    texts = [f"{bound.bound:.6f}" if bound is not None else "none" for bound in (old, new)]
    outcome: Outcome = "shown" if old is not None else "better"
    note = _CERTIFICATE_NOTE if old is not None and new is not None else ""
    if new is None:
        # Where there is a PASS without one, the exact law alone carries the verdict.
        outcome = {"FAIL": "worse", "INCONCLUSIVE": "too short", "PASS": "shown"}[verdict]  # type: ignore[assignment]
        note = "the certificate is lost"
    yield Item(subject, "certificate", texts[0], texts[1], outcome, note=note)


# Two audits of one verifier.


def audit_check(old: AuditRun, new: AuditRun, alpha: float, detect: float) -> Check:
    """Hold the verdict, the certificate and the exact E[tau] of instances that both have."""
    before, now = old.sampled, new.sampled
    promised = None if before is None else before.detect
    detectable = None if now is None else now.detectable
    items = [verdict_item(new.spec, "lossless", old.verdict, new.verdict, promised, detectable)]
    if now is not None or new.verdict != "PASS":
        was = None if before is None else before.certificate
        certificate = None if now is None else now.certificate
        items += certificate_items(new.spec, was, certificate, new.verdict)
    items += _acceptance_items(old, new)
    sampled = sum(tests.alpha for tests in (before, now) if tests is not None)
    return Check(tuple(items), alpha, detect, 0, verdicts=sampled)


def _acceptance_items(old: AuditRun, new: AuditRun) -> Iterator[Item]:
    """Yield one item of the instances on which fewer tokens are kept, and one of the others.

    An instance is the same where its name, its sizes and its optimum are: those that are drawn, or
    made for a number in the code, may differ under one name.
    """
    slack = 2 * max(old.tolerance, new.tolerance)
    known = {(one.name, one.vocab_size, one.gamma): one for one in old.instances}
    changes: list[tuple[float, float, float, str]] = []
    for instance in new.instances:
        earlier = known.get((instance.name, instance.vocab_size, instance.gamma))
        if earlier is None or earlier.optimum is None or instance.optimum is None:
            continue
        a, b = earlier.expected_accepted, instance.expected_accepted
        if a is None or b is None or not nearly_equal(earlier.optimum, instance.optimum):
            continue
        moved = abs(b - a) > slack * instance.gamma and not nearly_equal(a, b)
        changes.append((b - a if moved else 0.0, a, b, instance.name))
    outcomes: tuple[tuple[Outcome, float], ...] = (("worse", -1.0), ("better", 1.0))
    for outcome, sign in outcomes:
        moves = [(abs(x), a, b, name) for x, a, b, name in changes if x * sign > 0.0]
        if moves:
            _, a, b, name = max(moves)
            note = f"exact, on {len(moves)} of {len(changes)} instances, most on {name}"
            yield Item(new.spec, "E[tau]", f"{a:.6f}", f"{b:.6f}", outcome, note=note)
    if not changes and any(instance.expected_accepted is not None for instance in old.instances):
        # Code that can no longer be enumerated would be no worse than anything.
        note = "no instance of the baseline is in the run, or none with its distribution"
        yield Item(new.spec, "E[tau]", "exact", "unknown", "too short", note=note)
    if changes and not any(change for change, *_ in changes):
        note = f"exact, equal on {len(changes)} instances"
        yield Item(new.spec, "E[tau]", "exact", "exact", "same", note=note)


# Two-sample tests of accepted tokens, from what a run file holds.
#
# The curve Pr(tau >= l) times the blocks is how many blocks kept l tokens or more. Of independent
# blocks that is all there is to know of tau: its mean and variance follow, exactly.


POWER = 0.9
_MIN_LANES = 3
_MAX_TERMS = 1 << 16

MAX_BLOCKS = 10**10
"""Blocks of a row: no command takes more, and beyond 2^53 a rate does not say its count."""


@dataclass(frozen=True)
class AcceptedTokens:
    """Accepted tokens of a run.

    ``variance``: of one block. ``blocks``: independent ones, or a number that gives the mean the
    error that the run states. ``freedom``: degrees of freedom of the variance. ``counts``: blocks
    with tau >= l, for l = 1..gamma; None where blocks depend on each other.
    """

    mean: float
    variance: float
    blocks: int
    freedom: float
    counts: tuple[int, ...] | None


def simulated_tokens(row: CompareResult, where: str) -> AcceptedTokens:
    """Return the tokens of a row of independent blocks.

    Raises ``UsageError`` if the curve is none, or does not add up to the mean.
    """
    n, curve = row.measured.blocks, row.acceptance_ccdf.measured
    if not (1 <= n <= MAX_BLOCKS and curve):
        raise UsageError(
            f"{where} has {n} blocks and a curve of {len(curve)}: expected 1 or more, and "
            f"{MAX_BLOCKS} blocks at most"
        )
    counts = tuple(round(rate * n) for rate in curve)
    whole = all(abs(k - rate * n) < 1e-3 for k, rate in zip(counts, curve, strict=True))
    falls = all(n >= a >= b >= 0 for a, b in zip((n, *counts), counts, strict=False))
    if not (whole and falls) or abs(sum(counts) / n - row.measured.mean) > 1e-6 * (len(curve) + 1):
        raise UsageError(f"{where}: its measured curve is not that of {n} blocks with its mean")
    return tokens_from_counts(counts, n)


def tokens_from_counts(counts: tuple[int, ...], n: int) -> AcceptedTokens:
    """Return the tokens of ``n`` independent blocks, ``counts`` of them with tau >= 1..gamma.

    The variance has a block at 0 and one at the largest tau beside those that were seen, so that
    blocks that are all alike do not promise that all others are.
    """
    top = len(counts)
    tau = np.arange(top + 1)
    histogram = -np.diff([n, *counts, 0]).astype(np.float64)
    histogram[[0, top]] += 1.0
    middle = float(tau @ histogram) / (n + 2)
    variance = float((tau - middle) ** 2 @ histogram) / (n + 1)
    return AcceptedTokens(sum(counts) / n, variance, n, n + 1.0, counts)


def _accepted_tokens(row: CompareResult, lanes: int | None) -> AcceptedTokens | None:
    """Return the tokens of a row; ``lanes``: of real models, None where blocks are independent.

    Blocks of real models depend on each other within a lane: the error is that of the run's own
    interval, by Student's t over lanes. None if there are too few lanes for one.
    """
    if lanes is None:
        return simulated_tokens(row, f"{row.verifier} on {row.model}")
    if lanes < _MIN_LANES:
        return None
    from scipy import stats  # half a second that few processes need

    estimate = row.measured
    blocks = estimate.blocks
    half = max(estimate.ci_high - estimate.mean, estimate.mean - estimate.ci_low)
    error = half / float(stats.t.isf((1.0 - estimate.confidence) / 2.0, lanes - 1))
    return AcceptedTokens(estimate.mean, error**2 * blocks, blocks, lanes - 1.0, None)


def mean_pvalue(old: AcceptedTokens, new: AcceptedTokens) -> float:
    """Two-sided p-value of equal means, by Welch's t."""
    from scipy import stats

    error, freedom = _welch_error(old, new)
    if error == 0.0:
        return 1.0 if old.mean == new.mean else 0.0
    return float(2.0 * stats.t.sf(abs(new.mean - old.mean) / error, freedom))


def mean_interval(old: AcceptedTokens, new: AcceptedTokens, alpha: float) -> tuple[float, float]:
    """Interval of the difference of means, new less old, that misses it with probability alpha."""
    from scipy import stats

    error, freedom = _welch_error(old, new)
    half = float(stats.t.isf(alpha / 2.0, freedom)) * error
    return new.mean - old.mean - half, new.mean - old.mean + half


def rate_pvalue(old: int, n_old: int, new: int, n_new: int) -> float:
    """Two-sided p-value of equal rates: Fisher's exact test, twice its smaller tail.

    A root of the blocks in time; scipy adds up as many terms as there are blocks.
    """
    from scipy import stats

    if new * n_old > old * n_new:
        old, n_old, new, n_new = new, n_new, old, n_old  # the tail of `new` and below is small
    successes, total = old + new, n_old + n_new
    share = n_new / total
    law = stats.binom
    # Three of Loader's binomial probabilities, which are exact where logarithms of factorials
    # cancel (the way of R's dhyper).
    at = float(
        law.pmf(new, successes, share)
        * law.pmf(n_new - new, total - successes, share)
        / law.pmf(n_new, total, share)
    )
    below = at * _hypergeometric_tail_ratio(new, successes, n_new, total)
    return min(1.0, 2.0 * min(below, 1.0 - below + at))


def _hypergeometric_tail_ratio(top: int, kept: int, drawn: int, total: int) -> float:
    """Return the sum of hypergeometric probabilities of ``top`` and below, over that of ``top``."""
    least = max(0, drawn + kept - total)
    whole, last, upper = 1.0, 1.0, top
    while upper > least and last > whole * 1e-20:
        k = np.arange(upper, max(least, upper - _MAX_TERMS), -1, dtype=np.float64)
        ratios = k / (kept - k + 1.0) * ((total - kept - drawn + k) / (drawn - k + 1.0))
        terms = last * np.cumprod(ratios)
        whole, last, upper = whole + float(terms.sum()), float(terms[-1]), upper - k.size
    return whole


def rate_interval(old: int, n_old: int, new: int, n_new: int, alpha: float) -> tuple[float, float]:
    """Newcombe's interval of the difference of rates, new less old."""
    # Half a second, which nothing else has to wait for.
    from statsmodels.stats.proportion import confint_proportions_2indep

    low, high = confint_proportions_2indep(
        new, n_new, old, n_old, compare="diff", method="newcomb", alpha=alpha
    )
    return float(low), float(high)


def detectable_drop(old: AcceptedTokens, new: AcceptedTokens, alpha: float) -> float:
    """Drop of the mean that Welch's test finds with power .9."""
    from scipy import stats

    error, freedom = _welch_error(old, new)
    return error * float(stats.t.isf(alpha / 2.0, freedom) + stats.norm.ppf(POWER))


def blocks_needed(
    old: AcceptedTokens, new: AcceptedTokens, alpha: float, drop: float
) -> tuple[int, bool]:
    """Blocks that find ``drop`` with power .9, and whether both runs need them.

    Of the new run alone where the baseline is long enough for that, and for no more than ten times
    its own blocks.
    """
    from scipy import stats

    z = float(stats.norm.isf(alpha / 2.0) + stats.norm.ppf(POWER))
    room = (drop / z) ** 2 - old.variance / old.blocks
    if room > 0.0 and new.variance / room <= 10 * old.blocks:
        return _round_up(new.variance / room), False
    return _round_up((old.variance + new.variance) * (z / drop) ** 2), True


def _round_up(blocks: float) -> int:
    """Return a number with two digits, a little above: a plan is no promise to the last block."""
    scale = 10 ** max(0, math.floor(math.log10(max(blocks, 1.0))) - 1)
    return int(math.ceil(blocks * 1.02 / scale) * scale)


def _welch_error(old: AcceptedTokens, new: AcceptedTokens) -> tuple[float, float]:
    """Return the standard error of the difference and Welch's degrees of freedom."""
    a, b = old.variance / old.blocks, new.variance / new.blocks
    if a + b == 0.0:
        return 0.0, min(old.freedom, new.freedom)
    return math.sqrt(a + b), (a + b) ** 2 / (a**2 / old.freedom + b**2 / new.freedom)


# Two comparisons: rows that both have, with all tests of them sharing one false-alarm rate.


_SPEED_NOTE = "speed is judged within one run only: two runs met two loads of a machine"


RowPair = tuple[str, CompareResult, CompareResult]
"""What two rows are called, the row of the baseline and that of the run."""


@dataclass(frozen=True)
class _PendingTest:
    """A test that waits for its share: the level of tau, or 0 for the mean."""

    subject: str
    level: int
    old: AcceptedTokens
    new: AcceptedTokens
    pvalue: float
    exact: bool


def comparison_check(old: CompareRun, new: CompareRun, alpha: float, detect: float) -> Check:
    """Return the check of two comparisons that fit each other."""
    before = {(row.verifier, row.model, row.one_draft): row for row in old.results}
    lanes = tuple(None if run.decoding is None else run.decoding.lanes for run in (old, new))
    pairs: list[RowPair] = []
    notes: list[str] = []
    for row in new.results:
        earlier = before.get((row.verifier, row.model, row.one_draft))
        subject = f"{row.verifier} on {row.model}" + (", one draft" if row.one_draft else "")
        if earlier is None:
            notes.append(f"{subject}: not in the baseline, and not judged")
        else:
            pairs.append((subject, earlier, row))
    check = check_rows(pairs, old.detect, alpha, detect, lanes)
    speeds = tuple(_speed_items(old, new))
    notes += check.notes
    if speeds:
        notes.append(_SPEED_NOTE)
    if old.seed == new.seed:
        notes.append("both runs have one seed, and shared draws: differences are no larger for it")
    return replace(
        check, items=check.items + speeds, notes=tuple(notes), verdicts=old.alpha + new.alpha
    )


def check_rows(
    pairs: Iterable[RowPair],
    promised: float,
    alpha: float,
    detect: float,
    lanes: tuple[int | None, ...] = (None, None),
) -> Check:
    """Hold rows against those that they were; all tests share ``alpha``.

    ``promised``: the deviation that the old run was asked to find. ``lanes``: of the old run and
    the new one, of texts that real models decoded at a time; None where blocks were simulated.
    """
    items: list[Item] = []
    tested: list[_PendingTest] = []
    notes: list[str] = []
    for subject, earlier, row in pairs:
        items += _document_items(subject, earlier, row, promised)
        # What is exact is the declared rule's: the kernel's own where it passed as that rule.
        exact = all(
            _is_exact(one.expected_accepted) and one.acceptance.verdict == "PASS"
            for one in (earlier, row)
        )
        before, after = _accepted_tokens(earlier, lanes[0]), _accepted_tokens(row, lanes[1])
        if before is None or after is None:
            note = "3 lanes or more tell how sure a mean over real texts is"
            was, now = (f"{one.measured.mean:.4f}" for one in (earlier, row))
            outcome: Outcome = "same" if exact else "too short"
            items.append(Item(subject, "E[tau], measured", was, now, outcome, note=note))
            continue
        tested.append(_PendingTest(subject, 0, before, after, mean_pvalue(before, after), exact))
        levels = zip(before.counts or (), after.counts or (), strict=True)
        for level, (a, b) in enumerate(levels, start=1):
            p = rate_pvalue(a, before.blocks, b, after.blocks)
            tested.append(_PendingTest(subject, level, before, after, p, exact))
        if before.counts is None:
            notes.append(f"{subject}: blocks of real texts depend on each other: no test by level")
    judged, blocks, both = _judge_tests(tested, alpha, detect)
    return Check((*items, *judged), alpha, detect, len(tested), blocks, both, tuple(notes))


def _document_items(
    subject: str, old: CompareResult, new: CompareResult, promised: float
) -> Iterator[Item]:
    was, now = old.lossless, new.lossless
    yield verdict_item(subject, "lossless", was.verdict, now.verdict, promised, now.detectable)
    yield verdict_item(subject, "acceptance", old.acceptance.verdict, new.acceptance.verdict)
    yield from certificate_items(subject, was.certificate, now.certificate, now.verdict)
    a, b = old.expected_accepted, new.expected_accepted
    if _is_exact(a) and _is_exact(b):
        slack = RELATIVE_ROUNDING * max(1.0, a.upper)
        outcome: Outcome = "same"
        if b.upper < a.lower - slack:
            outcome = "worse"
        elif b.lower > a.upper + slack:
            outcome = "better"
        yield Item(subject, "E[tau], exact", _midpoint(a), _midpoint(b), outcome)


def _is_exact(told: Expected) -> bool:
    return told.exact is not None and told.confidence is None


def _midpoint(told: Expected) -> str:
    return f"{(told.lower + told.upper) / 2.0:.7f}"


def _judge_tests(
    tested: list[_PendingTest], alpha: float, detect: float
) -> tuple[list[Item], int | None, bool]:
    """Return an item for each test, adjusted by Holm, and the blocks that are missing."""
    if not tested:
        return [], None, False
    # Half a second, which nothing else has to wait for.
    from statsmodels.stats.multitest import multipletests

    share = alpha / len(tested)
    rejected, adjusted, _, _ = multipletests([t.pvalue for t in tested], alpha, method="holm")
    items, needed, both = [], 0, False
    for test, significant, p in zip(tested, rejected, adjusted, strict=True):
        item = _test_item(test, share)
        change = float(item.new) - float(item.old)
        drop = detect * test.old.mean
        if significant:
            item = replace(item, outcome="worse" if change < 0.0 else "better")
        elif (
            test.level == 0 and not test.exact and detectable_drop(test.old, test.new, share) > drop
        ):
            if test.old.mean == 0.0:
                item = replace(item, note="nothing was kept before: there is nothing to lose")
            else:
                blocks, two = blocks_needed(test.old, test.new, share, drop)
                item = replace(item, outcome="too short")
                needed, both = max(needed, blocks), both or two
        items.append(replace(item, pvalue=float(p)))
    return items, needed or None, both


def _test_item(test: _PendingTest, share: float) -> Item:
    """Return the item of a test, still without a judgement; its numbers read back exactly."""
    if test.level == 0:
        low, high = mean_interval(test.old, test.new, share)
        what, a, b = "E[tau], measured", test.old.mean, test.new.mean
    else:
        assert test.old.counts is not None
        assert test.new.counts is not None
        k, j = test.old.counts[test.level - 1], test.new.counts[test.level - 1]
        low, high = rate_interval(k, test.old.blocks, j, test.new.blocks, share)
        what, a, b = f"Pr(tau >= {test.level})", k / test.old.blocks, j / test.new.blocks
    return Item(test.subject, what, repr(a), repr(b), "same", low=low, high=high)


def _speed_items(old: CompareRun, new: CompareRun) -> Iterator[Item]:
    before = {(t.verifier, t.model): t.blocks_per_second for t in old.meta.timings}
    for timing in new.meta.timings:
        was = before.get((timing.verifier, timing.model))
        if was is not None:
            a, b = (f"{value / 1e6:.3g}" for value in (was, timing.blocks_per_second))
            subject = f"{timing.verifier} on {timing.model}"
            yield Item(subject, "speed, million blocks a second", a, b, "shown")


# The folder of baselines: a run file each, under its name.


Comparable = CompareRun | AuditRun | SweepRun
"""What can be a baseline."""

BASELINE_FOLDER = Path(".simverify") / "baselines"
"""Where baselines are kept, in the working directory, unless a folder is named."""

_BASELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def baseline_path(name: str, folder: Path) -> Path:
    """Return the file of the baseline ``name``.

    Raises ``UsageError`` for a name that could leave the folder or that some system refuses.
    """
    if not _BASELINE_NAME.fullmatch(name):
        raise UsageError(
            f"baseline name {name!r}: expected letters, digits, '.', '_' and '-', 100 at most, "
            "with a letter or a digit first"
        )
    return folder / f"{name}.json"


def save_baseline(name: str, run: Document, folder: Path) -> Path:
    """Keep ``run`` as the baseline ``name``, whole or not at all; return its file.

    Raises ``UsageError`` for a bad name, a run of another kind, or a folder that cannot be written.
    """
    path = baseline_path(name, folder)
    require_comparable(run, "the run")
    make_folder(folder)
    write_whole(path, document_text(run))
    return path


def make_folder(folder: Path) -> None:
    """Make a folder; raises ``UsageError`` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made a folder: {error.strerror}") from None


def read_baseline(name: str, folder: Path) -> Comparable:
    """Read the baseline ``name``; ``UsageError`` if there is none, with those that there are."""
    path = baseline_path(name, folder)
    if not os.path.exists(path):
        try:
            names = sorted(file.stem for file in folder.glob("*.json"))
        except OSError:
            names = []
        there = f"there are {', '.join(names[:10])}" if names else "there is none yet"
        raise UsageError(
            f"no baseline {name!r} in {folder}: {there}; keep one with simverify baseline save"
        )
    return require_comparable(read_document(path), str(path))


def require_comparable(run: Document, where: str) -> Comparable:
    """Return ``run`` if it can be a baseline, or be held against one."""
    if isinstance(run, Comparable):
        return run
    kind = kind_of(run).command
    raise UsageError(
        f"{where} is of simverify {kind}: baselines are of compare, sweep, or audit of code"
    )


# Two sweeps, cell by cell: all tests of all cells share one false-alarm rate.


@dataclass(frozen=True)
class SweepCheck:
    """The check of what both sweeps have, and the names of what one of them alone has."""

    check: Check
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def sweep_check(
    old: SweepRun, new: SweepRun, alpha: float = DEFAULT_ALPHA, detect: float = DEFAULT_DETECT
) -> SweepCheck:
    """Hold each cell and audit of ``new`` against the one of its name in ``old``.

    A cell whose model is another one by the same name is not compared, and a note says so.
    """
    cells = {cell.name: cell for cell in old.cells}
    audits = {audit.name: audit for audit in old.audits}
    notes: list[str] = []
    pairs: list[RowPair] = []
    for cell in new.cells:
        was = cells.get(cell.name)
        if was is None:
            continue
        other = next(model_differences(was.model, cell.model), None)
        if other is not None:
            notes.append(f"{cell.name}: not compared: {other}")
        else:
            pairs.append((cell.name, was.result, cell.result))
    check = check_rows(pairs, old.detect, alpha, detect)
    both = [(audits[audit.name], audit) for audit in new.audits if audit.name in audits]
    notes += check.notes
    if pairs:
        notes.append("cells of one seed share their draws: differences are no larger for it")
    check = replace(
        check,
        items=(*check.items, *(item for one in both for item in _sweep_audit_items(*one))),
        notes=tuple(notes),
        verdicts=(old.alpha + new.alpha) if pairs else 0.0,
        cells=len(pairs) + len(both),
    )
    before, after = (
        dict.fromkeys([*(x.name for x in run.cells), *(x.name for x in run.audits)])
        for run in (old, new)
    )
    only_old = tuple(name for name in before if name not in after)
    only_new = tuple(name for name in after if name not in before)
    return SweepCheck(check, only_old, only_new)


def _sweep_audit_items(old: SweepAudit, new: SweepAudit) -> Iterator[Item]:
    """Yield the verdict of an audit, and how far the law it found is from the target's."""
    item = verdict_item(
        new.name, "lossless", old.verdict or "INCONCLUSIVE", new.verdict or "INCONCLUSIVE"
    )
    if old.state != new.state:
        # Two audits without a verdict may have ended in two ways.
        item = replace(
            item,
            old=old.verdict or old.state,
            new=new.verdict or new.state,
            note=new.reason or item.note,
        )
    yield item
    a, b = old.max_abs_deviation, new.max_abs_deviation
    if a is None and b is None:
        return
    slack = max(old.tolerance or 0.0, new.tolerance or 0.0)
    # What is within the tolerance is rounding, and moves with the machine.
    was, now = _deviation_text(a, slack), _deviation_text(b, slack)
    outcome: Outcome = "same" if was == now else "shown"
    yield Item(new.name, "largest deviation", was, now, outcome)


def _deviation_text(value: float | None, slack: float) -> str:
    if value is None:
        return "none"
    return f"{slack:g} at most" if value <= slack else f"{value:.3g}"


# A run checked against a baseline.


def check_baseline(
    baseline: Document,
    run: Document,
    *,
    alpha: float = DEFAULT_ALPHA,
    detect: float = DEFAULT_DETECT,
) -> Check:
    """Say whether ``run`` is worse than ``baseline``, by tests.

    Parameters
    ----------
    baseline, run
        Two comparisons, two audits of code, or two sweeps, of one question: the same gamma, models
        and rules. A sweep may have more cells than the baseline.
    alpha
        Probability that the tests call anything worse or better where nothing changed. The runs'
        verdicts are their own, each with its run's alpha.
    detect
        Relative drop of E[tau] that is found with power .9, or the verdict is INCONCLUSIVE.

    Returns
    -------
    Check
        ``verdict``: FAIL where something is worse; ``items``: each with its interval.

    Raises
    ------
    UsageError
        If the runs do not compare, in a line that says what differs; if a value is out of range.
    """
    check_ranges(
        (
            ("alpha", alpha, MIN_ALPHA <= alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
            ("detect", detect, MIN_DETECT <= detect < 1, f"{MIN_DETECT:g} or more, below 1"),
        )
    )
    old, new = require_comparable(baseline, "the baseline"), require_comparable(run, "the run")
    differences, check = _COMPARED_KINDS[type(old)]
    if type(old) is type(new):
        difference = next(differences(old, new), None)
    else:
        was, now = kind_of(old).command, kind_of(new).command
        difference = f"the baseline is of simverify {was}, the run of simverify {now}"
    if difference is not None:
        raise UsageError(f"the runs do not compare: {difference}")
    return check(old, new, alpha, detect)


_COMPARED_KINDS: dict[type[Comparable], tuple[Callable[..., Iterator[str]], Callable[..., Check]]]
_COMPARED_KINDS = {
    CompareRun: (_comparison_differences, comparison_check),
    AuditRun: (partial(_field_differences, names=_AUDIT_FIELDS), audit_check),
    SweepRun: (_sweep_differences, lambda *runs: sweep_check(*runs).check),
}
"""What tells two runs of a kind apart that ask different questions, and the check of such runs."""
