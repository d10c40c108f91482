"""The sampled check of the project's own kernels: plan, run, test, certify.

Where contexts repeat, tokens are counted by position and last token, for the battery; elsewhere by
randomised PITs, and the first of them with their whole rows. Acceptance is tested too.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from operator import add
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from simverify import stats
from simverify.arrays import Floats
from simverify.battery import battery
from simverify.comparing.curves import AcceptanceCurve, sample_bounds
from simverify.models.base import MarkovModel, Model
from simverify.results import ANY_DEVIATION, NodeCounts
from simverify.simulators import run as compiled
from simverify.simulators.kernels.trees import Family
from simverify.simulators.trees import count_nodes, sample_trees, simulate_trees
from simverify.stats.counts import MIN_TABLE
from simverify.stats.pits import MIN_PAIRS
from simverify.trees import Drafting, get_scheme, shape_of_levels
from simverify.verifiers.base import resolve_part

if TYPE_CHECKING:
    from simverify.verifiers import Verifier
    from simverify.verifiers.trees import TreeVerifier


# One verifier's kernel on one model, and a trial of it.


MAX_STREAMED = 1 << 15
"""Most tokens that are judged with their whole rows, 2 microseconds each at V = 256; of a rule
with state twice as many, since its faults show in some positions alone."""

MAX_STREAMED_ENTRIES = 1 << 30
"""Most entries of those rows: two seconds and 7,000 tokens at V = 152,064."""

MAX_NODE_CALLS = 1 << 16
"""Most calls of which each node is counted: a tenth of a second, and .002 of a call in doubt."""

MAX_STREAMED_CALLS = 1 << 15
"""Most tokens of single calls of a rule with state, which say what it is not."""


RunPart = Literal["run", "first calls"]
"""Parts that a check counts: its run, and for a rule with state its first calls too."""

CountFunction = Callable[[RunPart, int], compiled.Counts]
"""Gives the counts of a part and a number of trials, the first of them trial 0."""


@dataclass(frozen=True, eq=False)
class ModelKernel:
    """One verifier's kernel on one model, as it runs: its counts follow from these alone.

    ``drafting``: the trees that are drafted for it; None: a single draft.
    """

    verifier: "Verifier | TreeVerifier"
    model: Model
    tables: Any
    gamma: int
    seed: int
    threads: int
    drafting: Drafting | None = field(default=None, kw_only=True)

    @property
    def by_slot(self) -> bool:
        """Whether a position is a slot of a single call, as for every rule without state."""
        return self.verifier.contract != "step"

    @property
    def one_draft(self) -> bool:
        """Whether slots are those of one drafted block, whose faults have closed laws."""
        return self.verifier.contract == "verify"

    @property
    def markov(self) -> bool:
        """Whether rows follow from the last token, so that tokens can be counted by row."""
        return isinstance(self.model, MarkovModel)

    @property
    def by_context(self) -> bool:
        """Whether contexts repeat often enough to judge every token after each of them."""
        return self.markov and self.rows.size <= compiled.MAX_CONTEXT_CELLS

    @property
    def positions(self) -> int:
        """How many positions are judged: the slots of a call, or twice gamma tokens."""
        return self.gamma + 1 if self.by_slot else 2 * self.gamma

    @property
    def trees(self) -> Drafting | None:
        """The trees of its kernel: a chain where a single draft's is a ``Family``, or None."""
        single = self.drafting is None and self.by_slot
        if single and isinstance(resolve_part(self.verifier.kernel), Family):
            return Drafting(shape_of_levels([1] * self.gamma), get_scheme("iid"))
        return self.drafting

    def position(self, index: int) -> str:
        """Name of a position, counted from 1."""
        return f"{'slot' if self.by_slot else 'position'} {index + 1}"

    @cached_property
    def rows(self) -> Floats:
        """Target rows (S+1, V) of a Markov model, in the order of the counts."""
        assert isinstance(self.model, MarkovModel)
        return compiled.stack_rows(self.model.target_rows, self.model.target_start)

    @cached_property
    def draft_rows(self) -> Floats:
        """Draft rows (S+1, V), in the same order."""
        assert isinstance(self.model, MarkovModel)
        return compiled.stack_rows(self.model.draft_rows, self.model.draft_start)

    @cached_property
    def cells(self) -> int:
        """How many cells of tokens are counted; V where there is room for every token."""
        if self.by_context:
            return self.model.vocab_size
        return compiled.fine_cell_count(self.model.vocab_size, len(self.rows), self.positions)

    def run(self, trials: int, first_trial: int = 0) -> compiled.Counts:
        """Count the tokens of ``trials`` calls, or generations for a rule with state."""
        # Every call emits a token, so this many calls fill the positions.
        calls = 1 if self.by_slot else self.positions
        return self._simulate(trials, first_trial, calls, self.positions)

    def first_calls(self, trials: int, first_trial: int = 0) -> compiled.Counts:
        """Run ``trials`` first calls, whatever the rule; tokens by slot where contexts repeat."""
        return self._simulate(trials, first_trial, 1, self.gamma + 1 if self.by_context else 0)

    def sample(self, trials: int, most: int | None = None) -> compiled.TokenSample:
        """Keep the first tokens that ``run`` counts: as many as ``trials`` emit at least.

        At most ``most``, by default ``MAX_STREAMED``; twice as many for a rule with state.
        """
        most = MAX_STREAMED if most is None else most
        # A call emits a token at least; a generation fills its positions.
        if self.by_slot:
            return self._sample(min(most, trials), 1, self.positions)
        size = min(2 * most, trials * self.positions)
        return self._sample(size, self.positions, self.positions)

    def count_nodes(self, trials: int) -> NodeCounts:
        """Count the nodes that the first ``trials`` calls kept, ``MAX_NODE_CALLS`` at most."""
        assert self.drafting is not None
        calls = min(trials, MAX_NODE_CALLS)
        counts = count_nodes(self.tables, self.verifier, self.drafting, calls, seed=self.seed)
        return NodeCounts(calls=calls, kept=tuple(counts.tolist()))

    def sample_first_calls(self, trials: int) -> compiled.TokenSample:
        """Keep the first tokens of single calls, whatever the rule."""
        return self._sample(min(MAX_STREAMED_CALLS, trials), 1, self.gamma + 1)

    def _sample(self, size: int, calls: int, positions: int) -> compiled.TokenSample:
        size = min(size, max(MAX_STREAMED_ENTRIES // self.model.vocab_size, 1))
        if self.trees is not None:
            return sample_trees(
                self.tables, self.verifier, self.trees, size, seed=self.seed, positions=positions
            )
        name = self.verifier.name
        return compiled.sample_tokens(
            self.tables, name, self.gamma, size, seed=self.seed, calls=calls, positions=positions
        )

    def _simulate(
        self, trials: int, first_trial: int, calls: int, positions: int
    ) -> compiled.Counts:
        counted: dict[str, Any] = {
            "first_trial": first_trial,
            "seed": self.seed,
            "threads": self.threads,
            "pit_positions": 0 if self.by_context else positions,
        }
        if self.markov:
            counted["transition_shape"] = positions, len(self.rows), self.cells
            counted["cells"] = compiled.cell_of_token(self.model.vocab_size, self.cells)
        if self.trees is not None:
            return simulate_trees(self.tables, self.verifier, self.trees, trials, **counted)
        name = self.verifier.name
        return compiled.simulate(self.tables, name, self.gamma, trials, calls=calls, **counted)


@dataclass(frozen=True, eq=False)
class KernelTrial(ModelKernel):
    """A kernel on trial: the laws that its counts are compared with, and its share of alpha.

    ``curve`` is the rule's own acceptance law, None where it is not known; ``optimum`` the one
    that no lossless rule of its kind exceeds: block verification's, or for a rule with state the
    coupling bound. ``counted``: gives trials that were counted already; None: they are run.
    """

    curve: AcceptanceCurve | None
    optimum: AcceptanceCurve
    alpha: float
    detect: float
    counted: CountFunction | None = field(default=None, kw_only=True)

    def run(self, trials: int, first_trial: int = 0) -> compiled.Counts:
        """As a kernel's, or counted already; pilots are always run."""
        if self.counted is not None and first_trial == 0:
            return self.counted("run", trials)
        return super().run(trials, first_trial)

    def first_calls(self, trials: int, first_trial: int = 0) -> compiled.Counts:
        """As a kernel's, or counted already."""
        if self.counted is not None and first_trial == 0:
            return self.counted("first calls", trials)
        return super().first_calls(trials, first_trial)


# Acceptance of a kernel: two separate questions.
#
# *Lossy*: no lossless rule accepts more often than the optimum of its kind, so a kernel that
# does is not lossless. *Not the declared rule*: a kernel whose accepted tokens, or tokens after
# several calls, do not follow the rule's own law may still be lossless.


ACCEPTANCE_DEVIATION = "shift of a Pr(tau >= l) out of its bounds"

NOT_JUDGED = battery.TestReport((), (), 0.0, "none, as the rule's exact distribution is not known")
"""Stands for the tests of acceptance where nothing is tested."""


@dataclass(frozen=True, eq=False)
class GenerationLengths:
    """Lengths after 1.. calls, and their ``exact`` means, None where they are not known.

    ``eos``: whether a token may end a generation before it has made all its calls.
    """

    counts: compiled.Counts
    exact: Sequence[float | Fraction] | None
    eos: bool


_OPTIMUM_WORDS = {
    "verify": "block verification's, which no lossless rule without state exceeds",
    "step": "the coupling bound, which no lossless rule exceeds",
    "tree": "the bound on such trees, which no lossless rule exceeds",
}


def lossy_test(
    trial: KernelTrial, counts: compiled.Counts, alpha: float
) -> tuple[stats.TestResult, tuple[str, ...]]:
    """Test that first calls accept no more than the optimum, at every level of tau."""
    _, upper, alpha = _tau_bounds(trial.optimum, trial.gamma, alpha)
    tails, lower = counts.tail_counts, np.zeros_like(upper)
    name = "acceptance above the optimum"
    test = stats.acceptance_test(tails, counts.trials, lower, upper, alpha=alpha, name=name)
    if not test.rejected:
        return test, ()
    finding = (
        f"lossy: Pr(tau >= {test.level}) is {test.statistic:.4f} above "
        f"{_OPTIMUM_WORDS[trial.verifier.contract]} (p = {battery.pvalue_words(test.log_pvalue)})"
    )
    return test, (finding,)


def judge_acceptance(
    trial: KernelTrial,
    counts: compiled.Counts,
    generations: GenerationLengths | None,
    shares: dict[str, float],
) -> battery.TestReport:
    """Test accepted tokens against the rule's own law, and tokens after calls, where known."""
    if trial.curve is None:
        return NOT_JUDGED
    lower, upper, alpha = _tau_bounds(trial.curve, trial.gamma, shares["acceptance"])
    law = stats.acceptance_test(counts.tail_counts, counts.trials, lower, upper, alpha=alpha)
    tests, findings = [law], []
    if law.rejected:
        findings.append(
            f"Pr(tau >= {law.level}) is {abs(law.statistic):.4f} {law.direction} the rule's exact "
            f"distribution (p = {battery.pvalue_words(law.log_pvalue)})"
        )
    if generations is not None and generations.exact is not None:
        exact = np.array(generations.exact, dtype=np.float64)
        lengths = _lengths_test(trial, generations, exact, shares["calls"])
        tests.append(lengths)
        if lengths.rejected:
            findings.append(
                f"tokens after {lengths.level} calls are {abs(lengths.statistic):.4f} "
                f"{lengths.direction} their exact mean "
                f"(p = {battery.pvalue_words(lengths.log_pvalue)})"
            )
    return battery.TestReport(
        tests=tuple(tests),
        findings=tuple(findings),
        detectable=acceptance_detectable(trial, counts.trials, shares["acceptance"]),
        deviation=ACCEPTANCE_DEVIATION,
    )


def acceptance_detectable(trial: KernelTrial, blocks: int, alpha: float) -> float:
    """Shift of a Pr(tau >= l) that a number of blocks finds with power .9.

    A level without room for a shift of ``trial.detect`` in a direction does not count there:
    nothing of that size can happen.
    """
    if trial.curve is None:
        return 0.0
    lower, upper, alpha = _tau_bounds(trial.curve, trial.gamma, alpha)
    lower = np.where(lower > trial.detect, lower, 0.0)
    upper = np.where(upper < 1.0 - trial.detect, upper, 1.0)
    if not lower.any() and (upper == 1.0).all():
        return 0.0
    return stats.acceptance_min_detectable(blocks, lower, upper, alpha=alpha)


def _tau_bounds(curve: AcceptanceCurve, gamma: int, alpha: float) -> tuple[Floats, Floats, float]:
    """Bounds on the law of tau, and the level left for a test against them."""
    if curve.sample is None:
        return curve.lower, curve.upper, alpha
    # Statistical bounds: half of the share pays for them, split over the levels.
    return *sample_bounds(curve.sample, alpha / 2 / gamma), alpha / 2


def _lengths_test(
    trial: KernelTrial, generations: GenerationLengths, exact: Floats, alpha: float
) -> stats.TestResult:
    counts = generations.counts
    sums, squares = counts.lengths
    calls = np.arange(1, len(sums) + 1)
    # Every call emits a token unless a generation has ended; what is above that is tested.
    least = np.ones_like(calls) if generations.eos else calls
    n = counts.trials
    test = stats.bounded_means_test(
        sums - n * least,
        squares - 2 * least * sums + n * least**2,
        n,
        exact - least,
        calls * (trial.gamma + 1) - least,
        alpha=alpha,
        name="tokens after calls",
    )
    return replace(test, deviation="shift of the mean tokens after calls")


# Tokens where contexts repeat: counts for the battery, and pairs of PITs.
#
# Counts see a wrong row. They do not see that a token depends on more than the one before, as with
# a stream that repeats or a buffer that is a call behind. Under the null the randomised PITs of all
# tokens in their order are independent, whatever their rows; so they are paired at short lags,
# within a trial and from one trial to the next.


MAX_PAIRED_TOKENS = 1 << 16
"""Most tokens whose PITs are paired; fixed beforehand, whatever the run's size."""

PAIR_LAGS = (1, 2)
"""Distances of the tokens of a pair. A row follows from the token before, and from no other."""


def order_two_tests(trial: KernelTrial, trials: int, alpha: float) -> Iterator[stats.TestResult]:
    """Run the first of ``trials`` trials again, keep their tokens and test their pairs."""
    # Where every row has a single possible token, it can depend on nothing.
    if not ((trial.rows > 0.0).sum(axis=1) > 1).any():
        return
    sample = trial.sample(trials, MAX_PAIRED_TOKENS)
    yield from lag_tests(ratio_order_pits(sample, trial.rows, trial.draft_rows), alpha)


def ratio_order_pits(sample: compiled.TokenSample, target: Floats, draft: Floats) -> Floats:
    """PITs (n,) in q/p order of tokens whose states are rows of ``target`` and ``draft``."""
    order = np.argsort(stats.order_key("ratio", target, draft), axis=1, kind="stable")
    ranked = np.take_along_axis(target, order, axis=1)
    below = np.empty_like(target)
    np.put_along_axis(below, order, np.cumsum(ranked, axis=1) - ranked, axis=1)
    cell = sample.states, sample.tokens
    pits: Floats = np.clip(below[cell] + sample.uniforms * target[cell], 0.0, 1.0)
    return pits


def lag_tests(pits: Floats, alpha: float) -> Iterator[stats.TestResult]:
    """Test PITs in the order of their tokens for dependence at each lag.

    All pairs at a lag for a correlation; disjoint ones for a table, which sees any dependence.
    """
    each = alpha / (2 * len(PAIR_LAGS))
    for lag in PAIR_LAGS:
        words = "in a row" if lag == 1 else f"{lag} apart"
        if len(pits) - lag >= MIN_PAIRS:
            sums = stats.pair_sums(pits[:-lag], pits[lag:])
            yield stats.pit_correlation(sums, alpha=each, name=f"tokens {words}, correlation")
        first = stats.disjoint_pairs(len(pits), lag, 0)
        if len(first) >= MIN_TABLE:
            table = stats.pit_table_g2(stats.pit_table(pits[first], pits[first + lag]))
            test = stats.g2_test(table, alpha=each, name=f"tokens {words}, 8 x 8 cells")
            yield replace(test, deviation="TV of pairs of PITs")


def judge_contexts(
    trial: KernelTrial,
    counts: compiled.Counts,
    shares: dict[str, float],
    first_calls: compiled.Counts | None = None,
) -> battery.TestReport:
    """Test the tokens of every position against the rows of their contexts.

    ``shares`` are those of :func:`~simverify.battery.battery.kernel_shares`. ``first_calls`` of a
    rule with state, counted by slot, tell which faults it has not; other rules' counts are of
    such calls themselves.
    """
    called = counts if trial.one_draft else first_calls
    faults = _fault_counts_by_slot(trial, called) if called is not None else None
    tested = faults if trial.one_draft else _fault_counts_by_position(trial, counts)
    ours = battery.context_shares(shares["output"])
    result = battery.judge_tokens(_slot_counts(trial, counts), tested, shares | ours)
    pairs = tuple(order_two_tests(trial, counts.trials, ours["pairs"]))
    tests = (*result.tests, *pairs)
    rejected = battery.rejection_findings(tests)
    failed = bool(rejected or result.violations)
    named = (
        None
        if faults is None
        else battery.diagnose_faults([faults], diagnose=failed and trial.by_slot)
    )
    place = None
    if failed:
        tokens = bool(result.violations) or any(test.rejected for test in result.tests)
        paired = any(test.rejected for test in pairs)
        place = _locate(trial, result.by_slot, named, tokens=tokens, independence=paired)
    return battery.TestReport(
        tests=tests,
        findings=(*result.violations, *rejected),
        detectable=result.detectable,
        deviation=ANY_DEVIATION,
        named=named,
        located=place,
    )


def predict_contexts(
    trial: KernelTrial, pilot: compiled.Counts, trials: int, shares: dict[str, float]
) -> float:
    """Return the ``detectable`` of a run of ``trials``, from the contexts of a pilot."""
    totals = np.rint(pilot.transitions.sum(axis=2) * (trials / pilot.trials)).astype(np.int64)
    parts = [stats.expected_g2(slot, trial.rows) for slot in totals if slot.any()]
    if not parts:
        return math.inf
    ours = battery.context_shares(shares["output"])
    return battery.detectable_deviation(parts, _slot_counts(trial, pilot), ours, power=0.9)


def _slot_counts(trial: KernelTrial, counts: compiled.Counts) -> Sequence[battery.SlotCounts]:
    return [
        battery.SlotCounts(trial.position(index), table, trial.rows, trial.draft_rows)
        for index, table in enumerate(counts.transitions)
    ]


def _fault_counts_by_slot(trial: KernelTrial, counts: compiled.Counts) -> battery.FaultCounts:
    """Counts of single calls from the empty prefix, and the faults' rows in every slot.

    A context is the last token, which gives the slot's own rows; the first slot's are those of the
    empty prefix. Judged slots after the first share their contexts.
    """
    assert isinstance(trial.model, MarkovModel)
    first, later, bonus = _fault_rows_by_slot(trial.model)
    p, gamma, tables = trial.rows, trial.gamma, counts.transitions
    parts = [(tables[0][-1:], p[-1:], first)]
    if gamma > 1:
        parts.append((tables[1:gamma].sum(axis=0), p, later))
    faults = battery.detectable_faults(prefix=False, first_row=True)
    return battery.fault_counts(faults, [*parts, (tables[gamma], p, bonus)])


@lru_cache(maxsize=1)
def _fault_rows_by_slot(model: MarkovModel) -> tuple[Floats, Floats, Floats]:
    """Rows of the known faults in the first slot of a call, in a later judged one, in the bonus.

    All rules of a comparison share them.
    """
    faults = battery.detectable_faults(prefix=False, first_row=True)
    p = compiled.stack_rows(model.target_rows, model.target_start)
    q = compiled.stack_rows(model.draft_rows, model.draft_start)
    # Rows (contexts, 2, V) of a call's first slot and of a later one.
    target, draft = (
        np.stack([np.broadcast_to(rows[-1:], rows.shape), rows], axis=1) for rows in (p, q)
    )
    prefixes = [(0,)] * len(p)
    return (
        battery.single_slot_rows(faults, p[-1:], q[-1:]),
        battery.slot_rows(faults, target, draft, prefixes),
        battery.slot_rows(faults, target, draft[:, :1], prefixes),
    )


def _fault_counts_by_position(trial: KernelTrial, counts: compiled.Counts) -> battery.FaultCounts:
    """Counts of generations, compared with the faults' law of a judged slot.

    A position of a rule with state is a slot of no call, and on draft trees a slot judges several
    drafts: so faults are directions in which tokens may leave the target, not their laws.
    """
    faults = battery.detectable_faults(prefix=False, first_row=False)
    rows = battery.single_slot_rows(faults, trial.rows, trial.draft_rows)
    return battery.fault_counts(faults, [(counts.transitions.sum(axis=0), trial.rows, rows)])


# A kernel's first tokens where contexts are too many: each against its own two rows.
#
# Named faults, the score bank, a third order of PITs and pairs of tokens need the whole rows of
# every token; so they judge the first tokens of a run, a number that is fixed beforehand. The
# promise does not rest on them, but on the PITs of all tokens.


DESCENDING_TEST_NAME = "PIT in descending P order"  # the test of the third order, by its name

_LOG_EVALUE_ROUNDING = 1e-9

_PIT_CELLS = 64  # cells of PITs, for how much of a deviation a fault explains


@dataclass(frozen=True, eq=False)
class StreamedTokens:
    """The first tokens of a run and their ``features``.

    ``judged``: bool (n,), whether a token's slot judged a draft. ``calls``: likelihood ratios in
    the slots of single calls, which refute faults. They are those of ``features`` but for a rule
    with state: a position of its generations is a slot of no call, so in ``features`` the faults
    are directions in which tokens may leave the target.
    """

    tokens: compiled.TokenSample
    judged: npt.NDArray[np.bool_]
    features: compiled.Features
    calls: stats.RatioSums
    rows: compiled.RowLookup

    @classmethod
    def of(cls, trial: KernelTrial, trials: int) -> "StreamedTokens":
        """Run the first of ``trials`` trials again and keep their tokens."""
        rows = compiled.RowLookup.of(trial.model, trial.tables)
        tokens = trial.sample(trials)
        by_slot = trial.by_slot
        judged = tokens.positions < (trial.gamma if by_slot else trial.positions)
        features = calls = compiled.sample_features(tokens, rows, judged, trial.threads)
        if not by_slot:
            first = trial.sample_first_calls(trials)
            calls = compiled.sample_features(
                first, rows, first.positions < trial.gamma, trial.threads
            )
        return cls(tokens, judged, features, calls.ratios, rows)

    def tests(self, shares: dict[str, float]) -> tuple[stats.TestResult, ...]:
        """Test the tokens: ``shares`` of "ratios", "scores", "descending" and "pairs"."""
        features, name = self.features, DESCENDING_TEST_NAME
        gate = stats.ratio_gate(features.ratios, alpha=shares["ratios"], name="named faults")
        descending = stats.pit_ks(features.pits[2], alpha=shares["descending"], name=name)
        words = f"mean one-token TV of the first {features.n:,} tokens, monotone in descending P"
        return (
            gate.test,
            *battery.feature_scores(features, shares["scores"]),
            replace(descending, deviation=words),
            *battery.feature_pairs(features, shares["pairs"]),
        )

    def named(self, *, diagnose: bool) -> battery.FaultDiagnosis:
        """Say which faults are refuted, and on ``diagnose`` which fits best."""
        result = stats.ratio_gate(self.calls, alpha=0.5, beta=battery.REFUTATION_BETA)
        # With ratios of 1, but for rounding, a fault emits the target itself in these slots.
        away = np.abs(self.calls.log_evalues) > _LOG_EVALUE_ROUNDING * self.calls.n
        identifiable = {self.calls.names[m] for m in np.flatnonzero(away.any(axis=1))}
        best = result.best if diagnose and result.best.log_evalue > 0.0 else None
        return battery.FaultDiagnosis(
            refuted=result.refuted,
            not_refuted=tuple(fault for fault in result.not_refuted if fault in identifiable),
            best=best,
            explains=0.0 if best is None else self._explained(best),
        )

    def _explained(self, best: stats.FaultAtStrength) -> float:
        """Part of the PITs' excess over chance, in all orders, that the fault's law explains.

        Tokens of the mixture, each weighted by P over the mixture, follow P on average.
        """
        size = len(self.tokens.tokens)
        pits, ratios = compiled.pits_and_ratios(self.tokens, self.rows, self.judged)
        mixed = 1.0 - best.strength + best.strength * ratios[self.calls.names.index(best.fault)]
        with np.errstate(divide="ignore"):
            weights = 1.0 / mixed
        cells = np.minimum((pits * _PIT_CELLS).astype(np.int64), _PIT_CELLS - 1)

        def excess(weights: Floats) -> tuple[float, float]:
            expected, total, noise = size / _PIT_CELLS, 0.0, 0.0
            for row in cells:
                variance = np.bincount(row, weights**2, _PIT_CELLS)
                total += (
                    (np.bincount(row, weights, _PIT_CELLS) - expected) ** 2 - variance
                ).sum() / expected
                # The orders may have all their noise in common.
                noise += np.sqrt(2.0 * (variance**2).sum()) / expected
            return float(total), float(noise)

        whole, (left, noise) = excess(np.ones(size))[0], excess(weights)
        # An excess within two standard deviations of chance counts as explained.
        left = max(left - 2.0 * noise, 0.0)
        return max(0.0, 1.0 - left / whole) if whole > 0.0 else 0.0


# Emitted tokens where contexts are too many: randomised PITs, and cells of tokens.
#
# PITs in q/p and in token order see the deviations that are monotone in one of them, at any
# vocabulary. A Markov model's tokens are counted after each row too: every token, or cells by a
# hash, as fine as a table has room for; and these merged to 64. The promise rests on the PITs.
# Beside it stand the deviations that the counts find, and the first tokens with their whole rows
# (:class:`StreamedTokens`): named faults, scores, a third order, pairs.


PIT_DEVIATION = "mean one-token TV, monotone in q/p or in token order"

PIT_ORDERS = ("q/p order", "token order")


def judge_pits(
    trial: KernelTrial, counts: compiled.Counts, shares: dict[str, float], first: StreamedTokens
) -> battery.TestReport:
    """Test the PITs of every position, the first tokens, and for a Markov model cells of tokens.

    ``shares`` are those of :func:`~simverify.battery.battery.kernel_shares`.
    """
    shares = shares | battery.pit_shares(shares["output"], cells=trial.markov)
    findings = []
    if counts.unsupported:
        findings.append(f"support: {counts.unsupported} tokens of probability 0 emitted")
    each = _alpha_per_test(trial, shares)
    by_order = [
        [
            stats.pit_ks(bins, alpha=each, name=f"PIT in {order}, {trial.position(position)}")
            for position, bins in enumerate(histograms)
            if bins.any()
        ]
        for order, histograms in zip(PIT_ORDERS, counts.pits, strict=True)
    ]
    cells = list(_cell_tests(trial, counts, shares)) if trial.markov else []
    streamed = first.tests(shares)
    tests = [*by_order[0], *by_order[1], *cells, *streamed]
    findings += battery.rejection_findings(tests)
    named = first.named(diagnose=bool(findings) and trial.by_slot)
    beside = [*cells, *(test for test in streamed if test.name == DESCENDING_TEST_NAME)]
    by_slot = np.zeros(trial.positions)
    # Both orders have the same positions.
    (seen,) = counts.pits[0].any(axis=1).nonzero()
    for results in by_order:
        by_slot[seen] = np.minimum(by_slot[seen], [test.log_pvalue for test in results])
    return battery.TestReport(
        tests=tuple(tests),
        findings=tuple(findings),
        # Both orders have the same tokens and level, so they find the same distance.
        detectable=_weighted_limit([(test.n, test.min_detectable) for test in by_order[0]]),
        deviation=PIT_DEVIATION,
        beside=tuple((test.deviation, test.min_detectable) for test in beside),
        named=named,
        located=_locate(trial, by_slot.tolist(), named) if findings else None,
    )


def _locate(
    trial: KernelTrial,
    by_slot: Sequence[float],
    named: battery.FaultDiagnosis | None,
    *,
    tokens: bool = True,
    independence: bool = False,
) -> battery.FaultLocation:
    """Return where the tests of the slots, ln p each, and the named faults point."""
    bonus = trial.gamma if trial.by_slot else None
    evidence = battery.LocalisationEvidence(
        independence, tokens, False, tuple(by_slot), bonus, named
    )
    return battery.locate_fault(evidence)


def predict_pits(
    trial: KernelTrial, pilot: compiled.Counts, trials: int, shares: dict[str, float]
) -> float:
    """Return the ``detectable`` of a run of ``trials``, from the positions of a pilot."""
    each = _alpha_per_test(trial, battery.pit_shares(shares["output"], cells=trial.markov))
    totals = pilot.pits[0].sum(axis=1) * (trials / pilot.trials)
    sizes = [int(total) for total in totals if total >= 1]
    return _weighted_limit(
        [(n, stats.ks_min_detectable(n, alpha=each, bins=compiled.PIT_BINS)) for n in sizes]
    )


def _alpha_per_test(trial: KernelTrial, shares: dict[str, float]) -> float:
    return shares["pits"] / (len(PIT_ORDERS) * trial.positions)


def _weighted_limit(parts: list[tuple[int, float]]) -> float:
    """Mean TV that must exceed some position's own limit, whichever it falls on."""
    total = sum(n for n, _ in parts)
    return sum(n * min(limit, 1.0) for n, limit in parts) / total


def _cell_tests(
    trial: KernelTrial, counts: compiled.Counts, shares: dict[str, float]
) -> Iterator[stats.TestResult]:
    """Transitions between rows and cells of tokens, pooled over positions."""
    vocab_size = trial.model.vocab_size
    rows = compiled.merge_cells(trial.rows, compiled.cell_of_token(vocab_size, trial.cells))
    coarse = compiled.coarse_cells(trial.cells, vocab_size)
    tables = [table for table in counts.transitions if table.any()]
    yield from _transition_tests(
        [
            (compiled.merge_cells(table, coarse), compiled.merge_cells(rows, coarse))
            for table in tables
        ],
        shares["coarse"],
        f"between {compiled.COARSE_CELLS} cells of tokens",
    )
    if trial.cells > compiled.COARSE_CELLS:
        every = trial.cells == vocab_size
        words = "of every token" if every else f"between {trial.cells} cells of tokens"
        yield from _transition_tests([(table, rows) for table in tables], shares["fine"], words)


def _transition_tests(
    tables: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]], alpha: float, words: str
) -> Iterator[stats.TestResult]:
    g2 = reduce(add, (stats.transition_g2(table, rows) for table, rows in tables))
    if g2.df > 0:
        test = stats.g2_test(g2, alpha=alpha, name=f"transitions {words}")
        yield replace(test, deviation=f"mean one-token TV {words}")


