"""The rows of a Markov pair by state, and how mass goes from one state to the next."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.models.base import MarkovModel
from simverify.simulators.tables import stacked
from simverify.trees import RowAfter

Array = npt.NDArray[Any]
"""Float64, or object arrays of :class:`fractions.Fraction`."""


@dataclass(frozen=True, eq=False)
class StateRows:
    """``target``, ``draft``: (S+1, V), the row after each state; that of no token stands last.

    The state after a token is ``token % S``.
    """

    target: Array
    draft: Array

    @classmethod
    def of(cls, model: MarkovModel) -> "StateRows":
        """Return the rows of ``model``, as fractions where it is defined by fractions."""
        found = model.rational
        if found is None:
            return cls(
                stacked(model.target_rows, model.target_start),
                stacked(model.draft_rows, model.draft_start),
            )
        target, draft = (
            np.array([*rows, start], dtype=object)
            for rows, start in (
                (found.target_rows, found.target_start), (found.draft_rows, found.draft_start)
            )
        )  # fmt: skip
        return cls(target, draft)

    @property
    def states(self) -> int:
        """Number of distinct rows after a token."""
        return len(self.target) - 1

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.target.shape[1])

    @property
    def rational(self) -> bool:
        """Whether the rows are fractions."""
        return self.target.dtype == object

    def start(self) -> Array:
        """Return all mass where no token has come yet: (S+1,)."""
        mass: Array = 0 * self.target[:, 0]
        mass[-1] = mass[-1] + 1
        return mass

    def by_state(self, mass: Array) -> Array:
        """Add up the mass (V,) of tokens that lead to the same state: (S+1,)."""
        found: Array = 0 * self.target[:, 0]
        np.add.at(found, np.arange(len(mass)) % self.states, mass)
        return found

    def after(self, of: Array) -> RowAfter:
        """Return the function that gives the row of ``of`` (S+1, V) after a text."""
        return lambda text: of[text[-1] % self.states if text else -1]
