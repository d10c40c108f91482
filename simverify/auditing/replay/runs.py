"""Runs code on an instance of a result file again, and keeps every path with its decisions."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.generations.enumerate import check_ids, law_of_block
from simverify.auditing.exact.generations.generation import decode, until
from simverify.auditing.exact.generations.trees import law_of_tree
from simverify.auditing.probes.calls import Rule, built, read
from simverify.auditing.replay.blame.steps import Steps
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.errors import SimverifyError
from simverify.symbolic import Enumeration
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.paths import TooManyPaths
from simverify.symbolic.enumeration.recorder import Leaf, Recorder
from simverify.symbolic.errors import CannotEnumerate, OutOfTime
from simverify.symbolic.guards.watchdog import now
from simverify.trees import law_of_trees

STOPS = (CannotEnumerate, TooManyPaths, OutOfTime, SimverifyError, ValueError)
"""What ends a run of all paths before its end."""


@dataclass(frozen=True)
class Call:
    """A call's paths. ``drafted``: the block that it was given, of probability ``mass``.

    ``drafted`` is None and ``mass`` 1 under the step contract; ``tree`` draws it where it is one.
    """

    drafted: Tokens | None
    mass: float
    leaves: list[Leaf]
    tree: str = ""


@dataclass
class Budget:
    """What is left of the budgets of all paths together. ``steps``: follows the lines they run."""

    max_paths: int
    seconds: float | None
    paths: int = 0
    started: float = field(default_factory=now)
    steps: Steps | None = None

    def paths_left(self) -> int:
        """Return how many paths are left; raises ``TooManyPaths`` at 0."""
        if self.paths >= self.max_paths:
            raise TooManyPaths(self.max_paths)
        return self.max_paths - self.paths

    def seconds_left(self) -> float | None:
        """Return how many seconds are left; raises ``OutOfTime`` at 0."""
        if self.seconds is None:
            return None
        spent = now() - self.started
        if spent >= self.seconds:
            raise OutOfTime(spent, self.paths)
        return self.seconds - spent


def _verify_calls(
    rule: Rule, model: InstanceRows, gamma: int, sequence: Tokens, budget: Budget
) -> Iterator[Call]:
    vocab = len(model.target(()))
    enumeration, source = _recording(rule, budget, seed_once=False)
    recorded = _ended(rule, source)
    with enumeration:
        for drafted in itertools.product(range(vocab), repeat=gamma):
            mass = probability_of(model, model.draft, drafted)
            if mass == 0:
                continue
            targets = np.array([model.target(drafted[:i]) for i in range(gamma + 1)])
            drafts = np.array([model.draft(drafted[:i]) for i in range(gamma)])
            law = law_of_block(
                enumeration, recorded, targets, drafts, np.array(drafted, dtype=np.int64),
                max_paths=budget.paths_left(), seconds=budget.seconds_left(),
            )  # fmt: skip
            budget.paths += law.paths
            yield Call(drafted, mass, source.take())


def _tree_calls(
    rule: Rule, model: InstanceRows, gamma: int, sequence: Tokens, budget: Budget
) -> Iterator[Call]:
    drafting = model.drafting
    assert drafting is not None, "an instance of the tree contract says how trees are drafted"
    enumeration, source = _recording(rule, budget, seed_once=False)
    recorded = _ended(rule, source)
    with enumeration:
        for tree, mass in law_of_trees(drafting, model.draft, max_trees=budget.max_paths):
            law = law_of_tree(
                enumeration, recorded, tree, model.target, model.draft,
                max_paths=budget.paths_left(), seconds=budget.seconds_left(),
            )  # fmt: skip
            budget.paths += law.paths
            yield Call(tree.tokens, float(mass), source.take(), tree.drawn())


def _step_calls(
    rule: Rule, model: InstanceRows, gamma: int, sequence: Tokens, budget: Budget
) -> Iterator[Call]:
    length, vocab = len(sequence), len(model.target(model.prompt))
    enumeration, source = _recording(rule, budget, seed_once=True)

    def call() -> Tokens:
        source.handing(enumeration.rng)
        step, reset = built(rule)

        def more(emitted: Tokens) -> Tokens:
            new = read(step(emitted, model.target, model.draft, gamma, enumeration.rng))
            check_ids(new, vocab)
            so_far = emitted[len(model.prompt) :] + until(new, model.eos)
            if not model.earlier_calls and so_far[:length] != sequence[: len(so_far)]:
                return (*new, *(0,) * length)  # elsewhere: where to does not matter
            return new

        tokens = decode(
            more, reset, length=length, prefix=model.prompt,
            eos=model.eos, earlier_calls=model.earlier_calls,
        )[:length]  # fmt: skip
        source.end(tokens)
        return tokens

    with enumeration:
        enumeration.run(call, max_paths=budget.paths_left(), seconds=budget.seconds_left())
    if model.missing:
        raise ValueError(model.missing)  # the code's own handling may have hidden it
    yield Call(None, 1.0, source.take())


def _recording(rule: Rule, budget: Budget, *, seed_once: bool) -> tuple[Enumeration, Recorder]:
    enumeration = Enumeration(rule, seed_once=seed_once)
    source = Recorder(enumeration.source.prune, seed_once=seed_once, steps=budget.steps)
    enumeration.source = source
    return enumeration, source


def _ended(rule: Rule, source: Recorder) -> Rule:
    """Return ``rule`` with the end of each of its paths noted."""

    def recorded(*call: Any) -> Any:
        source.handing(call[-1])
        result = rule(*call)
        source.end(read(result))
        return result

    return recorded


def probability_of(
    model: InstanceRows, row: Callable[[Tokens], Row], tokens: Tokens, start: int = 0
) -> float:
    """Probability of ``tokens[start:]`` after the prompt and ``tokens[:start]``."""
    mass = 1.0
    for i in range(start, len(tokens)):
        mass *= float(row(model.prompt + tokens[:i])[tokens[i]])
        if mass == 0:
            break
    return mass


CALLS = {"verify": _verify_calls, "tree": _tree_calls, "step": _step_calls}
"""By contract: yields the calls of a rule on an instance, all paths of each.

Under the step contract paths that leave ``sequence`` are cut short.
"""
