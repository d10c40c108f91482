"""Decisions that settle what is emitted, read off the tree of all paths.

A decision settles an event where its branches give it different probabilities, and leaves an
earlier event alone where they do not.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from simverify.auditing.replay.runs import Call
from simverify.symbolic.draws.path import Decided
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.recorder import Leaf

Stage = Literal["accepted", "residual", "bonus"]

_SAME = 1e-12

Event = Callable[[Tokens], bool]


def events(call: Call, beginning: Tokens, stage: Stage | None) -> tuple[Event, Event]:
    """Return what is settled before the decisions that are looked for, and what they settle.

    ``beginning``: of the output, up to the token in question.
    """
    end = len(beginning)
    position, last = end - 1, beginning[-1]
    x = call.drafted
    if stage is None or x is None:
        return (
            lambda out: out[:position] == beginning[:position],
            lambda out: out[:end] == beginning,
        )
    if stage == "accepted":
        return (
            lambda out: len(out) > position and out[:position] == x[:position],
            lambda out: len(out) > end and out[:end] == x[:end],
        )
    if stage == "bonus":
        return (
            lambda out: out[:position] == x[:position] and len(out) == end,
            lambda out: len(out) == end and out[:end] == (*x[:position], last),
        )
    return (
        lambda out: len(out) == end and out[:position] == x[:position],
        lambda out: len(out) == end and out[:end] == (*x[:position], last),
    )


@dataclass
class _Node:
    """Of the paths that begin with the same decisions: their weight, and that of each event."""

    weight: float = 0.0
    before: float = 0.0
    event: float = 0.0
    where: str = ""
    kind: Decided | None = None


@dataclass(frozen=True)
class Parting:
    """A decision that settles an event: its line, how much, and the branches taken before it.

    ``shares``: the probability of each of its branches there. ``coin``: it asks whether a draw is
    below a number, as who accepts a token does.
    """

    where: str
    weight: float
    taken: tuple[int, ...]
    shares: tuple[float, ...]
    coin: bool


def partings(leaves: Iterable[Leaf], before: Event | None, event: Event) -> Iterator[Parting]:
    """Yield each decision that settles ``event`` and not ``before``."""
    nodes: dict[tuple[int, ...], _Node] = defaultdict(_Node)
    children: dict[tuple[int, ...], set[tuple[int, ...]]] = defaultdict(set)
    for leaf in leaves:
        taken = tuple(branch.taken for branch in leaf.branches)
        for depth in range(len(taken) + 1):
            node = nodes[taken[:depth]]
            node.weight += leaf.weight
            node.before += leaf.weight * (before is not None and before(leaf.tokens))
            node.event += leaf.weight * event(leaf.tokens)
            if depth < len(taken):
                branch = leaf.branches[depth]
                node.where, node.kind = branch.where, branch.kind
                children[taken[:depth]].add(taken[: depth + 1])
    for place, below in children.items():
        ends = [nodes[child] for child in below if nodes[child].weight > 0]
        if not nodes[place].where or len(ends) < 2:
            continue
        settled = [end.before / end.weight for end in ends]
        shares = [end.event / end.weight for end in ends]
        if max(settled) - min(settled) <= _SAME < max(shares) - min(shares):
            mean = nodes[place].event / nodes[place].weight
            moved = sum(
                end.weight * abs(share - mean) for end, share in zip(ends, shares, strict=True)
            )
            whole = nodes[place].weight
            chances = tuple(end.weight / whole for end in ends)
            coin = nodes[place].kind is Decided.BOUND
            yield Parting(nodes[place].where, moved, place, chances, coin)


def through(leaves: Sequence[Leaf], taken: tuple[int, ...]) -> list[Leaf]:
    """Return the paths that begin with these branches, the likeliest first."""
    depth = len(taken)
    found = [x for x in leaves if tuple(branch.taken for branch in x.branches[:depth]) == taken]
    return sorted(found, key=lambda leaf: -leaf.weight)


def decision(leaf: Leaf, depth: int) -> int | None:
    """Return the step at which a path takes its branch ``depth``; None where it was not followed.

    What is drawn in one place may be decided later, where it is read.
    """
    branch = leaf.branches[depth]
    ran = [i for i, step in enumerate(leaf.steps[: branch.steps]) if step.at == branch.where]
    return ran[-1] if ran else None
