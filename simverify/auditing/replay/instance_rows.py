"""The rows of an instance in a result file, as functions of a prefix again."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from simverify.arrays import Row
from simverify.results import Instance
from simverify.trees import Drafting, TreeShape, get_scheme


class InstanceRows:
    """The rows of a result file's :class:`Instance`: ``target(prefix)``, ``draft(prefix)``.

    Prefixes begin with the instance's prompt.
    """

    def __init__(self, instance: Instance) -> None:
        self.name, self.vocab_size = instance.name, instance.vocab_size
        self.earlier_calls = instance.earlier_calls
        self.eos = instance.eos
        self.prompt = instance.prompt
        self.drafting = drafting_of(instance)
        self.missing = ""
        self._targets, self._drafts = (
            {
                prefix: np.array([float(Fraction(x)) for x in row], dtype=np.float64)
                for prefix, row in rows.items()
            }
            for rows in (instance.target_probs, instance.draft_probs)
        )

    def target(self, prefix: Sequence[int]) -> Row:
        """Fresh row (V,) of the target after ``prefix``."""
        return self._row(self._targets, "target", prefix)

    def draft(self, prefix: Sequence[int]) -> Row:
        """Fresh row (V,) of the draft after ``prefix``."""
        return self._row(self._drafts, "draft", prefix)

    def _row(self, rows: dict[str, Row], side: str, prefix: Sequence[int]) -> Row:
        start = len(self.prompt)
        key = ",".join(map(str, prefix[start:]))
        if key not in rows or tuple(prefix[:start]) != self.prompt:
            self.missing = self.missing or (
                f"instance {self.name!r} has no {side} row after {key!r}: record deeper prefixes"
            )
            raise ValueError(self.missing)
        return rows[key].copy()


def drafting_of(instance: Instance) -> Drafting | None:
    """Return how the instance's draft trees are drafted; None where blocks are."""
    if instance.parents is None or instance.scheme is None:
        return None
    return Drafting(TreeShape(instance.parents), get_scheme(instance.scheme))
