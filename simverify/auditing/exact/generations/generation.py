"""One generation as a decoding loop makes it: calls, end of sequence, reset."""

from collections.abc import Callable, Sequence

import numpy as np

from simverify.arrays import Row
from simverify.symbolic.enumeration.endings import Tokens


def decode(
    more: Callable[[Tokens], Tokens],
    reset: Callable[[], object] | None,
    *,
    length: int,
    prefix: Tokens = (),
    eos: int | None = None,
    earlier_calls: int = 0,
) -> Tokens:
    """Return the tokens of a generation after ``prefix``: ``length`` or more, or up to ``eos``.

    ``more`` makes a call of the rule after the tokens it is given and returns the checked new
    ones. What a call emits after ``eos`` is dropped. Before the generation, if wanted, come up
    to ``earlier_calls`` calls of another one, which end of sequence may end sooner; then the
    rule is reset, as it is at the very beginning.
    """

    def run(enough: Callable[[int, int], bool]) -> Tokens:
        if reset is not None:
            reset()
        new: Tokens = ()
        calls = 0
        while not enough(len(new), calls):
            new += until(more(prefix + new), eos)
            calls += 1
            if eos in new:
                break
        return new

    if earlier_calls:
        run(lambda _, calls: calls == earlier_calls)
    return run(lambda tokens, _: tokens >= length)


def until(tokens: Tokens, eos: int | None) -> Tokens:
    """Return ``tokens`` up to the first ``eos``, which is kept."""
    return tokens[: tokens.index(eos) + 1] if eos is not None and eos in tokens else tokens


def ending(row: Callable[[Sequence[int]], Row], eos: int | None) -> Callable[[Tokens], Row]:
    """Return the law of generations that are filled up with ``eos`` once it has come."""

    def after(prefix: Tokens) -> Row:
        law = row(prefix)
        return np.eye(len(law))[eos] if eos is not None and eos in prefix else law

    return after
