"""A generation as a chain of calls: where it begins, where a call leads, one that runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simverify.arrays import Row
from simverify.auditing.coverage.watch import watched
from simverify.auditing.exact.generations.enumerate import check_ids, read_tokens
from simverify.auditing.exact.generations.generation import until
from simverify.symbolic.endings import Tokens


@dataclass(frozen=True)
class Place:
    """How far a generation is: its tokens, and its calls if it is an earlier one (else None)."""

    tokens: Tokens
    earlier: int | None


@dataclass(frozen=True)
class Generation:
    """What is generated after ``prompt``, call by call: ``length`` tokens or more, or to ``eos``.

    What a call emits after ``eos`` is dropped. Before the generation, if wanted, come up to
    ``earlier_calls`` calls of another one, which end of sequence may end sooner; then the rule
    is reset, as it is at the very beginning.
    """

    target: Callable[[Tokens], Row]
    draft: Callable[[Tokens], Row]
    gamma: int
    length: int
    prompt: Tokens = ()
    earlier_calls: int = 0
    eos: int | None = None

    def first(self) -> Place:
        """Where it begins."""
        return Place((), 0 if self.earlier_calls else None)

    def next(self, place: Place, new: Tokens) -> Place:
        """Where it is after a call that emitted ``new``."""
        tokens = place.tokens + new
        if place.earlier is None:
            return Place(tokens, None)
        over = place.earlier + 1 == self.earlier_calls or self.eos in tokens
        return Place((), None) if over else Place(tokens, place.earlier + 1)

    def is_over(self, place: Place) -> bool:
        """Whether end of sequence has come."""
        return place.earlier is None and self.eos is not None and self.eos in place.tokens


class Run:
    """One generation by a rule, built anew: ``instance`` is its object, None for a function.

    ``at``: it begins there, as after a longer prompt. ``built`` is told when the rule is built
    and reset.
    """

    def __init__(
        self,
        generation: Generation,
        rule: Callable[..., Any],
        rng: Any,
        *,
        is_step: bool,
        at: Place | None = None,
        built: Callable[[], None] | None = None,
    ) -> None:
        self._generation, self._rng = generation, rng
        self._vocab = len(generation.target(generation.prompt))
        self.instance = None if is_step else watched(rule)
        self._step = rule if self.instance is None else self.instance.step
        self.place = at or generation.first()
        self._reset()
        if built is not None:
            built()

    def call(self) -> Tokens:
        """Make the next call; return what counts of its tokens."""
        g, place = self._generation, self.place
        prefix = g.prompt + place.tokens
        result = watched(self._step, prefix, g.target, g.draft, g.gamma, self._rng)
        tokens = read_tokens(result)
        check_ids(tokens, self._vocab)
        new = until(tokens, g.eos)
        self.place = g.next(place, new)
        if place.earlier is not None and self.place.earlier is None:
            self._reset()
        return new

    def _reset(self) -> None:
        reset = getattr(self.instance, "reset", None)
        if reset is not None:
            watched(reset)