# The sampled check: plan, run, test.
#
# An exact check of a readable rule says nothing about its kernel, so the kernel itself is always
# sampled. Positions are a call's slots for a rule without state, and absolute positions in a
# generation for a rule with state, whose slots follow no target (design: "lossless").


MIN_BLOCKS = 1_000_000
MIN_NGRAM_BLOCKS = 300_000
MAX_BLOCKS = 1 << 26

PILOT_BLOCKS = 1 << 15
PILOT_SHARE = 16  # a pilot has at least one in 16 of the trials of the run that it plans
PILOT_TRIALS = 1 << 61  # first trial of pilot runs: they size a run and never enter its tests

PIT_MARGIN = 0.98
"""Share of the deviation to detect that is planned for: a run's tokens differ from a pilot's."""

CONTEXT_MARGIN = 0.94
"""The same where contexts count, some of them rarely reached: of 60 runs the worst found 1.03 times
what it was planned for.
"""

CERTIFICATE_DELTA = 1e-3


@dataclass(frozen=True, eq=False)
class SampledCheck:
    """Tests of one kernel on ``counts``, which took ``seconds`` to simulate.

    ``lossless`` judges its tokens, and acceptance above the optimum; ``acceptance`` whether
    it accepts as the declared rule does.
    """

    counts: compiled.Counts
    lossless: battery.TestReport
    acceptance: battery.TestReport
    certificate: stats.Certificate
    seconds: float

    @property
    def tests(self) -> tuple[stats.TestResult, ...]:
        """All tests, those of the declared rule last."""
        return self.lossless.tests + self.acceptance.tests

    @property
    def findings(self) -> tuple[str, ...]:
        """All findings, in words."""
        return self.lossless.findings + self.acceptance.findings


