"""One path of code under audit: run once, and again to see whether it was really followed."""

from collections.abc import Callable

import numpy as np

from simverify.symbolic.endings import BadTokens, Outcome, Tokens, what_was_raised
from simverify.symbolic.enumeration.paths import Path
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.errors import UNTRACKED, CannotEnumerate, OnSymbolsAlone, Untracked
from simverify.symbolic.guards.containment import from_user
from simverify.symbolic.guards.watchdog import Expired

Call = Callable[[], Tokens]
"""Runs the code once and returns canonical tokens, or raises :class:`BadTokens`."""

_REPLAYS = ((8, 8), (32, 2))
"""(n, k): of the leaves up to the n-th of an enumeration, each is run again k times."""

_REPLAY_EVERY = 64
"""Beyond those, one leaf in this many is run again, once."""

_REPEATS = 16
"""Runs of code that never forked."""


def attempt(source: Source, call: Call) -> Outcome:
    """Run the code on the draws of ``source``, and say how it ended.

    Raises :class:`CannotEnumerate` where it did what cannot be followed, even if the code
    swallowed that; ``Expired`` and the user's Ctrl-C pass through.
    """
    outcome: Outcome
    try:
        outcome = Outcome(call())
    except Expired:
        raise
    except CannotEnumerate:
        outcome = Outcome(None)
    except BadTokens as error:
        outcome = Outcome(None, error.kind, str(error))
    except BaseException as error:  # the user's code may raise anything, SystemExit too
        if from_user(error):
            raise
        message = f"raised {what_was_raised(error)}"
        outcome = Outcome(None, "raises", message)
    if source.cut:
        return Outcome(None, "cut")
    if source.failure is not None:
        # The code may have swallowed it; the path was wrong from there on.
        raise source.failure
    return outcome


def repeat(source: Source, call: Call, outcome: Outcome) -> None:
    """Run code that drew nothing again: it may draw from something not intercepted."""
    for _ in range(_REPEATS):
        if not _same(attempt(source, call), outcome):
            source.refuse(f"{UNTRACKED}: the result changed", Untracked)


def replay(source: Source, call: Call, outcome: Outcome, rng: np.random.Generator) -> None:
    """Run the path again on plain numbers; it must end the same way."""
    kept = source.snapshot()
    plan = source.plan_like_this_path(rng)
    if plan is None:
        if outcome.tokens is None:
            source.refuse(f"code that {outcome.message}, where no numbers confirm it")
        return
    source.begin(Path(), plan)
    try:
        with source.builtins.plain():
            again = attempt(source, call)
    except CannotEnumerate:
        if outcome.kind == "raises":
            source.failure = None
            source.refuse(f"code that {outcome.message} on a symbolic draw", OnSymbolsAlone)
        raise
    source.restore(kept)
    if _same(again, outcome):
        return
    if outcome.tokens is None:
        source.refuse(f"code that {outcome.message} on a symbolic draw", OnSymbolsAlone)
    source.refuse(
        f"{UNTRACKED}: a repeated path emitted "
        f"{again.tokens or again.kind} instead of {outcome.tokens or outcome.kind}",
        Untracked,
    )


def _same(again: Outcome, outcome: Outcome) -> bool:
    return (again.tokens, again.kind) == (outcome.tokens, outcome.kind)


def replays(leaf: int, outcome: Outcome) -> int:
    """How often the ``leaf``-th path of an enumeration is replayed."""
    if outcome.kind == "cut":
        return 0
    for last, times in _REPLAYS:
        if leaf <= last:
            return times
    return int(outcome.tokens is None or leaf % _REPLAY_EVERY == 0)
