"""An exact law against its target: how far it is, where, and how much of that rounding explains.

Rounding is no fault, and a coarse dtype is no excuse. The tolerance follows the coarsest
dtype that met a draw or a probability on the way. Above it, a deviation is a fault. Below
it, a deviation that only 16-bit arithmetic could excuse has to prove it: the code runs again
with its 16-bit types replaced by float64, and what then remains is held to float32's
tolerance. Such second runs also find the casts that no draw met, as in ``float(p32 / q32)``
or in rows that were kept in bfloat16 and are float32 by the time they are used.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, Literal

import numpy as np

from simverify.arrays import Row
from simverify.auditing.enumeration import (
    DEFAULT_BUDGET,
    ComposedLaw,
    TargetAndDraft,
    block_arguments,
    enumerate_block,
)
from simverify.results import DraftCall, Localisation
from simverify.symbolic import CannotEnumerate, Enumeration, ExactLaw, Finding, Float64Promotion
from simverify.symbolic.engine import Budget, Spending
from simverify.symbolic.outcomes import Tokens
from simverify.symbolic.promotion import forget_holders
from simverify.symbolic.provenance import keep_most_severe

# Laws of token sequences of different lengths, and how far apart two of them are.
#
# A sequence that ends early stands for all that begin with it, in the target's proportions;
# one after which nothing is known stands for its own probability alone. Two laws are compared
# on the coarsest partition that both know, so nothing is lost and nothing is spread out.


@dataclass(frozen=True)
class LawTree:
    """A law of sequences.

    ``ends``: probability of each, which is completed with the target; ``open``: of those after
    which nothing is known. ``row(tokens)``: the target's row (V,) after the tokens.
    """

    ends: Mapping[Tokens, float]
    row: Callable[[Tokens], Row]
    open: Mapping[Tokens, float]

    @cached_property
    def through(self) -> dict[Tokens, float]:
        """Probability of the sequences that begin with each of their beginnings."""
        masses: dict[Tokens, float] = {}
        for tokens, mass in (*self.ends.items(), *self.open.items()):
            for i in range(len(tokens) + 1):
                masses[tokens[:i]] = masses.get(tokens[:i], 0.0) + mass
        return masses

    @cached_property
    def inner(self) -> frozenset[Tokens]:
        """Beginnings that some longer sequence has, and after which all is known."""
        return frozenset(
            tokens[:i]
            for tokens in (*self.ends, *self.open)
            for i in range(len(tokens))
            if not any(tokens[:j] in self.open for j in range(i + 1))
        )

    def mass(self, tokens: Tokens) -> float:
        """Probability that a sequence begins with ``tokens``; NaN where that is not known."""
        inflow = 0.0
        for i, token in enumerate(tokens):
            before = tokens[:i]
            if before in self.open:
                return math.nan
            out = inflow + self.ends.get(before, 0.0)
            inflow = out * float(self.row(before)[token]) if out else 0.0
        return inflow + self.through.get(tokens, 0.0)


@dataclass(frozen=True)
class Transcripts:
    """A law of what a drafter returned, call after call: the reported row and the tokens."""

    ends: Mapping[tuple[Any, ...], float]


@dataclass(frozen=True)
class TreeCell:
    """Sequences that begin with ``tokens``, and their probabilities by two laws."""

    tokens: Tokens
    one: float
    other: float

    @property
    def gap(self) -> float:
        """How far apart the two are."""
        return abs(self.one - self.other)


def target_tree(row: Callable[[Tokens], Row]) -> LawTree:
    """Return the target's own law."""
    return LawTree({(): 1.0}, row, {})


