"""The law of a generation: composed of calls, and checked against one that is not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from simverify.auditing.exact.generations.calls import EVERYWHERE, Beyond, Composed, Generation
from simverify.auditing.exact.generations.compose import ROUNDING, NotComposable, compose
from simverify.auditing.exact.generations.steps import StepEnumeration, law_of_tokens
from simverify.symbolic import ExactLaw
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.guards.watchdog import Stopwatch

_CHECKED_LENGTH = 4
_CHECKED_PATHS = 100
"""On the smallest instances so many tokens are also enumerated without composing, until so many
paths were run for it."""


def law_of_generation(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    *,
    max_paths: int,
    seconds: float | None,
    beyond: Beyond = EVERYWHERE,
    enough: float | None = None,
) -> Composed:
    """Return the law of a generation; calls that begin alike are run once where that is safe.

    On the first instances that are small enough the calls are also made one after the other,
    on every path: code that keeps something out of sight gives another law then, and from
    there on each history is followed for itself. ``beyond``: see :func:`.compose`;
    ``enough``: see :meth:`.Enumeration.run`. Raises as the exact tier does.
    """
    watch = Stopwatch()

    def left() -> float | None:
        return None if seconds is None else max(0.01, seconds - watch.seconds())

    if enumeration.composes:
        try:
            law = compose(
                enumeration, rule, generation, max_paths=max_paths, seconds=seconds,
                beyond=beyond, enough=enough,
            )  # fmt: skip
            if enough is None and _is_tiny(generation) and enumeration.checked < _CHECKED_PATHS:
                _check_plainly(enumeration, rule, generation, max_paths, left())
        except NotComposable:
            enumeration.composes = False
        else:
            return law
    return compose(enumeration, rule, generation, max_paths=max_paths, seconds=left(), merges=False)


def _plain(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    *,
    max_paths: int,
    seconds: float | None,
) -> ExactLaw:
    """Return the law with every path of all calls."""
    g = generation
    return law_of_tokens(
        enumeration, rule, g.target, g.draft, gamma=g.gamma, length=g.length, prefix=g.prompt,
        earlier_calls=g.earlier_calls, eos=g.eos, max_paths=max_paths, seconds=seconds,
    )  # fmt: skip


def _is_tiny(generation: Generation) -> bool:
    vocab = len(generation.target(generation.prompt))
    return followed_length(vocab, generation.gamma, generation.earlier_calls, 0) > 0


def followed_length(vocab_size: int, gamma: int, earlier_calls: int, length: int) -> int:
    """Return to how many tokens a generation may be followed for its law of ``length`` tokens."""
    tiny = vocab_size == 2 and gamma == 1 and not earlier_calls
    return max(length, _CHECKED_LENGTH) if tiny else length


def _check_plainly(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    max_paths: int,
    seconds: float | None,
) -> None:
    """Make a few calls one after the other on every path: the law must be the composed one."""
    longer = replace(generation, length=_CHECKED_LENGTH)
    composed = compose(enumeration, rule, longer, max_paths=max_paths, seconds=seconds)
    plain = _plain(enumeration, rule, longer, max_paths=max_paths, seconds=seconds)
    enumeration.checked += plain.paths
    one, other = _cut(composed), _cut(plain)
    if any(abs(one.get(x, 0.0) - other.get(x, 0.0)) > ROUNDING for x in one | other):
        raise NotComposable("composed, the calls have another law than one after the other")


def _cut(law: Composed | ExactLaw) -> dict[Tokens, float]:
    """Return the law of the first tokens."""
    cut: dict[Tokens, float] = {}
    for tokens, mass in (*law.probabilities.items(), *law.open.items()):
        first = tokens[:_CHECKED_LENGTH]
        cut[first] = cut.get(first, 0.0) + mass
    return cut
