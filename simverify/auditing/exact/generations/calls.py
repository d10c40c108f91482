"""A generation as a chain of calls: where it begins, where a call leads, and the law of it all.

Calls that begin alike have one law; the law of a generation is what theirs add up to.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from simverify.arrays import Row
from simverify.auditing.coverage.watch import watched
from simverify.auditing.exact.generations.enumerate import check_ids, read_tokens
from simverify.auditing.exact.generations.generation import until
from simverify.symbolic import ExactLaw, Finding
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.engine import RARE
from simverify.symbolic.enumeration.paths import Choice
from simverify.symbolic.errors import keep_gravest

if TYPE_CHECKING:
    from simverify.symbolic.errors import Severity


@dataclass(frozen=True)
class Place:
    """How far a generation is: its tokens, and its calls if it is an earlier one (else None)."""

    tokens: Tokens
    earlier: int | None


@dataclass(frozen=True)
class Generation:
    """What is generated after ``prompt``, call by call: ``length`` tokens or more, or to ``eos``.

    What a call emits after ``eos`` is dropped. Before the generation, if wanted, come up to
    ``earlier_calls`` calls of another one, which end of sequence may end sooner; then the rule
    is reset, as it is at the very beginning.
    """

    target: Callable[[Tokens], Row]
    draft: Callable[[Tokens], Row]
    gamma: int
    length: int
    prompt: Tokens = ()
    earlier_calls: int = 0
    eos: int | None = None

    def first(self) -> Place:
        """Where it begins."""
        return Place((), 0 if self.earlier_calls else None)

    def next(self, place: Place, new: Tokens) -> Place:
        """Where it is after a call that emitted ``new``."""
        tokens = place.tokens + new
        if place.earlier is None:
            return Place(tokens, None)
        over = place.earlier + 1 == self.earlier_calls or self.eos in tokens
        return Place((), None) if over else Place(tokens, place.earlier + 1)

    def is_over(self, place: Place) -> bool:
        """Whether end of sequence has come."""
        return place.earlier is None and self.eos is not None and self.eos in place.tokens


class Run:
    """One generation by a rule, built anew: ``instance`` is its object, None for a function.

    ``at``: it begins there, as after a longer prompt. ``built`` is told when the rule is built
    and reset.
    """

    def __init__(
        self,
        generation: Generation,
        rule: Callable[..., Any],
        rng: Any,
        *,
        is_step: bool,
        at: Place | None = None,
        built: Callable[[], None] | None = None,
    ) -> None:
        self._generation, self._rng = generation, rng
        self._vocab = len(generation.target(generation.prompt))
        self.instance = None if is_step else watched(rule)
        self._step = rule if self.instance is None else self.instance.step
        self.place = at or generation.first()
        self._reset()
        if built is not None:
            built()

    def call(self) -> Tokens:
        """Make the next call; return what counts of its tokens."""
        g, place = self._generation, self.place
        prefix = g.prompt + place.tokens
        result = watched(self._step, prefix, g.target, g.draft, g.gamma, self._rng)
        tokens = read_tokens(result)
        check_ids(tokens, self._vocab)
        new = until(tokens, g.eos)
        self.place = g.next(place, new)
        if place.earlier is not None and self.place.earlier is None:
            self._reset()
        return new

    def _reset(self) -> None:
        reset = getattr(self.instance, "reset", None)
        if reset is not None:
            watched(reset)


@dataclass(frozen=True)
class Beyond:
    """Calls made beyond the first tokens of an output, to look for what the code hides.

    Code that keeps what it kept at the start needs no others. ``every_way``: after each way in
    which the calls before them can end; else one, after the most tokens. They are made while
    the instance takes up to ``within`` paths; where ``due``, one is made in any case. If none
    are, nor is a call made once more after another history.
    """

    every_way: bool = True
    within: int = 1_000
    due: bool = True


EVERYWHERE = Beyond()
NOWHERE = Beyond(every_way=False, within=0, due=False)


class Way(NamedTuple):
    """A history: ``calls`` with these ``choices``, from ``begin``, where the rule is built."""

    begin: Place
    calls: int = 0
    choices: tuple[Choice, ...] = ()


@dataclass
class Node:
    """Calls that begin alike: at one place, with the same things kept.

    ``ways``: one or two histories that lead there. ``law``: that of the next call, run after
    the history ``run``; None until it is run.
    """

    place: Place
    image: Hashable
    ways: list[Way]
    run: Way | None = None
    law: ExactLaw | None = None

    @property
    def order(self) -> tuple[bool, int, int]:
        """What comes before what: a call leads to nodes of higher order alone."""
        return self.place.earlier is None, self.place.earlier or 0, len(self.place.tokens)


@dataclass(frozen=True)
class Composed:
    """The law of the first tokens of a generation, of different lengths.

    ``probabilities``: those of sequences which the target's law follows; ``open``: of those
    after which nothing is known. ``accepted``: the tokens of the first call, less one, on
    average; None where an end of sequence may have cut them. Other fields as in
    :class:`ExactLaw`.
    """

    probabilities: dict[Tokens, float]
    open: dict[Tokens, float]
    paths: int
    pruned: float
    lost: float
    findings: tuple[Finding, ...]
    complete: bool
    dtypes: frozenset[str]
    accepted: float | None = None


def composed(
    nodes: Mapping[tuple[Place, Hashable], Node], generation: Generation, start: Hashable
) -> Composed:
    """Compose the laws of the calls run; ``start``: the image of what is kept at first."""
    mass = {(generation.first(), start): 1.0}
    ends: dict[Tokens, float] = {}
    unknown: dict[Tokens, float] = {}
    lost_by: dict[str, float] = {}
    findings: dict[str, Finding] = {}
    laws = []
    for key, node in sorted(nodes.items(), key=lambda item: item[1].order):
        here = mass.get(key, 0.0)
        if node.law is None:
            known = generation.is_over(node.place) or node.image == start
            where = ends if known else unknown
            # Tokens of an earlier generation are none of the output.
            tokens = node.place.tokens if node.place.earlier is None else ()
            where[tokens] = where.get(tokens, 0.0) + here
            continue
        laws.append((here, node.law))
        for end in node.law.ends:
            after = generation.next(node.place, end.tokens), end.mark
            mass[after] = mass.get(after, 0.0) + here * end.weight
        for kind, share in node.law.lost_by:
            lost_by[kind] = lost_by.get(kind, 0.0) + here * share
        for finding in node.law.findings:
            keep_gravest(findings, finding)
    for kind, share in lost_by.items():
        grave: Severity = "violation" if share > RARE else "warning"
        findings[kind] = replace(findings[kind], severity=grave)
    return Composed(
        ends, unknown, sum(law.paths for _, law in laws),
        pruned=sum(here * law.pruned for here, law in laws),
        lost=sum(here * law.lost for here, law in laws),
        findings=tuple(findings.values()),
        complete=all(law.complete for _, law in laws),
        dtypes=frozenset[str]().union(*(law.dtypes for _, law in laws)),
        accepted=_accepted(nodes[generation.first(), start].law, generation),
    )  # fmt: skip


def _accepted(law: ExactLaw | None, generation: Generation) -> float | None:
    """E[tau] of the first call, whose ``law`` this is, where its tokens tell it."""
    if law is None or generation.eos is not None:
        return None
    return sum(weight * (len(tokens) - 1) for tokens, weight in law.probabilities.items())