def common_cells(one: LawTree, other: LawTree) -> Iterator[tuple[TreeCell, bool]]:
    """Yield the cells of all beginnings that both know, and whether they are parted no further."""
    waiting: list[tuple[Tokens, float, float]] = [((), 0.0, 0.0)]
    while waiting:
        tokens, in_one, in_other = waiting.pop()
        cell = TreeCell(
            tokens, in_one + one.through.get(tokens, 0.0), in_other + other.through.get(tokens, 0.0)
        )
        inner = tokens in one.inner or tokens in other.inner
        last = not inner or tokens in one.open or tokens in other.open
        yield cell, last
        if last:
            continue
        row = one.row(tokens)
        out_one = in_one + one.ends.get(tokens, 0.0)
        out_other = in_other + other.ends.get(tokens, 0.0)
        for token in range(len(row) - 1, -1, -1):
            share = float(row[token])
            waiting.append(((*tokens, token), out_one * share, out_other * share))


def gaps_by_position(one: LawTree, other: LawTree) -> tuple[list[float], TreeCell]:
    """Return the TV of the first j + 1 tokens for each j, and the last cell of largest gap."""
    gaps: dict[int, float] = defaultdict(float)
    last_gaps: dict[int, float] = defaultdict(float)
    worst: TreeCell | None = None
    for cell, last in common_cells(one, other):
        gaps[len(cell.tokens)] += cell.gap
        if last:
            last_gaps[len(cell.tokens)] += cell.gap
            if worst is None or cell.gap > worst.gap:
                worst = cell
    assert worst is not None
    tvs, above = [], 0.0
    for depth in range(1, max(gaps) + 1):
        above += last_gaps[depth - 1]
        tvs.append((gaps[depth] + above) / 2)
    return tvs or [0.0], worst


def largest_excess(one: LawTree, other: LawTree) -> float:
    """Return by how much the first law is above the second, in the last cell where it is most."""
    return max(0.0, max(cell.one - cell.other for cell, last in common_cells(one, other) if last))


def prefix_probability(law: Row | LawTree | Transcripts, tokens: Tokens) -> float:
    """Probability that a sequence begins with ``tokens``; ``law`` may be an array (V,) * length."""
    assert not isinstance(law, Transcripts), "what a drafter returned is no output"
    return law.mass(tokens) if isinstance(law, LawTree) else float(law[tokens].sum())


def total_variation(one: Row | LawTree | Transcripts, other: Row | LawTree | Transcripts) -> float:
    """Total variation distance of two laws of one form, as far as both are known."""
    if isinstance(one, Transcripts) and isinstance(other, Transcripts):
        met = {*one.ends, *other.ends}
        return sum(abs(one.ends.get(x, 0.0) - other.ends.get(x, 0.0)) for x in met) / 2
    if not isinstance(one, LawTree) or not isinstance(other, LawTree):
        return float(np.abs(one - other).sum() / 2)  # type: ignore[operator]
    return sum(cell.gap for cell, last in common_cells(one, other) if last) / 2


Stage = Literal["accepted", "residual", "bonus"]


@dataclass(frozen=True)
class OutputSequence:
    """One output sequence: the probability it is emitted with and the one that is due."""

    tokens: Tokens
    emitted: float
    due: float


@dataclass(frozen=True)
class Comparison:
    """An exact law against its target.

    ``max_abs_deviation``: over sequences of full length, ``pruned`` included; ``excess``: the
    largest deviation upwards. ``tv``: total variation distance. ``expected_accepted``: E[tau];
    ``bonus``: mass of calls that emit gamma + 1 tokens. ``worst``: the sequence that deviates most.
    ``emitted``: the law, float64 (V,) * length or a tree. ``place``: None where no position
    deviates by more than ``tolerance``, by default that of ``dtype``, the coarsest precision that
    met a draw. ``broken``: the first drafted block on which the code broke its contract;
    ``broken_parents``: its shape where it is a tree. ``met_at``: the line where a draw first met
    ``dtype``. ``impossible``: mass on sequences with p = 0. ``call``: of a drafter; ``worst`` is
    then conditional on what the drafter reports and on the number of tokens.
    """

    max_abs_deviation: float
    tv: float
    worst: OutputSequence
    place: Localisation | None
    expected_accepted: float | None
    bonus: float | None
    paths: int
    pruned: float
    lost: float
    complete: bool
    findings: tuple[Finding, ...]
    emitted: Row | LawTree | Transcripts
    dtype: str
    broken: Tokens | None = None
    broken_parents: Tokens | None = None
    excess: float = 0.0
    call: DraftCall | None = None
    met_at: str = ""
    impossible: float = 0.0


