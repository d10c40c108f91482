"""From the laws of single blocks to the joint law of a call, and where it leaves the target."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.generations.enumerate import MAX_PATHS, SECONDS, law_of_block
from simverify.auditing.exact.judging.comparison import (
    RARE,
    TOLERANCE,
    Comparison,
    OutputSequence,
    Place,
    Stage,
    coarsest,
    impossible_mass,
    with_impossible,
)
from simverify.auditing.exact.judging.tree import Tree, excess, gaps_by_position, target_tree
from simverify.symbolic import Enumeration, ExactLaw, Finding
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.paths import TooManyPaths
from simverify.symbolic.errors import OutOfTime, keep_gravest
from simverify.symbolic.guards.watchdog import Stopwatch


class TokenLaw(Protocol):
    """A law of sequences of tokens: one of :class:`ExactLaw`, or composed of several."""

    @property
    def probabilities(self) -> Mapping[Tokens, float]:
        """Those of sequences that are completed with the target."""

    @property
    def open(self) -> Mapping[Tokens, float]:
        """Those of sequences after which nothing is known."""

    @property
    def paths(self) -> int:
        """Paths run."""

    @property
    def pruned(self) -> float:
        """Mass of what was not run."""

    @property
    def lost(self) -> float:
        """Mass of calls without usable tokens."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the code did against its contract."""

    @property
    def complete(self) -> bool:
        """Whether the code always came back."""

    @property
    def dtypes(self) -> frozenset[str]:
        """Precisions that met a draw."""


