"""What a sampled check runs on draft trees: a rule's kernel, or the readable rule without one."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from simverify.comparing.kernels.kernel import Trial
from simverify.simulators.run import PIT_BINS, Counts
from simverify.simulators.streamed import Sample
from simverify.trees import Drafting, draw_tree

READABLE_BLOCKS = 4_000
"""Calls of a readable rule, a second or so."""


@dataclass(frozen=True, eq=False)
class TreeTrial(Trial):
    """One rule's kernel on one model, and the trees that are drafted for it."""

    drafting: Drafting

    def _simulate(self, trials: int, first_trial: int, calls: int, positions: int) -> Counts:
        from simverify.simulators.trees import simulate_trees

        assert calls == 1, "rules for draft trees carry no state"
        return simulate_trees(
            self.tables,
            self.verifier.name,
            self.drafting,
            trials,
            seed=self.seed,
            threads=self.threads,
            transition_shape=(positions, len(self.rows), self.cells),
            first_trial=first_trial,
        )

    def _sample(self, size: int, calls: int, positions: int) -> Sample:
        from simverify.simulators.trees import sample_trees

        return sample_trees(
            self.tables, self.verifier.name, self.drafting, size, seed=self.seed,
            positions=positions,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ReadableTrial(TreeTrial):
    """The readable rule itself, called on drawn trees: slow, and without threads."""

    def _simulate(self, trials: int, first_trial: int, calls: int, positions: int) -> Counts:
        accepted = np.zeros(self.gamma + 1, np.int64)
        lengths = np.zeros((2, 1), np.int64)
        transitions = np.zeros((positions, len(self.rows), self.cells), np.int64)
        for emitted in _called(self, trials, first_trial):
            accepted[len(emitted) - 1] += 1
            lengths[:, 0] += len(emitted), len(emitted) ** 2
            for position, (state, token) in enumerate(_steps(emitted, len(self.rows) - 1)):
                transitions[position, state, token] += 1
        return Counts(
            trials, accepted, lengths, transitions, np.zeros((2, 0, PIT_BINS), np.int64), 0
        )

    def _sample(self, size: int, calls: int, positions: int) -> Sample:
        found = [
            (state, token, position)
            for emitted in _called(self, size, 0)
            for position, (state, token) in enumerate(_steps(emitted, len(self.rows) - 1))
        ][:size]
        states, tokens, places = np.array(found, np.int64).T
        uniforms = np.random.default_rng([self.seed, 1]).random(len(found))
        return Sample(states, tokens, places, uniforms)


def has_kernel(name: str, drafting: Drafting) -> bool:
    """Whether there is a compiled kernel of the rule ``name`` for trees so drafted."""
    from simverify.simulators.trees import compiled_rules

    return name in compiled_rules(drafting)


# The tokens that are counted are kept by a second pass over the same calls.
@lru_cache(maxsize=1)
def _called(trial: ReadableTrial, trials: int, first_trial: int) -> tuple[tuple[int, ...], ...]:
    """Return what the rule emits in each of ``trials`` calls from the empty prefix."""
    rng = np.random.default_rng([trial.seed, 0, first_trial])
    model: Any = trial.model
    found = []
    for _ in range(trials):
        tree = draw_tree(trial.drafting, model.draft, rng)
        rows = tree.rows(model.target), tree.rows(model.draft)
        arrays = np.array(tree.tokens), np.array(tree.shape.parents)
        found.append(tuple(map(int, trial.verifier.rule(*rows, *arrays, rng))))
    return tuple(found)


def _steps(emitted: tuple[int, ...], states: int) -> list[tuple[int, int]]:
    """Return each token with the row before it, that of no token being the last."""
    before = [states, *(token % states for token in emitted[:-1])]
    return list(zip(before, emitted, strict=True))
