"""The tree of outputs around a counterexample: every token that could stand at each place."""

from collections.abc import Callable

from simverify.auditing.exact.judging.tree import Row, Tree, probability
from simverify.results import Branch
from simverify.symbolic.endings import Tokens


def branches(
    law: Row | Tree, target: Callable[[Tokens], Row], sequence: Tokens
) -> tuple[Branch, ...]:
    """Return each beginning of ``sequence``, with every token that could come next there.

    ``law``: the law of outputs, float64 (V,) * length or a tree; ``sequence`` is no longer.
    ``target(prefix)``: the target's row (V,) after the tokens of the output so far.
    """
    found, due = [], 1.0
    for place, token in enumerate(sequence):
        before = sequence[:place]
        row = target(before)
        found += [
            Branch(
                sequence=(*before, other),
                probability_emitted=probability(law, (*before, other)),
                probability_expected=due * float(share),
            )
            for other, share in enumerate(row)
        ]
        due *= float(row[token])
    return tuple(found)
