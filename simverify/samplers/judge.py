"""The distribution of what a sampler emits, held against the row that it was given."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from simverify import results, stats
from simverify.arrays import Floats, Ints, Row
from simverify.battery.battery import finite_or_none, test_document
from simverify.samplers.base import Call, DrawFunction, Race, Sampler, normalised

ROWS = ("flat", "peaked", "heavy")
COMPARED = 100_000
"""Draws of the library that are compared with those that ought to come of its seed."""

MAX_COMPARED_NUMBERS = 20_000_000
MAX_SAMPLED_NUMBERS = 2_000_000_000
"""Random numbers of a comparison and of a sampled run at most."""

POWER = 0.9
"""Probability with which the tests find what they promise: the default of ``simverify.stats``."""

_ENUMERATED_BITS = 24
_MAX_RACE_CELLS = 2_000_000_000
"""Tokens times different scores of a race whose law is computed; more would take minutes."""

_CELLS = 64
_FLOOR = -1e5
"""Stands for the logarithm of 0: its exponential is 0, and it may be subtracted again."""


def make_row(kind: str, vocab: int) -> Row:
    """Return a row (V,): equal probabilities; .75 for token 0 and the rest equal; or 1 / rank."""
    if kind == "flat":
        return np.full(vocab, 1.0 / vocab)
    if kind == "peaked":
        return np.array([0.75, *[0.25 / (vocab - 1)] * (vocab - 1)])
    return normalised(1.0 / np.arange(1, vocab + 1))


def lookup_law(index: Callable[[Floats], Ints], vocab: int, bits: int) -> Row:
    """Return the law (V,) of a token that a uniform number k / 2^bits decides.

    By all numbers of a small grid. Of a large one ``index`` must not fall: the first number of
    each token is found by bisection.
    """
    points = 1 << bits
    if bits <= _ENUMERATED_BITS:
        tokens = index(np.arange(points) / points)
        return np.bincount(tokens, minlength=vocab) / points
    ids = np.arange(vocab)
    # The number of points whose token is no larger than each id.
    low, high = np.zeros(vocab, dtype=np.int64), np.full(vocab, points, dtype=np.int64)
    while np.any(low < high):
        middle = (low + high) // 2
        above = index(np.minimum(middle, points - 1) / points) > ids
        high, low = np.where(above, middle, high), np.where(above, low, middle + 1)
        low = np.minimum(low, high)
    return np.diff(high, prepend=0) / points


def race_law(race: Race, row: Row, dtype: str) -> Row | None:
    """Return the law (V,) of the first largest score; None where it would take too long."""
    scores, place = race.scores(row, dtype)
    values = np.unique(scores[np.isfinite(scores)])
    if len(values) * len(row) > _MAX_RACE_CELLS:
        return None
    points = scores.shape[1]
    mass = np.zeros((len(scores), len(values)))
    for group, of_group in enumerate(scores):
        finite = of_group[np.isfinite(of_group)]
        mass[group] = np.bincount(values.searchsorted(finite), minlength=len(values)) / points
    excluded = 1.0 - mass.sum(axis=1, keepdims=True)  # a score of -inf, below all others
    at_most = np.cumsum(mass, axis=1) + excluded
    below = at_most - mass
    with np.errstate(divide="ignore"):
        log_at_most, log_below = (np.maximum(np.log(x), _FLOOR) for x in (at_most, below))
    # Before a token all others score less, after it no more: tokens are taken out one by one.
    others = log_at_most[place].sum(axis=0)
    law = np.empty(len(row))
    for token, group in enumerate(place):
        others -= log_at_most[group]
        law[token] = mass[group] @ np.exp(np.minimum(others, 0.0))
        others += log_below[group]
    law[0] += np.prod(excluded[place])
    return normalised(law)


def judge_row(
    sampler: Sampler,
    kind: str,
    dtype: str,
    vocab: int,
    *,
    seed: int,
    alpha: float,
    detect: float,
) -> results.SamplerRow:
    """Judge ``sampler`` on a row; see :class:`simverify.results.SamplerRow`."""
    ideal = make_row(kind, vocab)
    row = sampler.cast(ideal, dtype)
    numbers = 1 if sampler.lookup is not None and not sampler.lookup.scans else vocab
    count = min(COMPARED, max(1, MAX_COMPARED_NUMBERS // numbers))
    expected = sampler.follow(ideal, dtype, count, seed)
    same = 0
    if expected is not None:
        same = int((sampler.draw(ideal, dtype, count, seed) == expected).sum())
    law = exact_law(sampler, ideal, dtype) if same == count else None
    fields: dict[str, Any] = {
        "row": kind,
        "cast_tv": total_variation(row, ideal),
        "compared": count if expected is not None else 0,
        "same": same,
    }
    if law is not None:
        return _exact_row(law, row, detect, fields)
    return _sampled_row(sampler, ideal, row, dtype, seed, alpha, detect, fields)


def exact_law(sampler: Sampler, row: Row, dtype: str) -> Row | None:
    """Return what the sampler emits (V,); None where its draws are too many to enumerate."""
    if sampler.lookup is not None:
        index, bits = sampler.lookup.index(row, dtype), sampler.lookup.bits[dtype]
        return lookup_law(index, len(row), bits)
    if sampler.race is not None and dtype in sampler.race.dtypes:
        return race_law(sampler.race, row, dtype)
    return None


def total_variation(one: Row, other: Row) -> float:
    """Return half the sum of the differences of two rows (V,)."""
    return float(np.abs(one - other).sum() / 2)


def _exact_row(law: Row, row: Row, detect: float, fields: dict[str, Any]) -> results.SamplerRow:
    tv = total_variation(law, row)
    never = (law == 0) & (row > 0)
    worst = int(np.abs(law - row).argmax())
    return results.SamplerRow(
        **fields,
        tier="exact",
        tv=tv,
        never=int(never.sum()),
        never_mass=float(row[never].sum()),
        impossible=float(law[row == 0].sum()),
        worst=worst,
        expected=float(row[worst]),
        emitted=float(law[worst]),
        samples=0,
        tests=(),
        detectable=None,
        verdict="FAIL" if tv > detect else "PASS",
    )


def _sampled_row(
    sampler: Sampler,
    ideal: Row,
    row: Row,
    dtype: str,
    seed: int,
    alpha: float,
    detect: float,
    fields: dict[str, Any],
) -> results.SamplerRow:
    vocab = len(row)
    needed = stats.g2_samples(detect, _CELLS - 1, alpha=alpha / 2, power=POWER)
    count = min(needed, max(1, MAX_SAMPLED_NUMBERS // vocab))
    tokens = sampler.draw(ideal, dtype, count, seed + 1)
    counts = np.bincount(tokens, minlength=vocab)
    tests = [
        stats.g2_test(stats.transition_g2(seen[None], law[None]), alpha=alpha / 2, name=name)
        for name, seen, law in _cells(counts, row)
    ]
    # A deviation that favours no cell of the vocabulary's order, nor of its sizes, is not seen.
    found = max((test.min_detectable for test in tests), default=math.inf)
    hit = int(counts[row == 0].sum())
    rejected = any(test.rejected for test in tests) or hit > 0
    share = counts / count
    worst = int(np.abs(share - row).argmax())
    verdict: results.Verdict = "PASS" if found <= detect else "INCONCLUSIVE"
    return results.SamplerRow(
        **fields,
        tier="sampled",
        tv=None,
        never=None,
        never_mass=None,
        impossible=hit / count if hit else None,
        worst=worst,
        expected=float(row[worst]),
        emitted=float(share[worst]),
        samples=count,
        tests=tuple(map(test_document, tests)),
        detectable=finite_or_none(found),
        verdict="FAIL" if rejected else verdict,
    )


def _cells(counts: Ints, row: Row) -> Sequence[tuple[str, Ints, Row]]:
    """Return counts and probabilities of about 64 cells: by the order of ids, and by size."""
    together = []
    for name, order in (
        ("tokens by their ids", np.arange(len(row))),
        ("tokens by their probability", np.argsort(-row, kind="stable")),
    ):
        sums = np.cumsum(row[order])
        cell = np.minimum((sums - row[order] / 2) * _CELLS, _CELLS - 1).astype(np.int64)
        seen = np.bincount(cell, weights=counts[order], minlength=_CELLS).astype(np.int64)
        law = np.bincount(cell, weights=row[order], minlength=_CELLS)
        used = law > 0
        if used.sum() > 1:
            together.append((name, seen[used], law[used] / math.fsum(law[used])))
    return together


# Functions that draw integers, permutations and normal numbers.


class JudgedCall(msgspec.Struct, frozen=True):
    """What a call of a :class:`~simverify.samplers.base.DrawFunction` makes.

    ``tv``: its exact total variation from the stated law; None where it was sampled, and then
    ``detectable`` is the smallest TV that the test would find, and ``rejected`` whether it found
    something. ``least``, ``largest``: of what was drawn. ``replayed``: whether every value was that
    expected of its seed; None where none is known.
    """

    call: str
    tv: float | None
    detectable: float | None
    rejected: bool
    least: int | float
    largest: int | float
    replayed: bool | None


def judge_call(draw: DrawFunction, call: Call, seed: int = 0, alpha: float = 1e-9) -> JudgedCall:
    """Judge a call; the same seed gives the same."""
    law = call.law()
    values = np.asarray(call_values(draw, call.expression, draw.count, seed))
    counts = np.bincount(np.minimum(law.cell(values), len(law.row)), minlength=len(law.row) + 1)
    row = law.row / math.fsum(law.row)
    g2 = stats.transition_g2(counts[None, :-1], row[None])
    # One cell has nearly all of it: there is nothing to test.
    test = stats.g2_test(g2, alpha=alpha) if g2.df else None
    replayed = None
    if call.expected_values is not None:
        replayed = np.array_equal(values, call.expected_values(draw.count, seed))
    exact = call.tv() if call.tv is not None and replayed else None
    return JudgedCall(
        call=call.expression,
        tv=exact,
        detectable=None if exact is not None or not test else finite_or_none(test.min_detectable),
        rejected=bool((test and test.rejected) or counts[-1]),
        least=_plain(values.min()),
        largest=_plain(values.max()),
        replayed=replayed,
    )


def _plain(value: Any) -> int | float:
    return int(value) if value == int(value) else float(value)


def call_values(draw: DrawFunction, expression: str, count: int, seed: int) -> Any:
    """Return what a call draws, (count,) or (count, K)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return eval(expression, {"nan": math.nan, "inf": math.inf, **draw.names(count, seed)})


def unusual_words(draw: DrawFunction, expression: str) -> str:
    """Return what comes of a call with unusual parameters: its values, or what it raises."""
    try:
        values = np.unique(np.asarray(call_values(draw, expression, 1_000, 0)))
    except Exception as error:
        return f"raises {type(error).__name__}"
    shown = [str(int(x)) if math.isfinite(x) else str(x) for x in values.tolist()]
    if not shown:
        return "empty"
    return " or ".join(shown) if len(shown) <= 2 else f"{shown[0]} to {shown[-1]}"