def plan_blocks(trial: KernelTrial, *, calls: bool = False) -> int:
    """Return how many first calls make the intervals narrow and the acceptance test sharp."""
    floor = MIN_BLOCKS if trial.markov else MIN_NGRAM_BLOCKS
    alpha = battery.kernel_shares(trial.alpha, calls=calls)["acceptance"]
    return _min_detecting_trials(
        floor, trial.detect, lambda blocks: acceptance_detectable(trial, blocks, alpha)
    )


def plan_trials(trial: KernelTrial, *, calls: bool = False) -> int:
    """Return how many trials find a deviation of ``trial.detect`` with power .9.

    Sized on a pilot run of other trials. Where contexts count and the run turns out long, the
    pilot is repeated at more length, as a short one misses rare contexts. Up to ``MAX_BLOCKS``,
    from a floor that makes the intervals narrow; the floor where more trials would not keep the
    promise.
    """
    floor, least = plan_blocks(trial, calls=calls), PILOT_BLOCKS
    if not trial.by_slot:
        # A generation fills all its positions: fewer give as many tokens.
        floor, least = max(floor // trial.gamma, 1), least // trial.gamma
    shares = battery.kernel_shares(trial.alpha, calls=calls)
    predict = predict_contexts if trial.by_context else predict_pits
    margin = CONTEXT_MARGIN if trial.by_context else PIT_MARGIN
    size, trials = least, floor
    for first in (PILOT_TRIALS, PILOT_TRIALS + MAX_BLOCKS):
        pilot = trial.run(size, first)
        trials = _min_detecting_trials(
            floor,
            margin * trial.detect,
            lambda n, pilot=pilot: predict(trial, pilot, n, shares),  # type: ignore[misc]
        )
        size = trials // PILOT_SHARE
        if size <= least or not trial.by_context:
            break
    return trials


def _min_detecting_trials(floor: int, detect: float, detectable: Callable[[int], float]) -> int:
    """Return the first number, in steps of a twentieth, that detects small enough a deviation.

    ``floor`` if it is enough or if none up to ``MAX_BLOCKS`` is.
    """
    steps = [floor]
    while steps[-1] < MAX_BLOCKS:
        steps.append(max(steps[-1] * 21 // 20, steps[-1] + 1))
    low, high = 0, len(steps) - 1
    if detectable(steps[low]) <= detect or detectable(steps[high]) > detect:
        return floor
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if detectable(steps[middle]) <= detect else (middle, high)
    return steps[high]


def sampled_check(
    trial: KernelTrial,
    trials: int,
    first_calls: compiled.Counts | None = None,
    generations: GenerationLengths | None = None,
) -> SampledCheck:
    """Run and test the kernel.

    ``first_calls``: counts of first calls by slot, for the acceptance tests of a rule with state,
    whose own run keeps only the tokens of whole generations. ``generations``: the tokens after
    several calls, where they are compared.
    """
    clock = time.perf_counter()
    counts = trial.run(trials)
    seconds = time.perf_counter() - clock
    first = first_calls or counts
    shares, delta = (
        battery.kernel_shares(trial.alpha, calls=generations is not None),
        CERTIFICATE_DELTA,
    )
    if trial.by_context:
        lossless = judge_contexts(trial, counts, shares, first_calls)
        certificate = battery.certify_slots(_slot_counts(trial, counts), delta=delta)
    else:
        lossless = judge_pits(trial, counts, shares, StreamedTokens.of(trial, trials))
        certificate = stats.monotone_certificate(counts.pits[0].sum(axis=0), delta=delta)
    test, lossy = lossy_test(trial, first, shares["lossy"])
    located = lossless.located
    if lossy and (located is None or located.part is None):
        why = "more is accepted than any lossless rule may accept"
        located = battery.FaultLocation("accept", None, why)
    tests, findings = (*lossless.tests, test), (*lossless.findings, *lossy)
    return SampledCheck(
        counts,
        replace(lossless, tests=tests, findings=findings, located=located),
        judge_acceptance(trial, first, generations, shares),
        certificate,
        seconds,
    )
