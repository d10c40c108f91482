"""What a sampled check runs: one verifier's kernel on one model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from simverify.comparing.exact.curves import AcceptanceCurve
from simverify.models.base import MarkovModel, Model
from simverify.simulators.kernels.trees.judging import Family
from simverify.simulators.run import Counts, simulate
from simverify.simulators.streamed import Sample, sample
from simverify.simulators.tables import MAX_CONTEXT_CELLS, fine_cells, stacked, token_cells
from simverify.simulators.trees import sample_trees, simulate_trees
from simverify.trees import Drafting, get_scheme, shape_of_levels
from simverify.verifiers.base import part

if TYPE_CHECKING:
    from simverify.verifiers import Verifier
    from simverify.verifiers.trees import TreeVerifier

STREAMED = 1 << 15
"""Most tokens that are judged with their whole rows, 2 microseconds each at V = 256; of a rule
with state twice as many, since its faults show in some positions alone."""

MAX_STREAMED_ENTRIES = 1 << 30
"""Most entries of those rows: two seconds and 7,000 tokens at V = 152,064."""

STREAMED_CALLS = 1 << 15
"""Most tokens of single calls of a rule with state, which say what it is not."""


Part = Literal["run", "first calls"]
"""What a check counts: its run, and beside that of a rule with state its first calls."""

Counted = Callable[[Part, int], Counts]
"""Gives the counts of so many trials of a part, the first of them trial 0."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """One verifier's kernel on one model, as it runs: its counts follow from these alone."""

    verifier: "Verifier | TreeVerifier"
    model: Model
    tables: Any
    gamma: int
    seed: int
    threads: int

    @property
    def by_slot(self) -> bool:
        """Whether a position is a slot of a single call: so of every rule without state."""
        return self.verifier.contract != "step"

    @property
    def one_draft(self) -> bool:
        """Whether slots are those of one drafted block, whose faults have closed laws."""
        return self.verifier.contract == "verify"

    @property
    def markov(self) -> bool:
        """Whether rows follow from the last token, so that tokens can be counted by row."""
        return isinstance(self.model, MarkovModel)

    @property
    def by_context(self) -> bool:
        """Whether contexts repeat often enough to judge every token after each of them."""
        return self.markov and self.rows.size <= MAX_CONTEXT_CELLS

    @property
    def positions(self) -> int:
        """How many positions are judged: the slots of a call, or twice gamma tokens."""
        return self.gamma + 1 if self.by_slot else 2 * self.gamma

    @property
    def trees(self) -> Drafting | None:
        """The trees that it judges: a chain of a rule whose kernel is a ``Family``, else None."""
        if self.by_slot and isinstance(part(self.verifier.kernel), Family):
            return Drafting(shape_of_levels([1] * self.gamma), get_scheme("iid"))
        return None

    def position(self, index: int) -> str:
        """Name of a position, counted from 1."""
        kind = "slot" if self.by_slot else "position"
        return f"{kind} {index + 1}"

    @cached_property
    def rows(self) -> npt.NDArray[np.float64]:
        """Target rows (S+1, V) of a Markov model, in the order of the counts."""
        assert isinstance(self.model, MarkovModel)
        return stacked(self.model.target_rows, self.model.target_start)

    @cached_property
    def draft_rows(self) -> npt.NDArray[np.float64]:
        """Draft rows (S+1, V), in the same order."""
        assert isinstance(self.model, MarkovModel)
        return stacked(self.model.draft_rows, self.model.draft_start)

    @cached_property
    def cells(self) -> int:
        """How many cells of tokens are counted; V where there is room for every token."""
        if self.by_context:
            return self.model.vocab_size
        return fine_cells(self.model.vocab_size, len(self.rows), self.positions)

    def run(self, trials: int, first_trial: int = 0) -> Counts:
        """Count the tokens of ``trials`` calls, or generations for a rule with state."""
        # Every call emits a token, so this many calls fill the positions.
        calls = 1 if self.by_slot else self.positions
        return self._simulate(trials, first_trial, calls, self.positions)

    def first_calls(self, trials: int, first_trial: int = 0) -> Counts:
        """Run ``trials`` first calls, whatever the rule; tokens by slot where contexts repeat."""
        return self._simulate(trials, first_trial, 1, self.gamma + 1 if self.by_context else 0)

    def sample(self, trials: int, most: int | None = None) -> Sample:
        """Keep the first tokens of what ``run`` counts: as many as ``trials`` surely emit.

        At most ``most``, by default ``STREAMED``; twice as many of a rule with state.
        """
        most = STREAMED if most is None else most
        # A call emits a token at least; a generation fills its positions.
        if self.by_slot:
            return self._sample(min(most, trials), 1, self.positions)
        size = min(2 * most, trials * self.positions)
        return self._sample(size, self.positions, self.positions)

    def sample_first_calls(self, trials: int) -> Sample:
        """Keep the first tokens of single calls, whatever the rule."""
        return self._sample(min(STREAMED_CALLS, trials), 1, self.gamma + 1)

    def _sample(self, size: int, calls: int, positions: int) -> Sample:
        size = min(size, max(MAX_STREAMED_ENTRIES // self.model.vocab_size, 1))
        if self.trees is not None:
            return sample_trees(
                self.tables, self.verifier, self.trees, size, seed=self.seed, positions=positions
            )
        return sample(
            self.tables, self.verifier.name, self.gamma, size, seed=self.seed, calls=calls,
            positions=positions,
        )  # fmt: skip

    def _simulate(self, trials: int, first_trial: int, calls: int, positions: int) -> Counts:
        counted: dict[str, Any] = {
            "first_trial": first_trial,
            "seed": self.seed,
            "threads": self.threads,
            "pit_positions": 0 if self.by_context else positions,
        }
        if self.markov:
            counted["transition_shape"] = positions, len(self.rows), self.cells
            counted["cells"] = token_cells(self.model.vocab_size, self.cells)
        if self.trees is not None:
            return simulate_trees(self.tables, self.verifier, self.trees, trials, **counted)
        name = self.verifier.name
        return simulate(self.tables, name, self.gamma, trials, calls=calls, **counted)


@dataclass(frozen=True, eq=False)
class Trial(Kernel):
    """A kernel on trial: what its counts are held to, and with what share of alpha.

    ``curve`` is the rule's own acceptance law, None where nobody knows it; ``optimum`` the one
    no lossless rule of its kind exceeds: block verification's, or for a rule with state the
    coupling bound. ``counted``: where its trials were counted already; None: they are run.
    """

    curve: AcceptanceCurve | None
    optimum: AcceptanceCurve
    alpha: float
    detect: float
    counted: Counted | None = field(default=None, kw_only=True)

    def run(self, trials: int, first_trial: int = 0) -> Counts:
        """As a kernel's, from what was counted already where it was; pilots are always run."""
        if self.counted is not None and first_trial == 0:
            return self.counted("run", trials)
        return super().run(trials, first_trial)

    def first_calls(self, trials: int, first_trial: int = 0) -> Counts:
        """As a kernel's, likewise."""
        if self.counted is not None and first_trial == 0:
            return self.counted("first calls", trials)
        return super().first_calls(trials, first_trial)
