"""``simverify.exact_law``: the law of any function of a random generator, by all of its paths."""

from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from simverify.errors import SimverifyError, UsageError
from simverify.symbolic.draws.in_arrays.arrays import is_symbolic
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.enumeration.endings import BadTokens
from simverify.symbolic.enumeration.engine import Enumeration
from simverify.symbolic.enumeration.paths import TooManyPaths
from simverify.symbolic.errors import CannotEnumerate, OutOfTime

PRUNED = 1e-9
"""Probability that may be lost to rounding before a law is not called exact any more."""

_MOST_WAYS = 2**40
"""Up to so many equally likely ways, a float tells how many of them led to an outcome."""

Law = dict[Hashable, Fraction | float]


def exact_law(
    function: Callable[[np.random.Generator], Any],
    *,
    max_paths: int = 200_000,
    seconds: float | None = 60.0,
) -> Law:
    """Return the exact law of what ``function`` returns: each outcome with its probability.

    The function runs once on every path of its own random choices; nothing is sampled. Its
    draws may come from the generator that it is handed, from numpy's and Python's global ones
    and from torch's: all of them are followed.

    Parameters
    ----------
    function
        ``function(rng) -> outcome``. Outcomes are hashable; lists, arrays and tensors become
        tuples, sets become frozensets, and dicts tuples of their items.
    max_paths, seconds
        Budgets: of paths, and of processor seconds (None: no limit).

    Returns
    -------
    dict
        Outcomes, likeliest first. A probability is a ``Fraction`` where all that was drawn
        are equally likely things (integers, shuffles, choices without weights), and a float
        otherwise; they sum to 1 within 1e-9.

    Raises
    ------
    CannotEnumerate
        If a draw is used in a way that cannot be followed; the message names it and the line.
    SimverifyError
        If the function raises on one of its paths, seeds a generator with a constant, returns
        what is not hashable, or a budget ends first.
    UsageError
        If ``function`` is not callable.
    """
    if not callable(function):
        raise UsageError(f"got {function!r}: expected a function of a numpy Generator")
    with Enumeration(function) as enumeration:
        source = enumeration.source

        def call() -> Any:
            outcome = _decided(function(enumeration.rng), source)
            try:
                hash(outcome)
            except TypeError as error:
                raise BadTokens("unhashable", f"returned what is not hashable: {error}") from None
            return outcome, source.ways

        try:
            law = enumeration.run(call, max_paths=max_paths, seconds=seconds)
        except (TooManyPaths, OutOfTime) as error:
            raise SimverifyError(f"the law is not done: {error}") from None
    for finding in law.findings:
        if finding.severity == "violation" or law.lost:
            raise SimverifyError(f"the function: {finding.message}")
    if not law.complete or law.pruned > PRUNED:
        raise CannotEnumerate(f"a law of which {law.pruned:.2g} is lost to rounding")
    return _summed(law.probabilities.items())


def _summed(found: Iterable[tuple[Any, float]]) -> Law:
    """Add up the ways to each outcome; counts of equally likely ways are whole numbers."""
    law: Law = {}
    for (outcome, ways), weight in found:
        share: Fraction | float = weight
        if ways is not None and ways <= _MOST_WAYS:
            share = Fraction(round(weight * ways), ways)
        law[outcome] = law.get(outcome, Fraction(0)) + share
    return dict(sorted(law.items(), key=lambda item: -item[1]))


def _decided(value: Any, source: Any) -> Any:
    """Return an outcome as plain values, hashable where its parts are."""
    if isinstance(value, Draw):
        if not value.form.is_whole():
            source.refuse("a continuous draw as the outcome: return what is decided from it")
        return int(value)
    if hasattr(value, "tolist") and not isinstance(value, type):
        if isinstance(value, np.ndarray) and value.dtype == object and is_symbolic(value):
            return tuple(_decided(x, source) for x in value)
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(_decided(x, source) for x in value)
    if isinstance(value, set | frozenset):
        return frozenset(_decided(x, source) for x in value)
    if isinstance(value, dict):
        return tuple((_decided(k, source), _decided(v, source)) for k, v in value.items())
    return value
