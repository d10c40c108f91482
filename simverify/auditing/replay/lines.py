"""Which lines of code decide what went wrong: where the paths of a failing instance part.

A law that leaves the target at one token of the output leaves it by the decisions that settle this
token and none before it. Which these are is read off the tree of all paths: a decision settles an
event where its branches give it different probabilities, and leaves an earlier event alone where
they do not.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from simverify.auditing.exact.documents import counterexample, localisation
from simverify.auditing.exact.generations.trees import as_judged
from simverify.auditing.exact.judging.diagnosis import rich_instance
from simverify.auditing.exact.judging.examiner import Examiner, Judged, generates
from simverify.auditing.probes.calls import Rule
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.auditing.replay.runs import CALLS, Budget, Call
from simverify.auditing.subject import Contract, Subject
from simverify.errors import SimverifyError
from simverify.results import Instance, Localisation
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.paths import TooManyPaths
from simverify.symbolic.enumeration.recorder import Leaf
from simverify.symbolic.errors import CannotEnumerate, OutOfTime
from simverify.symbolic.whose import portable

Stage = Literal["accepted", "residual", "bonus"]

MOST = 3
"""Lines that are named, those that move the most probability first."""

_SAME = 1e-12
_MAX_PATHS = 20_000
_SECONDS = 10.0

_STOPS = (CannotEnumerate, TooManyPaths, OutOfTime, SimverifyError, ValueError)
"""What ends a run of all paths before its end."""


def located(
    subject: Subject, contract: Contract, shown: Judged, tolerance: float | None
) -> Localisation | None:
    """Return where the law that was judged leaves the target, with the lines that decide it.

    Where the failing instance leaves the code no choice, as rows of one token do, a richer one is
    taken for the lines.
    """
    place = localisation(shown)
    if place is None or subject.coin_bits is not None:
        return place
    lines = _lines_on(subject, contract, shown)
    if not lines:
        examiner = Examiner(subject, contract, tolerance)
        try:
            richer = examiner.judge(rich_instance(contract, shown.model), _SECONDS)
        except _STOPS:
            return place
        lines = _lines_on(subject, contract, richer) if richer.deviates else ()
    return msgspec.structs.replace(place, lines=lines)


def _lines_on(subject: Subject, contract: Contract, judged: Judged) -> tuple[str, ...]:
    place = localisation(judged)
    if place is None:
        return ()
    found = counterexample(judged, "step" if generates(subject, contract) else contract)
    if len(found.sequence) <= place.position:
        return ()
    return deciding_lines(
        subject.rule, contract, found.instance, found.sequence, place.position, place.stage
    )


def deciding_lines(
    rule: Rule,
    contract: Contract,
    instance: Instance,
    sequence: Tokens,
    position: int,
    stage: Stage | None,
) -> tuple[str, ...]:
    """Return the places, as ``file:line``, where the token at ``position`` is decided.

    Files of installed packages are named from the package's folder on.

    Parameters
    ----------
    rule, contract, instance
        The code under audit and the instance that it fails on.
    sequence
        An output of the wrong probability; its tokens are looked at where ``stage`` is None.
    position
        Index of the first token at which the law leaves the target.
    stage
        The kind of token that carries the deviation: the line that keeps the draft token, that
        draws after a rejection, or that draws the bonus token.

    Empty where the paths cannot be run again one by one, or where no line of the code under audit
    decides it.
    """
    model = InstanceRows(instance)
    rule, contract = as_judged(rule, contract, model.drafting)
    if contract not in CALLS:
        return ()
    budget = Budget(_MAX_PATHS, _SECONDS)
    try:
        calls = list(CALLS[contract](rule, model, instance.gamma, sequence, budget))
    except _STOPS:
        return ()
    moved: dict[str, float] = defaultdict(float)
    for strict in (True, False):
        for call in calls:
            before, event = _events(call, sequence, position, stage)
            for where, weight in _parting(call.leaves, before if strict else None, event):
                moved[where] += call.mass * weight
        if moved:
            break
    most = sorted(moved, key=lambda where: -moved[where])[:MOST]
    return tuple(map(portable, most))


Event = Callable[[Tokens], bool]


def _events(
    call: Call, sequence: Tokens, position: int, stage: Stage | None
) -> tuple[Event, Event]:
    """Return what is settled before the decisions that are looked for, and what they settle."""
    end = position + 1
    x = call.drafted
    if stage is None or x is None:
        return (
            lambda out: out[:position] == sequence[:position],
            lambda out: out[:end] == sequence[:end],
        )
    if stage == "accepted":
        return (
            lambda out: len(out) > position and out[:position] == x[:position],
            lambda out: len(out) > end and out[:end] == x[:end],
        )
    last = sequence[position]
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


def _parting(
    leaves: Iterable[Leaf], before: Event | None, event: Event
) -> Iterator[tuple[str, float]]:
    """Yield each decision that settles ``event`` and not ``before``: its line, and how much."""
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
                node.where = leaf.branches[depth].where
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
            yield nodes[place].where, moved
