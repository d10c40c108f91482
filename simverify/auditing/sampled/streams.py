"""Code that is asked many calls before it answers the first, so that no pipe keeps it waiting."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MOST_ASKED = 512
"""Calls that are asked before the first is answered."""

_MOMENT = 0.06
"""Seconds in which as many are answered as are asked at once: each has a limit of its own."""


def is_streamed(rule: Callable[..., Any]) -> bool:
    """Whether code has ``ask``, ``answer`` and ``repeat`` beside its call."""
    return hasattr(rule, "ask")


def streamed(
    rule: Any,
    arguments: Callable[[int], tuple[Any, ...]],
    calls: Sequence[int],
    call: Callable[..., Any],
    next_rng: Callable[[], Any],
    later: Callable[[int], None],
) -> Iterator[Any]:
    """Yield what each of ``calls`` returns, in order.

    ``arguments(n)``: those of call n but its generator, which is the next of ``next_rng()``.
    ``call(function, *arguments)`` runs what belongs to the code. ``later`` is told how many calls
    were asked after the one that is answered.
    """
    done, many = 0, 1
    while done < len(calls):
        began = time.monotonic()
        asked = [call(rule.ask, *arguments(n), next_rng()) for n in calls[done : done + many]]
        answers = []
        for number, one in enumerate(asked):
            later(len(asked) - 1 - number)
            answers.append(call(rule.answer, one))
        took = time.monotonic() - began
        for number, (one, answer) in enumerate(zip(asked, answers, strict=True)):
            later(len(asked) - 1 - number)
            call(rule.repeat, one, answer)
            yield answer
        done += len(asked)
        many = min(2 * many, MOST_ASKED) if took < _MOMENT else max(1, many // 2)
