"""The latency model: what acceptance is worth in time.

A call of the target reads all of its weights, whatever the number of rows that it computes; up to
some number of rows the reading takes longer than the arithmetic, and they are free. Beyond, time
grows with the rows: a roofline [2]. The number is about the arithmetic that a device does in the
time in which it reads a weight: for 16-bit weights its operations a second over its bytes a
second (an A100: 312e12 / 2.0e12 = 156), less where attention over long texts takes its part.

References
----------
.. [1] Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023,
       theorem 3.8: one sequence, all rows free.
.. [2] Williams, Waterman and Patterson, "Roofline", Communications of the ACM 52(4), 2009.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simverify.trees import TreeShape


@dataclass(frozen=True)
class Load:
    """``batch_size`` sequences at a time, on a device that has ``free_rows`` a call; None: all."""

    batch_size: int = 1
    free_rows: float | None = None

    def call(self, rows: int) -> float:
        """Return the time of a call with ``rows`` of each sequence, over that of one of few."""
        if self.free_rows is None:
            return 1.0
        return max(1.0, self.batch_size * rows / self.free_rows)


SINGLE_SEQUENCE = Load()  # one sequence, or any number where all rows are free


def predicted_speedup(
    expected_accepted: float,
    gamma: int,
    cost_ratio: float,
    load: Load = SINGLE_SEQUENCE,
    *,
    shape: "TreeShape | None" = None,
) -> float:
    """Speed-up of one iteration over plain decoding, which has a row a sequence.

    ``cost_ratio`` is t_draft / t_target of a call with few rows. The target judges a row after
    the prefix and one after each drafted token; the draft makes a call for each level, of a row
    after each token that has children. ``shape``: of the draft tree, which is ``gamma`` deep; by
    default a single draft. With all rows free that is ``(E[tau] + 1) / (gamma cost_ratio + 1)``
    [1]; verification itself is free.
    """
    nodes, widths = gamma, [1] * gamma
    if shape is not None:
        parents = set(shape.parents)
        levels = [0 if node < 0 else shape.depths[node] for node in parents]
        nodes, widths = len(shape), [levels.count(level) for level in range(gamma)]
    drafting = cost_ratio * sum(load.call(rows) for rows in widths)
    return (expected_accepted + 1) * load.call(1) / (drafting + load.call(1 + nodes))