RARE_PROBABILITY = 1e-6
"""Up to this probability it is an event at the edge of a draw, which the probes tell of."""


IMPOSSIBLE_TOKEN = "impossible-token"


def add_impossible_finding(comparison: Comparison, mass: float, tolerance: float) -> Comparison:
    """Add the finding where so much mass is on sequences with p = 0 and is within tolerance."""
    if mass <= RARE_PROBABILITY or tolerance <= RARE_PROBABILITY:
        return comparison
    finding = Finding(
        IMPOSSIBLE_TOKEN,
        "violation",
        f"emits tokens of target probability 0 with probability {mass:.3g}: no rounding does that",
    )
    return replace(comparison, findings=(*comparison.findings, finding), impossible=mass)


def impossible_mass(probabilities: Mapping[Tokens, float], row: Callable[[Tokens], Any]) -> float:
    """Return the probability of sequences in which a token has p = 0 after those before it."""

    def is_impossible(tokens: Tokens) -> bool:
        return any(row(tokens[:i])[token] == 0 for i, token in enumerate(tokens))

    return float(np.sum([x for tokens, x in probabilities.items() if is_impossible(tokens)]))


HALF_PRECISIONS = ("float16", "bfloat16")

HIDDEN_HALF_PRECISION = " or ".join(HALF_PRECISIONS)
"""The name of a 16-bit precision that no draw met: it is one of the two."""

TOLERANCE_BY_DTYPE = {
    "float64": 1e-9,
    "float32": 1e-6,
    "float16": 2e-2,
    "bfloat16": 2e-2,
    HIDDEN_HALF_PRECISION: 2e-2,
}
"""Largest deviation that is rounding, by the coarsest precision met, finest first."""

FLOAT16_ROUNDING = TOLERANCE_BY_DTYPE["bfloat16"] / 8
"""Largest deviation that float16 makes: it has three bits more than bfloat16. A larger one that is
gone in float64 may be a step that the code takes in float16 alone."""


@dataclass(frozen=True)
class PrecisionCheck:
    """A comparison and what it is held to.

    ``dtype``: the coarsest precision met, or found hidden. ``lifted``: the comparison is of
    the code computing in float64, where it still deviates. ``doubt``: why the deviation cannot be
    told from rounding, although it is within the tolerance; then there is no verdict.
    """

    comparison: Comparison
    tolerance: float
    dtype: str
    lifted: bool = False
    doubt: str = ""


def coarsest_dtype(dtypes: set[str]) -> str:
    """Return the coarsest of the names, "float64" if there is none."""
    return max(dtypes, key=list(TOLERANCE_BY_DTYPE).index, default="float64")


def certain_deviation(comparison: Comparison) -> float:
    """Largest deviation less what may lie in branches that were not run.

    Lost calls may explain what is missing, but nothing of what is too much.
    """
    missing = comparison.max_abs_deviation - 2 * comparison.pruned - comparison.lost
    return max(missing, comparison.excess - comparison.pruned)


_DOUBLE, _SINGLE, _HALF = (
    TOLERANCE_BY_DTYPE[name] for name in ("float64", "float32", HIDDEN_HALF_PRECISION)
)

PromotedComparison = Callable[[Float64Promotion | None], Comparison]
"""``compare(lift)``: the comparison of code that computes with its types lifted to float64."""


