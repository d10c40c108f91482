"""The rows of a Markov pair as arrays indexed by the last token, rounded or rational."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.models.base import MarkovModel

Array = npt.NDArray[Any]
"""Float64, or object arrays of :class:`fractions.Fraction`."""

START = -1
"""The "last token" of the empty prefix: it indexes the start row, which stands last."""


@dataclass(frozen=True, eq=False)
class Rows:
    """``target`` and ``draft``: (V+1, V), the row after each token, the start row last."""

    target: Array
    draft: Array

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.target.shape[1])


@lru_cache(maxsize=8)
def markov_rows(model: MarkovModel) -> Rows:
    """Rows of ``model``: object arrays of Fractions where it is defined by fractions."""
    source: Any = model.rational or model
    after = np.arange(model.vocab_size) % model.states
    kind = object if model.rational else np.float64

    def stack(rows: Any, start: Any) -> Array:
        return np.vstack([np.array(rows, dtype=kind)[after], np.array(start, dtype=kind)])

    return Rows(
        stack(source.target_rows, source.target_start),
        stack(source.draft_rows, source.draft_start),
    )
