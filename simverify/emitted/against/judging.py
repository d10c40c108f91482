"""The tests of two engines' answers, what they find, and what is bounded if they find nothing."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy import sparse

from simverify import stats
from simverify.arrays import Floats
from simverify.battery.judgement import rejections
from simverify.emitted.against.answers import END, Pairs, Unit, first_pairs
from simverify.emitted.against.beginnings import Group, counted, most_asked, scores
from simverify.emitted.against.features import (
    Differences,
    differences,
    first_units,
    frequent,
    grams,
    prefixes,
    single,
    summaries,
    twos,
    within,
)
from simverify.emitted.against.settings import DEVIATION, ONE_TOKEN, SIZES, TRIES, AgainstSettings

_DELTA = 1e-3

_POOLED = 2500
"""Pairs whose single units are held against each other over all prompts, at most."""


_ENTRIES = 8_000_000
"""Products of pairs of pairs that agreement looks at: with more repeats the first ones count."""

_MOST_WORK = 2e11
"""Products that permutations may take: some minutes at most."""


@dataclass(frozen=True)
class Compared:
    """Tests and what follows.

    ``not_run``: a test that this level cannot have, in words. ``shown``: where the two differ most,
    in words; empty where nothing was found. ``detectable``: mean TV of the laws of an answer's
    first two units that is found, over the ``asked_most`` prompts; ``once``: the share of answers
    that begin as no other does, of which nothing is promised.
    """

    tests: tuple[stats.TestResult, ...]
    findings: tuple[str, ...]
    detectable: float
    asked_most: int
    once: float
    certificate: stats.Certificate
    not_run: str | None
    shown: tuple[str, ...]


def compare(pairs: Pairs, settings: AgainstSettings) -> Compared:
    """Judge whether the answers of two engines follow one law; all is fixed by ``settings``."""
    shares, seed = settings.shares(), settings.seed
    some = first_pairs(pairs, max(int((_ENTRIES / len(pairs.groups)) ** 0.5), 2))
    sizes = [len(group) for group in some.groups]
    begins, firsts = differences(pairs, prefixes), differences(pairs, first_units)
    units = differences(pairs, single)
    tests = [_contexts(pairs, begins, firsts, shares["contexts"])]
    most = most_asked(pairs)
    starts = counted(most)
    detectable = starts.detectable(shares["counts"])
    tests.append(
        replace(
            stats.quadratic_test(
                starts.blocks, alpha=shares["counts"], name="counts of first two tokens, by prompt"
            ),
            min_detectable=detectable if detectable < 1.0 else math.inf, deviation=DEVIATION,
        )
    )  # fmt: skip
    tests.append(
        stats.quadratic_test(
            [scores(pairs)], alpha=shares["scores"], name="how tokens fit what came before"
        )
    )
    shared = begins if some.n == pairs.n else differences(some, prefixes)
    in_prefixes = within(shared.weighted(), sizes)
    tests.append(
        stats.agreement_test(
            in_prefixes, alpha=shares["prefixes"], seed=seed, name="agreement in shared prefixes"
        )
    )
    in_grams = within(differences(some, grams).weighted(), sizes)
    tests.append(
        stats.agreement_test(
            in_grams, alpha=shares["n-grams"], seed=seed, name="agreement in n-grams, in a prompt"
        )
    )
    for own, share, what in (
        (units, "pooled", "single tokens"),
        (differences(pairs, twos), "twos", "pairs of tokens"),
    ):
        rows = np.unique(np.linspace(0, pairs.n - 1, min(pairs.n, _POOLED)).astype(np.int64))
        pooled = own.weighted()[rows]
        tests.append(
            stats.agreement_test(
                within(pooled, [pooled.shape[0]]), alpha=shares[share], seed=seed,
                name=f"agreement in {what}, over all prompts",
            )
        )  # fmt: skip
    length = max((pairs.units(0) + pairs.units(1)) / (2 * pairs.n), 1e-9)
    rates = stats.directions_test(
        frequent(units), alpha=shares["rates"], per_pair=length, name="rates of single tokens",
        deviation=ONE_TOKEN,
    )  # fmt: skip
    names, numbers = summaries(pairs)
    tests += [rates, stats.directions_test(numbers, alpha=shares["summaries"], name="summaries of "
              "answers", deviation="mean of a summary")]  # fmt: skip
    not_run = None
    swaps = stats.swaps_needed(shares["swaps"])
    if swaps > stats.MOST_SWAPS or swaps * sum(size**2 for size in sizes) > _MOST_WORK:
        not_run = (
            f"permutations of whole answers: alpha {settings.alpha:g} takes {swaps:,} of them, too "
            f"many for {pairs.n:,} pairs"
        )
    elif not any(test.rejected for test in tests):
        tests.append(
            stats.swap_test(
                _scaled(in_prefixes, in_grams), alpha=shares["swaps"], seed=seed,
                name="permutations of whole answers",
            )
        )  # fmt: skip
    findings = tuple(rejections(tests))
    return Compared(
        tests=tuple(tests),
        findings=findings,
        detectable=min(detectable, 1.0),
        asked_most=len(most),
        once=starts.once,
        certificate=first_unit_certificate(most, chosen=len(most) < len(pairs.groups)),
        not_run=not_run,
        shown=_shown(pairs, begins, units, names, numbers) if findings else (),
    )


def first_unit_certificate(groups: Sequence[Group], *, chosen: bool = False) -> stats.Certificate:
    """Bound the TV between the two laws of an answer's first unit, on average over the prompts.

    The plug-in TV is at least the true one in expectation, and moves by 1/n at most with each of
    the 2 n answers to a prompt (McDiarmid). It holds for each of the three sizes that a run may
    have, at a third of its error rate. ``chosen``: of more prompts, by their first answers, which
    may therefore be other than they would be.
    """
    found, moves, tried = 0.0, 0.0, 0.0
    for group in groups:
        one, other = (Counter(pair[side][:1] for pair in group) for side in (0, 1))
        off = sum(abs(one[unit] - other[unit]) for unit in {*one, *other})
        found += off / (2 * len(group))
        moves += 2.0 / len(group)
        tried += 2.0 * TRIES / len(group) if chosen else 0.0
    count = len(groups)
    slack = math.sqrt(math.log(SIZES / _DELTA) * moves / 2.0) / count
    return stats.Certificate(
        bound=min((found + tried) / count + slack, 1.0),
        delta=_DELTA,
        method=f"TV of the counts + sqrt(ln({SIZES}/delta) S / 2) / P"
        + (f" + {tried / count:.2g} for those that were tried" if chosen else "")
        + f", {count} prompts",
        assumption="answers do not depend on each other and how often each prompt is asked was "
        "fixed beforehand, or doubled by simverify; it is of an answer's first token, to these "
        "prompts",
    )


def _contexts(
    pairs: Pairs, begins: Differences, firsts: Differences, alpha: float
) -> stats.TestResult:
    """Sign tests of who alone begins with a prefix: in each prompt, and first units over all."""
    sides = []
    for sign in (1, -1):
        both = sparse.hstack([begins.values, firsts.values])
        sides.append(np.asarray((both * sign > 0).sum(axis=0)).ravel().astype(np.int64))
    return stats.discordant_test(
        *sides, n=pairs.n, alpha=alpha, name="repeated contexts, first tokens and shared prefixes"
    )


def _scaled(first: list[np.ndarray], second: list[np.ndarray]) -> list[np.ndarray]:
    """Add two kernels, each over how much its sum varies."""
    spreads = [
        math.sqrt(sum(float((np.tril(own, -1) ** 2).sum()) for own in grams)) or 1.0
        for grams in (first, second)
    ]
    return [a / spreads[0] + b / spreads[1] for a, b in zip(first, second, strict=True)]


def _shown(
    pairs: Pairs, begins: Differences, units: Differences, names: Sequence[str], numbers: Floats
) -> tuple[str, ...]:
    """Say where the two differ most: a prefix, a unit, a summary; without an error rate."""
    said = []
    total = np.asarray(begins.values.sum(axis=0)).ravel()
    squares = np.asarray(begins.values.multiply(begins.values).sum(axis=0)).ravel()
    score = np.abs(total) / np.sqrt(np.maximum(squares, 1.0))
    if begins.names:
        prompt, prefix = cast("tuple[int, tuple[Unit, ...]]", begins.names[int(score.argmax())])
        group = pairs.groups[prompt]
        counts = [sum(pair[side][: len(prefix)] == prefix for pair in group) for side in (0, 1)]
        said.append(
            f"answers to the prompt {pairs.prompts[prompt]!r:.40} that begin with "
            f"{_spelt(prefix)}: {counts[0]:,} of {len(group):,}, and {counts[1]:,} of "
            f"{len(group):,}"
        )
    total = np.asarray(units.values.sum(axis=0)).ravel()
    squares = np.asarray(units.values.multiply(units.values).sum(axis=0)).ravel()
    score = np.abs(total) / np.sqrt(np.maximum(squares, 1.0))
    if units.names:
        unit = cast("Unit", units.names[int(score.argmax())])
        rates = []
        for side in (0, 1):
            seen = [pair[side].count(unit) for group in pairs.groups for pair in group]
            rates.append(sum(seen) / max(pairs.units(side), 1))
        said.append(
            f"rate of {_spelt((unit,))} over all answers: {rates[0]:.3g}, and {rates[1]:.3g}"
        )
    spread = np.sqrt((numbers**2).sum(axis=0))
    scores = numbers.sum(axis=0) / np.where(spread > 0.0, spread, 1.0)
    worst = int(np.abs(scores).argmax())
    more = "more" if scores[worst] > 0 else "less"
    said.append(f"{names[worst]}: {more} in the first, by {abs(scores[worst]):.1f} sd")
    return tuple(said)


def _spelt(units: tuple[Unit, ...]) -> str:
    """Return units in words, the end of an answer among them."""
    shown = ["(end)" if unit == END else str(unit) if isinstance(unit, int) else repr(unit)
             for unit in units[:8]]  # fmt: skip
    more = "" if len(units) <= 8 else f" and {len(units) - 8} more"
    return " ".join(shown) + more