def assess_precision(compare: PromotedComparison, tolerance: float | None) -> PrecisionCheck:
    """Decide what ``compare(None)`` is held to; ``tolerance`` if that is given."""
    comparison = compare(None)
    dtype, gap = comparison.dtype, certain_deviation(comparison)
    if tolerance is not None:
        return PrecisionCheck(comparison, tolerance, dtype)
    usual = PrecisionCheck(comparison, TOLERANCE_BY_DTYPE[dtype], dtype)
    if _SINGLE < gap <= _HALF:
        lifted = _promoted_comparison(compare, "half")
        if lifted is None:
            place = f" at {comparison.met_at}" if comparison.met_at else ""
            why = f"{dtype}{place} could not be replaced by float64 to tell them apart"
            return _doubted(usual, why) if dtype in HALF_PRECISIONS else usual
        if dtype in HALF_PRECISIONS:
            if certain_deviation(lifted) > _SINGLE:
                return PrecisionCheck(lifted, _SINGLE, dtype, lifted=True)
            if dtype == "float16" and gap > FLOAT16_ROUNDING:
                why = f"in float64 it is gone, but float16 rounds by less than {FLOAT16_ROUNDING:g}"
                return _doubted(usual, why)
        elif _is_single_rounding(compare, lifted):
            return PrecisionCheck(comparison, _HALF, HIDDEN_HALF_PRECISION)
    elif (
        dtype not in HALF_PRECISIONS
        and gap > TOLERANCE_BY_DTYPE[dtype]
        and _is_single_rounding(compare, comparison)
    ):
        return PrecisionCheck(comparison, _SINGLE, "float32")
    return usual


def _doubted(check: PrecisionCheck, why: str) -> PrecisionCheck:
    """Return the check of a deviation that may be the rounding of its dtype or a fault."""
    doubt = (
        f"it deviates by {check.comparison.max_abs_deviation:.2g}, which may be the rounding of "
        f"{check.dtype} or a fault: {why}. Cast by the type's name (np.float16, torch.bfloat16), "
        f"without a view of its bits, or pass --tolerance {check.tolerance:g} to accept either"
    )
    return replace(check, doubt=doubt)


def assess_reported_precision(
    compare: PromotedComparison, tolerance: float | None
) -> PrecisionCheck:
    """As :func:`assess_precision`, of a drafter: 16-bit arithmetic excuses nothing.

    A row that is reported in 16 bits, of tokens that were drawn in 32, is the very fault.
    """
    comparison = compare(None)
    dtype, gap = comparison.dtype, certain_deviation(comparison)
    if tolerance is None and gap <= _DOUBLE:
        return PrecisionCheck(comparison, _DOUBLE, "float64")
    if tolerance is None and gap <= _SINGLE and (dtype != "float64" or _is_rounding(compare)):
        return PrecisionCheck(comparison, _SINGLE, "float32")
    return PrecisionCheck(comparison, _DOUBLE if tolerance is None else tolerance, dtype)


def _is_rounding(compare: PromotedComparison) -> bool:
    """Whether nothing is left of a deviation in code whose float32 is lifted."""
    lifted = _promoted_comparison(compare, "single")
    return lifted is not None and certain_deviation(lifted) <= _DOUBLE


def _is_single_rounding(compare: PromotedComparison, comparison: Comparison) -> bool:
    """Whether rounding to float32 or float64, seen or hidden, explains the deviation."""
    left = certain_deviation(comparison)
    usual = TOLERANCE_BY_DTYPE[comparison.dtype]
    return left <= usual or (left <= _SINGLE and _is_rounding(compare))


def _promoted_comparison(compare: PromotedComparison, lift: Float64Promotion) -> Comparison | None:
    """Return the comparison of the lifted code; None if it does not run or is not lifted.

    An exhausted budget is raised: it proves nothing, least of all a failure.
    """
    try:
        lifted = compare(lift)
        if lifted.dtype in HALF_PRECISIONS and forget_holders():
            lifted = compare(lift)  # the code may hold its types elsewhere by now
    except CannotEnumerate:
        return None
    whole = lifted.complete and lifted.lost == 0
    return lifted if whole and lifted.dtype not in HALF_PRECISIONS else None


