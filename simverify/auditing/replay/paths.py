"""Every path by which code emits a given output on a given instance, shown draw by draw."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simverify.auditing.exact.generations.enumerate import (
    MAX_PATHS,
    SECONDS,
)
from simverify.auditing.exact.generations.trees import as_judged
from simverify.auditing.probes.calls import Rule
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.auditing.replay.runs import CALLS, Budget, Call, probability_of
from simverify.auditing.subject import Contract
from simverify.results import Instance
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.recorder import Branch


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
    found = CALLS[contract](rule, model, instance.gamma, tokens, Budget(max_paths, seconds))
    every = (trail for call in found for trail in _trails(call, model, tokens))
    trails = sorted(every, key=lambda trail: trail.contribution, reverse=True)
    positions = []
    for i, token in enumerate(tokens):
        q = None
        if contract == "step" or i < instance.gamma:
            q = tuple(model.draft(model.prompt + tokens[:i]).tolist())
        p = tuple(model.target(model.prompt + tokens[:i]).tolist())
        positions.append(Position(i, token, p, q))
    return Explanation(
        instance.name, tokens, sum(t.contribution for t in trails),
        probability_of(model, model.target, tokens), tuple(positions), tuple(trails),
    )  # fmt: skip


def _trails(call: Call, model: InstanceRows, sequence: Tokens) -> Iterator[Trail]:
    for leaf in call.leaves:
        common = min(len(leaf.tokens), len(sequence))
        if leaf.tokens[:common] == sequence[:common]:
            rest = probability_of(model, model.target, sequence, common)
            yield Trail(
                call.drafted, call.mass, leaf.tokens, leaf.weight, rest, leaf.draws, leaf.branches,
                call.tree,
            )  # fmt: skip


def _explain_iv(instance: Instance, contract: Contract, sequence: Sequence[int]) -> Tokens:
    if contract not in CALLS:
        raise ValueError(f"contract {contract!r}: pass one of {', '.join(CALLS)}")
    tokens = tuple(int(x) for x in sequence)
    most = instance.gamma + 1
    if not tokens or (contract != "step" and len(tokens) > most):
        raise ValueError(f"sequence of {len(tokens)} tokens: pass 1 to gamma + 1 = {most}")
    if min(tokens) < 0 or max(tokens) >= instance.vocab_size:
        raise ValueError(f"sequence {list(tokens)}: pass ids in 0..{instance.vocab_size - 1}")
    return tokens
