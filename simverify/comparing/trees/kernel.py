"""What a sampled check runs on draft trees: a rule's kernel, or the readable rule without one."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from simverify.comparing.kernels.kernel import Kernel, Trial
from simverify.comparing.trees.whole import Text, places
from simverify.results import NodeCounts
from simverify.simulators.run import PIT_BINS, Counts
from simverify.simulators.streamed import Sample
from simverify.simulators.trees import compiled_rules, count_nodes
from simverify.trees import Drafting, draw_tree

READABLE_BLOCKS = 4_000
"""Calls of a readable rule, a second or so."""

NODE_CALLS = 1 << 16
"""Most calls of which each node is counted: a tenth of a second, and .002 of a call in doubt."""


@dataclass(frozen=True, eq=False)
class TreeKernel(Kernel):
    """One rule's kernel on one model, and the trees that are drafted for it."""

    drafting: Drafting

    @property
    def trees(self) -> Drafting:
        """Those that it judges."""
        return self.drafting

    def count_nodes(self, trials: int) -> NodeCounts:
        """Count the nodes that the first of ``trials`` calls kept, of ``NODE_CALLS`` at most."""
        calls = min(trials, NODE_CALLS)
        kept = count_nodes(self.tables, self.verifier, self.drafting, calls, seed=self.seed)
        return NodeCounts(calls=calls, kept=tuple(kept.tolist()))


@dataclass(frozen=True, eq=False)
class TreeTrial(TreeKernel, Trial):
    """Such a kernel on trial."""


@dataclass(frozen=True, eq=False)
class ReadableTrial(TreeTrial):
    """The readable rule itself, called on drawn trees: slow, and without threads."""

    def _simulate(self, trials: int, first_trial: int, calls: int, positions: int) -> Counts:
        accepted = np.zeros(self.gamma + 1, np.int64)
        lengths = np.zeros((2, 1), np.int64)
        transitions = np.zeros((positions, len(self.rows), self.cells), np.int64)
        for emitted, _ in _called(self, trials, first_trial):
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
            for emitted, _ in _called(self, size, 0)
            for position, (state, token) in enumerate(_steps(emitted, len(self.rows) - 1))
        ][:size]
        states, tokens, places = np.array(found, np.int64).T
        uniforms = np.random.default_rng([self.seed, 1]).random(len(found))
        return Sample(states, tokens, places, uniforms)

    def count_nodes(self, trials: int) -> NodeCounts:
        """Count the nodes that all calls kept."""
        kept = np.zeros(len(self.drafting.shape), np.int64)
        for _, way in _called(self, trials, 0):
            kept[list(way)] += 1
        return NodeCounts(calls=trials, kept=tuple(kept.tolist()))


def has_kernel(name: str, drafting: Drafting) -> bool:
    """Whether there is a compiled kernel of the rule ``name`` for trees so drafted."""
    return name in compiled_rules(drafting)


# The tokens that are counted are kept by a second pass over the same calls.
@lru_cache(maxsize=1)
def _called(trial: ReadableTrial, trials: int, first_trial: int) -> tuple[tuple[Text, Text], ...]:
    """Return what each of ``trials`` calls after the empty prefix emits, and the nodes it keeps."""
    rng = np.random.default_rng([trial.seed, 0, first_trial])
    model: Any = trial.model
    found = []
    for _ in range(trials):
        tree = draw_tree(trial.drafting, model.draft, rng)
        rows = tree.rows(model.target), tree.rows(model.draft)
        arrays = np.array(tree.tokens), np.array(tree.shape.parents)
        emitted = tuple(map(int, trial.verifier.rule(*rows, *arrays, rng)))
        found.append((emitted, places(trial.drafting, tree, tree.way_of(emitted[:-1]))))
    return tuple(found)


def _steps(emitted: tuple[int, ...], states: int) -> list[tuple[int, int]]:
    """Return each token with the row before it, that of no token being the last."""
    before = [states, *(token % states for token in emitted[:-1])]
    return list(zip(before, emitted, strict=True))
