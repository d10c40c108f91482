"""Every path by which code emits a given output on a given instance, shown draw by draw."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.generations.enumerate import (
    MAX_PATHS,
    SECONDS,
    check_ids,
    law_of_block,
)
from simverify.auditing.exact.generations.generation import decode, until
from simverify.auditing.exact.generations.trees import as_judged, law_of_tree
from simverify.auditing.probes.calls import Rule, built, read
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.auditing.subject import Contract
from simverify.results import Instance
from simverify.symbolic import Enumeration
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.paths import TooManyPaths
from simverify.symbolic.enumeration.recorder import Branch, Recorder
from simverify.symbolic.errors import OutOfTime
from simverify.symbolic.guards.watchdog import now
from simverify.trees import law_of_trees


@dataclass(frozen=True)
class Trail:
    """One path that leads to the output.

    ``drafted`` is the given block and ``draft_probability`` that of drafting it (None and 1
    under the step contract); ``tree`` draws it where it is one. ``weight`` is the path's own;
    ``completion`` the target's probability of the tokens of the output that the call left out.
    """

    drafted: Tokens | None
    draft_probability: float
    emitted: Tokens
    weight: float
    completion: float
    draws: int
    branches: tuple[Branch, ...]
    tree: str = ""

    @property
    def contribution(self) -> float:
        """Probability of the output by this path: the product of the three."""
        return self.draft_probability * self.weight * self.completion


@dataclass(frozen=True)
class Position:
    """The rows p and q after the first ``index`` tokens of the output; q is None past gamma."""

    index: int
    token: int
    target: tuple[float, ...]
    draft: tuple[float, ...] | None


@dataclass(frozen=True)
class Explanation:
    """All paths to ``sequence``, heaviest first; their contributions sum to ``emitted``.

    ``head``: of a drafter's call, what it was asked and reports, a line each.
    """

    instance: str
    sequence: Tokens
    emitted: float
    due: float
    positions: tuple[Position, ...]
    trails: tuple[Trail, ...]
    head: tuple[str, ...] = ()


def explain(
    rule: Rule,
    contract: Contract,
    instance: Instance,
    sequence: Sequence[int],
    *,
    max_paths: int = MAX_PATHS,
    seconds: float | None = SECONDS,
) -> Explanation:
    """Run the paths of ``rule`` on ``instance`` again and keep those that emit ``sequence``.

    Parameters
    ----------
    rule, contract
        The code under audit; a step rule is built anew for every path.
    instance
        Rows by prefix, as the result file has them; all that the code asks for.
    sequence
        The first tokens of a completed output: up to gamma+1 under the verify contract.
    max_paths, seconds
        Budgets, for all paths, also those that lead elsewhere.

    Raises
    ------
    CannotEnumerate, TooManyPaths, OutOfTime
        As in the exact tier.
    ValueError
        ``sequence`` does not fit the instance, or the instance lacks a row.
    """
    model = InstanceRows(instance)
    rule, contract = as_judged(rule, contract, model.drafting)
    tokens = _explain_iv(instance, contract, sequence)
    found = _FIND[contract](rule, model, instance.gamma, tokens, _Budget(max_paths, seconds))
    trails = sorted(found, key=lambda trail: trail.contribution, reverse=True)
    positions = []
    for i, token in enumerate(tokens):
        q = None
        if contract == "step" or i < instance.gamma:
            q = tuple(model.draft(model.prompt + tokens[:i]).tolist())
        p = tuple(model.target(model.prompt + tokens[:i]).tolist())
        positions.append(Position(i, token, p, q))
    return Explanation(
        instance.name, tokens, sum(t.contribution for t in trails),
        probability(model, model.target, tokens), tuple(positions), tuple(trails),
    )  # fmt: skip


@dataclass
class _Budget:
    """What is left of the budgets of all paths together."""

    max_paths: int
    seconds: float | None
    paths: int = 0
    started: float = field(default_factory=now)

    def paths_left(self) -> int:
        if self.paths >= self.max_paths:
            raise TooManyPaths(self.max_paths)
        return self.max_paths - self.paths

    def seconds_left(self) -> float | None:
        if self.seconds is None:
            return None
        spent = now() - self.started
        if spent >= self.seconds:
            raise OutOfTime(spent, self.paths)
        return self.seconds - spent


def _verify_trails(
    rule: Rule, model: InstanceRows, gamma: int, sequence: Tokens, budget: _Budget
) -> Iterator[Trail]:
    vocab = len(model.target(()))
    enumeration, source = _recording(rule, seed_once=False)
    recorded = _ended(rule, source)
    with enumeration:
        for drafted in itertools.product(range(vocab), repeat=gamma):
            mass = probability(model, model.draft, drafted)
            if mass == 0:
                continue
            targets = np.array([model.target(drafted[:i]) for i in range(gamma + 1)])
            drafts = np.array([model.draft(drafted[:i]) for i in range(gamma)])
            law = law_of_block(
                enumeration, recorded, targets, drafts, np.array(drafted, dtype=np.int64),
                max_paths=budget.paths_left(), seconds=budget.seconds_left(),
            )  # fmt: skip
            budget.paths += law.paths
            yield from _trails(source, model, sequence, drafted, mass)


def _tree_trails(
    rule: Rule, model: InstanceRows, gamma: int, sequence: Tokens, budget: _Budget
) -> Iterator[Trail]:
    drafting = model.drafting
    assert drafting is not None, "an instance of the tree contract says how trees are drafted"
    enumeration, source = _recording(rule, seed_once=False)
    recorded = _ended(rule, source)
    with enumeration:
        for tree, mass in law_of_trees(drafting, model.draft, max_trees=budget.max_paths):
            law = law_of_tree(
                enumeration, recorded, tree, model.target, model.draft,
                max_paths=budget.paths_left(), seconds=budget.seconds_left(),
            )  # fmt: skip
            budget.paths += law.paths
            for trail in _trails(source, model, sequence, tree.tokens, float(mass)):
                yield replace(trail, tree=tree.drawn())


def _step_trails(
    rule: Rule, model: InstanceRows, gamma: int, sequence: Tokens, budget: _Budget
) -> Iterator[Trail]:
    length, vocab = len(sequence), len(model.target(model.prompt))
    enumeration, source = _recording(rule, seed_once=True)

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
    yield from _trails(source, model, sequence, None, 1.0)


_FIND = {"verify": _verify_trails, "tree": _tree_trails, "step": _step_trails}


def _recording(rule: Rule, *, seed_once: bool) -> tuple[Enumeration, Recorder]:
    enumeration = Enumeration(rule, seed_once=seed_once)
    source = Recorder(enumeration.source.prune, seed_once=seed_once)
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


def _trails(
    source: Recorder, model: InstanceRows, sequence: Tokens, drafted: Tokens | None, mass: float
) -> Iterator[Trail]:
    for leaf in source.take():
        common = min(len(leaf.tokens), len(sequence))
        if leaf.tokens[:common] == sequence[:common]:
            rest = probability(model, model.target, sequence, common)
            yield Trail(drafted, mass, leaf.tokens, leaf.weight, rest, leaf.draws, leaf.branches)


def probability(
    model: InstanceRows, row: Callable[[Tokens], Row], tokens: Tokens, start: int = 0
) -> float:
    """Probability of ``tokens[start:]`` after the prompt and ``tokens[:start]``."""
    mass = 1.0
    for i in range(start, len(tokens)):
        mass *= float(row(model.prompt + tokens[:i])[tokens[i]])
        if mass == 0:
            break
    return mass


def _explain_iv(instance: Instance, contract: Contract, sequence: Sequence[int]) -> Tokens:
    if contract not in _FIND:
        raise ValueError(f"contract {contract!r}: pass one of {', '.join(_FIND)}")
    tokens = tuple(int(x) for x in sequence)
    most = instance.gamma + 1
    if not tokens or (contract != "step" and len(tokens) > most):
        raise ValueError(f"sequence of {len(tokens)} tokens: pass 1 to gamma + 1 = {most}")
    if min(tokens) < 0 or max(tokens) >= instance.vocab_size:
        raise ValueError(f"sequence {list(tokens)}: pass ids in 0..{instance.vocab_size - 1}")
    return tokens