# The joint law of a call from the laws of single blocks, and where it leaves the target.


def law_fields(
    laws: Sequence[tuple[float, ExactLaw | ComposedLaw]], dtypes: Iterable[str] = ()
) -> dict[str, Any]:
    """Return a comparison's fields of how its laws were run; ``dtypes``: precisions met besides."""
    findings: dict[str, Finding] = {}
    pruned = lost = 0.0
    for mass, law in laws:
        pruned += mass * law.pruned
        lost += mass * law.lost
        for finding in law.findings:
            keep_most_severe(findings, finding)
    met = {name: line for _, law in laws for name, line in law.dtypes.items()}
    dtype = coarsest_dtype({*dtypes, *met})
    return {
        "paths": sum(law.paths for _, law in laws),
        "pruned": pruned,
        "lost": lost,
        "complete": all(law.complete for _, law in laws),
        "findings": tuple(findings.values()),
        "dtype": dtype,
        "met_at": met.get(dtype, ""),
    }


def compare_blocks(
    enumeration: Enumeration,
    verify: Callable[..., Any],
    model: TargetAndDraft,
    gamma: int,
    *,
    expected: Callable[[Tokens], Row] | None = None,
    tolerance: float | None = None,
    budget: Budget = DEFAULT_BUDGET,
) -> Comparison:
    """Joint law of a call over all drafted blocks, completed to gamma+1, against the target.

    Each block x ~ draft is verified exactly and what it emits is completed with plain target
    samples (Sun et al. 2025, Lemma 2). ``expected``: the target's rows that the output follows,
    where the code gets others. ``budget`` is for all blocks together. The enumeration
    may serve many instances: replays that look for untracked randomness are then paid for once.
    Raises as :func:`~simverify.auditing.enumeration.enumerate_verify` does.
    """
    vocab, spending = len(model.target(())), Spending(budget)
    laws: list[tuple[Tokens, float, ExactLaw]] = []
    for block in itertools.product(range(vocab), repeat=gamma):
        mass = sequence_probability(model.draft, block)
        if mass <= 0:
            continue
        # What is left out of one block is known as well as of another: each gets its part.
        run = partial(enumerate_block, enumeration, verify, *block_arguments(model, block))
        law = spending.take(run, parts=vocab**gamma)
        laws.append((block, mass, law))
        if not law.complete:
            break
    return compare_laws(laws, expected or model.target, gamma, tolerance)


def compare_tokens(
    law: ExactLaw | ComposedLaw,
    target: Callable[[Tokens], Row],
    *,
    tolerance: float | None = None,
    accepted: float | None = None,
) -> Comparison:
    """Compare a step rule's law of the first tokens of its output with the target's.

    ``target(tokens)``: the target's row (V,) after those tokens of the output. Sequences that
    ``law`` leaves open are compared as far as they go. ``accepted``: E[tau], if it is known; the
    tokens of several calls do not tell it.
    """
    fields = law_fields([(1.0, law)])
    bound = TOLERANCE_BY_DTYPE[fields["dtype"]] if tolerance is None else tolerance
    row = cache(target)
    emitted, expected = LawTree(law.probabilities, row, law.open), target_tree(row)
    tvs, worst = gaps_by_position(emitted, expected)
    position = next((i for i, tv in enumerate(tvs) if tv > bound), None)
    comparison = Comparison(
        max_abs_deviation=worst.gap + law.pruned,
        tv=tvs[-1],
        worst=OutputSequence(worst.tokens, worst.one, worst.other),
        place=None if position is None else Localisation(position, None, tvs[position]),
        expected_accepted=accepted,
        bonus=None,
        emitted=emitted,
        excess=largest_excess(emitted, expected),
        **fields,
    )
    mass = impossible_mass(law.probabilities, row) if bound > RARE_PROBABILITY else 0.0
    return add_impossible_finding(comparison, mass, bound)


