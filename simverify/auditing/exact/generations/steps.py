"""Step rules in the exact tier: the law of the first tokens that one emits, call after call."""

from collections.abc import Callable
from typing import Any

from simverify.arrays import Row
from simverify.auditing.coverage.watch import watched
from simverify.auditing.exact.generations.enumerate import (
    MAX_PATHS,
    SECONDS,
    check_ids,
    read_tokens,
    seen_reset,
    takes_step_arguments,
)
from simverify.auditing.exact.generations.generation import decode
from simverify.symbolic import Enumeration, ExactLaw, Lift
from simverify.symbolic.enumeration.endings import Tokens


class StepEnumeration(Enumeration):
    """Follows a step rule, which may seed itself once, when it is built.

    ``is_step``: whether it is a function, or what builds an object. ``composes``: whether its
    calls may be composed; false once that gave another law than running it call after call.
    ``checked``: so many paths were run to compare the two.
    """

    def __init__(
        self, rule: Callable[..., Any], *, leaves: int = 0, lift: Lift | None = None
    ) -> None:
        self.is_step = takes_step_arguments(rule)
        self.composes = True
        self.checked = 0
        super().__init__(rule, seed_once=True, leaves=leaves, lift=lift)


def law_of_tokens(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    target: Callable[[Tokens], Row],
    draft: Callable[[Tokens], Row],
    *,
    gamma: int,
    length: int,
    prefix: Tokens = (),
    earlier_calls: int = 0,
    eos: int | None = None,
    max_paths: int = MAX_PATHS,
    seconds: float | None = SECONDS,
) -> ExactLaw:
    """Exact law of the first ``length`` tokens that a step rule emits after ``prefix``.

    ``rule`` is a function ``step(prefix, target, draft, gamma, rng)``, or a class or factory
    without arguments whose instance has ``step`` and, if it keeps state, ``reset``; it is
    built anew for every path. Calls, end of sequence and an earlier generation are as in
    :func:`~.generation.decode`; a generation that ``eos`` ends sooner is shorter.
    Raises as :func:`enumerate_verify`, and ``ValueError`` if ``rule`` is neither.
    """
    if length < 1 or gamma < 1:
        raise ValueError(f"length={length}, gamma={gamma}: both must be at least 1")
    generated = _generations(
        enumeration, rule, target, draft, gamma,
        length=length, prefix=prefix, eos=eos, earlier_calls=earlier_calls,
    )  # fmt: skip
    return enumeration.run(lambda: generated()[:length], max_paths=max_paths, seconds=seconds)


def _generations(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    target: Callable[[Tokens], Row],
    draft: Callable[[Tokens], Row],
    gamma: int,
    *,
    length: int,
    prefix: Tokens = (),
    eos: int | None = None,
    earlier_calls: int = 0,
) -> Callable[[], Tokens]:
    """Return what builds the rule anew and makes calls until ``length`` tokens or more are out."""
    vocab = len(target(prefix))
    is_step = takes_step_arguments(rule)

    def call() -> Tokens:
        instance = None if is_step else watched(rule)
        step = rule if instance is None else instance.step

        def more(emitted: Tokens) -> Tokens:
            enumeration.source.sequences.building = False
            tokens = read_tokens(watched(step, emitted, target, draft, gamma, enumeration.rng))
            check_ids(tokens, vocab)
            return tokens

        return decode(
            more, seen_reset(instance),
            length=length, prefix=prefix, eos=eos, earlier_calls=earlier_calls,
        )  # fmt: skip

    return call
