"""Which lines of code decide what went wrong: where the paths of a failing instance part.

A law that leaves the target at one token of the output leaves it by the decisions that settle this
token and none before it. Which these are is read off the tree of all paths: a decision settles an
event where its branches give it different probabilities, and leaves an earlier event alone where
they do not. Where no decision settles the token alone, those that settle the output up to it are
named.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from simverify.auditing.exact.documents import counterexample, localisation
from simverify.auditing.exact.generations.trees import as_judged
from simverify.auditing.exact.judging.diagnosis import rich_instance
from simverify.auditing.exact.judging.examiner import Examiner, Judged, generates
from simverify.auditing.probes.calls import Rule
from simverify.auditing.replay.blame.partings import Stage, events, partings
from simverify.auditing.replay.blame.rights import UNKNOWN, verdicts_on
from simverify.auditing.replay.blame.steps import Steps
from simverify.auditing.replay.blame.suspects import Sites, suspects
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.auditing.replay.runs import CALLS, STOPS, Budget
from simverify.auditing.subject import Contract, Subject
from simverify.results import Instance, Localisation
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.whose import portable

MOST = 3
"""Lines that are named, those that move the most probability first."""

_MAX_PATHS = 20_000
_SECONDS = 10.0
_SECONDS_FOLLOWED = 30.0
"""Following lines is slower."""


@dataclass(frozen=True)
class Deciding:
    """The lines, as ``file:line``. ``alone``: they decide the token and none before it.

    ``sources``: where the numbers of that decision come from, the likeliest mistake first.
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
        except STOPS:
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
    except STOPS:
        return Deciding()
    every = range(len(model.target(model.prompt)))
    for alone, lasts in itertools.product((True, False), ((sequence[position],), every)):
        moved: dict[str, float] = defaultdict(float)
        for call, last in itertools.product(calls, lasts):
            before, event = events(call, (*sequence[:position], last), stage)
            for parting in partings(call.leaves, before if alone else None, event):
                moved[parting.where] += call.mass * parting.weight
        if moved:
            most = sorted(moved, key=lambda where: -moved[where])[:MOST]
            found = Deciding(tuple(map(portable, most)), alone)
            ends = [(*sequence[:position], last) for last in lasts]
            behind = _sources(
                rule, contract, instance, sequence[: position + 2], ends, stage, most, alone
            )
            named = [line for line in map(portable, behind) if line not in found.lines]
            return replace(found, sources=tuple(named))
    return Deciding()


def _sources(
    rule: Rule,
    contract: Contract,
    instance: Instance,
    sequence: Tokens,
    beginnings: Sequence[Tokens],
    stage: Stage | None,
    lines: Sequence[str],
    alone: bool,
) -> tuple[str, ...]:
    """Return the statements that the decision at ``lines`` may get wrong numbers from.

    Where no line decides the token alone, the way of what the code returns is followed too.
    """
    steps = Steps()
    budget = Budget(_MAX_PATHS, _SECONDS_FOLLOWED, steps=steps)
    model = InstanceRows(instance)
    sites = Sites(instance, to_end=stage is None or not alone, both=stage is None)
    try:
        with steps.following():
            calls = CALLS[contract](rule, model, instance.gamma, sequence, budget)
            for call in calls:
                cut = sequence if call.drafted is None else None
                # A second draft for one place is judged by what the first left over.
                verdicts = UNKNOWN if call.tree else verdicts_on(call.leaves, model, cut)
                for beginning in beginnings:
                    before, event = events(call, beginning, stage)
                    for parting in partings(call.leaves, before if alone else None, event):
                        if parting.where in lines:
                            sites.add(call, parting, event, verdicts)
    except STOPS:
        pass  # what was followed until then is as good
    return suspects(sites.ways(MOST))
