"""Which lines of code decide what went wrong: where the paths of a failing instance part.

A law that leaves the target at one token of the output leaves it by the decisions that settle this
token and none before it. Which these are is read off the tree of all paths: a decision settles an
event where its branches give it different probabilities, and leaves an earlier event alone where
they do not. Where no decision settles the token alone, those that settle the output up to it are
named.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from simverify.auditing.exact.documents import counterexample, localisation
from simverify.auditing.exact.generations.trees import as_judged
from simverify.auditing.exact.judging.diagnosis import rich_instance
from simverify.auditing.exact.judging.examiner import Examiner, Judged, generates
from simverify.auditing.probes.calls import Rule
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.auditing.replay.provenance import MOST as MOST_SOURCES
from simverify.auditing.replay.provenance import decision, sources, through
from simverify.auditing.replay.runs import CALLS, Budget, Call
from simverify.auditing.replay.steps import Steps
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
_SECONDS_FOLLOWED = 30.0
"""Following lines is slower."""

_STOPS = (CannotEnumerate, TooManyPaths, OutOfTime, SimverifyError, ValueError)
"""What ends a run of all paths before its end."""


@dataclass(frozen=True)
class Deciding:
    """The lines, as ``file:line``. ``alone``: they decide the token and none before it.

    ``sources``: where the numbers of that decision come from, what ran last first.
    """

    lines: tuple[str, ...] = ()
    alone: bool = True
    sources: tuple[str, ...] = ()


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
    named = _lines_on(subject, contract, shown)
    if not named.lines:
        examiner = Examiner(subject, contract, tolerance)
        try:
            richer = examiner.judge(rich_instance(contract, shown.model), _SECONDS)
        except _STOPS:
            return place
        if richer.deviates:
            named = _lines_on(subject, contract, richer)
    return msgspec.structs.replace(
        place, lines=named.lines, alone=named.alone, sources=named.sources or msgspec.UNSET
    )


def _lines_on(subject: Subject, contract: Contract, judged: Judged) -> Deciding:
    place = localisation(judged)
    if place is None:
        return Deciding()
    found = counterexample(judged, "step" if generates(subject, contract) else contract)
    if len(found.sequence) <= place.position:
        return Deciding()
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
) -> Deciding:
    """Return the lines where the token at ``position`` is decided.

    Files of installed packages are named from the package's folder on. Where no line decides that
    token alone, as none is drawn for it, they are those that decide the output up to it.

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
        draws after a rejection, or that draws the bonus token. Of an output that never comes, or
        whose token is of another kind, every token in that place is looked at.

    Empty where the paths cannot be run again one by one, or where no line of the code under audit
    decides it.
    """
    model = InstanceRows(instance)
    rule, contract = as_judged(rule, contract, model.drafting)
    if contract not in CALLS:
        return Deciding()
    budget = Budget(_MAX_PATHS, _SECONDS)
    try:
        calls = list(CALLS[contract](rule, model, instance.gamma, sequence, budget))
    except _STOPS:
        return Deciding()
    every = range(len(model.target(model.prompt)))
    for alone, lasts in itertools.product((True, False), ((sequence[position],), every)):
        moved: dict[str, float] = defaultdict(float)
        for call, last in itertools.product(calls, lasts):
            before, event = _events(call, (*sequence[:position], last), stage)
            for parting in _parting(call.leaves, before if alone else None, event):
                moved[parting.where] += call.mass * parting.weight
        if moved:
            most = sorted(moved, key=lambda where: -moved[where])[:MOST]
            found = Deciding(tuple(map(portable, most)), alone)
            ends = [(*sequence[:position], last) for last in lasts]
            behind = _sources(rule, contract, instance, ends, stage, most, alone)
            named = [line for line in map(portable, behind) if line not in found.lines]
            return replace(found, sources=tuple(named))
    return Deciding()


def _sources(
    rule: Rule,
    contract: Contract,
    instance: Instance,
    beginnings: Sequence[Tokens],
    stage: Stage | None,
    lines: Sequence[str],
    alone: bool,
) -> tuple[str, ...]:
    """Return the statements that the decision at ``lines`` gets its numbers from.

    They are read off the likeliest path of the failing output that takes it; where none gives
    that output, of any that decides there. Where no line decides the token alone, the way of
    what the code returns is followed too.
    """
    steps = Steps()
    budget = Budget(_MAX_PATHS, _SECONDS_FOLLOWED, steps=steps)
    model = InstanceRows(instance)
    to_end = stage is None or not alone
    moved: dict[tuple[str, str], float] = defaultdict(float)
    best: dict[tuple[str, str], tuple[tuple[bool, float], tuple[str, ...]]] = {}
    end: dict[tuple[str, str], tuple[str, ...]] = {}
    try:
        with steps.following():
            calls = CALLS[contract](rule, model, instance.gamma, beginnings[0], budget)
            pairs = ((call, beginning) for call in calls for beginning in beginnings)
            for call, beginning in pairs:
                before, event = _events(call, beginning, stage)
                for parting in _parting(call.leaves, before if alone else None, event):
                    if parting.where not in lines:
                        continue
                    for leaf in through(call.leaves, parting.taken):
                        here = decision(leaf, len(parting.taken))
                        if here is None:
                            continue
                        caller = leaf.steps[here].caller
                        site = parting.where, "" if caller is None else leaf.steps[caller].at
                        rank = event(leaf.tokens), call.mass * leaf.weight
                        if site not in best or rank > best[site][0]:
                            best[site] = rank, sources(leaf.steps, here)
                            if to_end:
                                end[site] = sources(leaf.steps, len(leaf.steps) - 1)
                        moved[site] += call.mass * parting.weight
                        break
    except _STOPS:
        pass  # what was followed until then is as good
    sites = sorted(best, key=lambda site: -moved[site])[:MOST]
    ways = [way for site in sites for way in (best[site][1], end.get(site, ()))]
    turns = itertools.zip_longest(*ways)
    return tuple(dict.fromkeys(line for turn in turns for line in turn if line))[:MOST_SOURCES]


Event = Callable[[Tokens], bool]


def _events(call: Call, beginning: Tokens, stage: Stage | None) -> tuple[Event, Event]:
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


@dataclass(frozen=True)
class _Parting:
    """A decision that settles an event: its line, how much, and the branches taken before it."""

    where: str
    weight: float
    taken: tuple[int, ...]


def _parting(leaves: Iterable[Leaf], before: Event | None, event: Event) -> Iterator[_Parting]:
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
            yield _Parting(nodes[place].where, moved, place)