class Rows(Protocol):
    """A target and a draft: ``target(prefix)`` and ``draft(prefix)`` return rows (V,)."""

    def target(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the target after ``prefix``."""

    def draft(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the draft after ``prefix``."""


def compare_blocks(
    enumeration: Enumeration,
    verify: Callable[..., Any],
    model: Rows,
    gamma: int,
    *,
    tolerance: float | None = None,
    max_paths: int = MAX_PATHS,
    seconds: float | None = SECONDS,
    enough: float | None = None,
) -> Comparison:
    """Joint law of a call over all drafted blocks, completed to gamma+1, against the target.

    Each block x ~ draft is verified exactly and what it emits is completed with plain target
    samples (Sun et al. 2025, Lemma 2). ``max_paths`` and ``seconds`` are for all blocks
    together. The enumeration may serve many instances: replays that look for untracked
    randomness are then paid for once. ``enough``: see :meth:`.Enumeration.run`. Raises as
    :func:`~simverify.auditing.exact.generations.enumerate.enumerate_verify`.
    """
    vocab = len(model.target(()))
    watch, paths = Stopwatch(), 0
    laws: list[tuple[Tokens, float, ExactLaw]] = []
    for block in itertools.product(range(vocab), repeat=gamma):
        mass = _probability(model.draft, block)
        if mass <= 0:
            continue
        target = np.array([model.target(block[:i]) for i in range(gamma + 1)])
        draft = np.array([model.draft(block[:i]) for i in range(gamma)])
        left = None if seconds is None else seconds - watch.seconds()
        if left is not None and left <= 0:
            raise OutOfTime(watch.seconds(), paths)
        most = max_paths - paths
        if enough is not None:
            # Each block gets its part: what is left out of one is known as well as of another.
            most = max(1, max_paths // vocab**gamma)
        try:
            law = law_of_block(
                enumeration, verify, target, draft, np.array(block, dtype=np.int64),
                max_paths=most, seconds=left, enough=enough,
            )  # fmt: skip
        except TooManyPaths:
            raise TooManyPaths(max_paths) from None
        paths += law.paths
        laws.append((block, mass, law))
        if not law.complete:
            break
    return compare_laws(laws, model, gamma, tolerance)


def compare_tokens(
    law: TokenLaw,
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
    bound = TOLERANCE[coarsest(set(law.dtypes))] if tolerance is None else tolerance
    rows: dict[Tokens, Row] = {}

    def row(tokens: Tokens) -> Row:
        if tokens not in rows:
            rows[tokens] = target(tokens)
        return rows[tokens]

    emitted = Tree(law.probabilities, row, law.open)
    tvs, worst = gaps_by_position(emitted, target_tree(row))
    position = next((i for i, tv in enumerate(tvs) if tv > bound), None)
    found = Comparison(
        max_abs_deviation=worst.gap + law.pruned,
        tv=tvs[-1],
        worst=OutputSequence(worst.tokens, worst.one, worst.other),
        place=None if position is None else Place(position, None, tvs[position]),
        expected_accepted=accepted,
        bonus=None,
        paths=law.paths,
        pruned=law.pruned,
        lost=law.lost,
        complete=law.complete,
        findings=law.findings,
        emitted=emitted,
        dtype=coarsest(set(law.dtypes)),
        excess=excess(emitted, target_tree(row)),
    )
    mass = impossible_mass(law.probabilities, row) if bound > RARE else 0.0
    return with_impossible(found, mass, bound)


def compare_laws(
    laws: list[tuple[Tokens, float, ExactLaw]], model: Rows, gamma: int, tolerance: float | None
) -> Comparison:
    """Compare the laws of all drafted blocks, each with its probability, with the target's."""
    tolerance = _tolerance([law for *_, law in laws], tolerance)
    vocab = len(model.target(()))
    target = _Target(model.target)
    due = target.joint((), gamma + 1)
    emitted = np.zeros_like(due)
    # accepted[j][tokens]: mass of calls whose token j was accepted, by the tokens up to it.
    accepted = [np.zeros((vocab,) * (j + 1)) for j in range(gamma)]
    pruned = lost = tau = bonus = 0.0
    for _, mass, law in laws:
        pruned += mass * law.pruned
        lost += mass * law.lost
        for tokens, weight in law.probabilities.items():
            count = len(tokens) - 1
            tau += mass * weight * count
            bonus += mass * weight * (count == gamma)
            emitted[tokens] += mass * weight * target.joint(tokens, gamma - count)
            for j in range(count):
                accepted[j][tokens[: j + 1]] += mass * weight
    tvs = _tv_by_position(emitted, due)
    position = next((i for i, tv in enumerate(tvs) if tv > tolerance), None)
    place = None
    if position is not None:
        stage: Stage = "bonus" if position == gamma else "residual"
        if position < gamma:
            most = due.sum(axis=tuple(range(position + 1, gamma + 1)))
            if np.any(accepted[position] > most + tolerance):
                stage = "accepted"
        place = Place(position, stage, tvs[position])
    every = [law for *_, law in laws]
    found = _comparison(emitted, due, place, tau, bonus, every, pruned, lost)
    broken = (
        block for block, _, law in laws if any(f.severity == "violation" for f in law.findings)
    )
    found = replace(found, broken=next(broken, None))
    return with_impossible(found, float(emitted[due == 0].sum()), tolerance)


def _comparison(
    emitted: Row, due: Row, place: Place | None, tau: float | None, bonus: float | None,
    laws: list[ExactLaw], pruned: float, lost: float,
) -> Comparison:  # fmt: skip
    deviation = np.abs(emitted - due)
    worst = np.unravel_index(int(deviation.argmax()), deviation.shape)
    findings: dict[str, Finding] = {}
    for law in laws:
        for finding in law.findings:
            keep_gravest(findings, finding)
    return Comparison(
        max_abs_deviation=float(deviation.max()) + pruned,
        tv=float(deviation.sum() / 2),
        worst=OutputSequence(
            tuple(int(i) for i in worst), float(emitted[worst]), float(due[worst])
        ),
        place=place,
        expected_accepted=tau,
        bonus=bonus,
        paths=sum(law.paths for law in laws),
        pruned=pruned,
        lost=lost,
        complete=all(law.complete for law in laws),
        dtype=_dtype(laws),
        findings=tuple(findings.values()),
        emitted=emitted,
        excess=max(0.0, float((emitted - due).max())),
    )


def _tolerance(laws: list[ExactLaw], tolerance: float | None) -> float:
    return TOLERANCE[_dtype(laws)] if tolerance is None else tolerance


def _dtype(laws: list[ExactLaw]) -> str:
    return coarsest(set[str]().union(*(law.dtypes for law in laws)))


def _tv_by_position(emitted: Row, due: Row) -> list[float]:
    difference = emitted - due
    tvs = []
    for j in range(difference.ndim):
        marginal = difference.sum(axis=tuple(range(j + 1, difference.ndim)))
        tvs.append(float(np.abs(marginal).sum() / 2))
    return tvs


class _Target:
    """The target's law of the tokens after a prefix, each computed once."""

    def __init__(self, row: Callable[[Tokens], Row]) -> None:
        self._row = row
        self._known: dict[tuple[Tokens, int], Row] = {}

    def joint(self, prefix: Tokens, length: int) -> Row:
        """Law of the next ``length`` tokens, shape (V,) * length; 1 if length is 0."""
        if length == 0:
            return np.array(1.0)
        if length == 1:
            return np.asarray(self._row(prefix), dtype=np.float64)
        if (prefix, length) not in self._known:
            row = self._row(prefix)
            rest = [self.joint((*prefix, y), length - 1) for y in range(len(row))]
            column = row.reshape(len(row), *(1,) * (length - 1))
            self._known[prefix, length] = column * np.stack(rest)
        return self._known[prefix, length]


def _probability(row: Callable[[Tokens], Row], tokens: Tokens) -> float:
    mass = 1.0
    for i, token in enumerate(tokens):
        mass *= float(row(tokens[:i])[token])
        if mass == 0:
            break
    return mass
