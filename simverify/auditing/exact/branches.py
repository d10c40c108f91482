"""The tree of outputs around a counterexample: every token that could stand at each place."""

from collections.abc import Callable

from simverify.auditing.exact.comparison import Row
from simverify.results import Branch
from simverify.symbolic.endings import Tokens


def branches(law: Row, target: Callable[[Tokens], Row], sequence: Tokens) -> tuple[Branch, ...]:
    """Return each beginning of ``sequence``, with every token that could come next there.

    ``law``: float64 (V,) * length, the law of outputs; ``sequence`` is no longer than that.
    ``target(prefix)``: the target's row (V,) after the tokens of the output so far.
    """
    found, due = [], 1.0
    for place, token in enumerate(sequence):
        before = sequence[:place]
        row = target(before)
        found += [
            Branch(
                sequence=(*before, other),
                probability_emitted=float(law[(*before, other)].sum()),
                probability_expected=due * float(probability),
            )
            for other, probability in enumerate(row)
        ]
        due *= float(row[token])
    return tuple(found)