def compare_laws(
    laws: list[tuple[Tokens, float, ExactLaw]],
    target: Callable[[Tokens], Row],
    gamma: int,
    tolerance: float | None,
) -> Comparison:
    """Compare the laws of all drafted blocks, each with its probability, with the target's."""
    fields = law_fields([(mass, law) for _, mass, law in laws])
    bound = TOLERANCE_BY_DTYPE[fields["dtype"]] if tolerance is None else tolerance
    vocab, joint = len(target(())), _joint_law(target)
    expected = joint((), gamma + 1)
    emitted = np.zeros_like(expected)
    # accepted[j][tokens]: mass of calls whose token j was accepted, by the tokens up to it.
    accepted = [np.zeros((vocab,) * (j + 1)) for j in range(gamma)]
    tau = bonus = 0.0
    for _, mass, law in laws:
        for tokens, weight in law.probabilities.items():
            count = len(tokens) - 1
            tau += mass * weight * count
            bonus += mass * weight * (count == gamma)
            emitted[tokens] += mass * weight * joint(tokens, gamma - count)
            for j in range(count):
                accepted[j][tokens[: j + 1]] += mass * weight
    difference = emitted - expected
    tvs = [
        float(np.abs(difference.sum(axis=tuple(range(j + 1, gamma + 1)))).sum() / 2)
        for j in range(gamma + 1)
    ]
    position = next((i for i, tv in enumerate(tvs) if tv > bound), None)
    place = None
    if position is not None:
        stage: Stage = "bonus" if position == gamma else "residual"
        if position < gamma:
            most = expected.sum(axis=tuple(range(position + 1, gamma + 1)))
            if np.any(accepted[position] > most + bound):
                stage = "accepted"
        place = Localisation(position, stage, tvs[position])
    deviation = np.abs(difference)
    worst = np.unravel_index(int(deviation.argmax()), deviation.shape)
    tokens = tuple(int(i) for i in worst)
    violated = (x for x, _, law in laws if any(f.severity == "violation" for f in law.findings))
    comparison = Comparison(
        max_abs_deviation=float(deviation.max()) + fields["pruned"],
        tv=float(deviation.sum() / 2),
        worst=OutputSequence(tokens, float(emitted[worst]), float(expected[worst])),
        place=place,
        expected_accepted=tau,
        bonus=bonus,
        emitted=emitted,
        broken=next(violated, None),
        excess=max(0.0, float(difference.max())),
        **fields,
    )
    return add_impossible_finding(comparison, float(emitted[expected == 0].sum()), bound)


def _joint_law(row: Callable[[Tokens], Row]) -> Callable[[Tokens, int], Row]:
    """Return the target's law of tokens after a prefix, each computed once.

    ``joint(prefix, length)``: shape (V,) * length; 1 if length is 0.
    """

    @cache
    def joint(prefix: Tokens, length: int) -> Row:
        if length == 0:
            return np.array(1.0)
        first = np.asarray(row(prefix), dtype=np.float64)
        if length == 1:
            return first
        rest = [joint((*prefix, y), length - 1) for y in range(len(first))]
        law: Row = first.reshape(len(first), *(1,) * (length - 1)) * np.stack(rest)
        return law

    return joint


def sequence_probability(
    row: Callable[[Tokens], Row], tokens: Tokens, start: int = 0, prompt: Tokens = ()
) -> float:
    """Probability of ``tokens[start:]`` after the prompt and ``tokens[:start]``."""
    mass = 1.0
    for i in range(start, len(tokens)):
        mass *= float(row(prompt + tokens[:i])[tokens[i]])
        if mass == 0:
            break
    return mass
