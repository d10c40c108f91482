"""Calls that begin alike, and the law of a generation that theirs add up to."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from simverify.auditing.exact.generations.calls import Generation, Place
from simverify.symbolic import ExactLaw, Finding
from simverify.symbolic.endings import Tokens
from simverify.symbolic.enumeration.engine import RARE
from simverify.symbolic.enumeration.paths import Choice

if TYPE_CHECKING:
    from simverify.symbolic.errors import Severity


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
    after which nothing is known. Other fields as in :class:`ExactLaw`.
    """

    probabilities: dict[Tokens, float]
    open: dict[Tokens, float]
    paths: int
    pruned: float
    lost: float
    findings: tuple[Finding, ...]
    complete: bool
    dtypes: frozenset[str]


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
            findings.setdefault(finding.kind, finding)
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
    )  # fmt: skip
