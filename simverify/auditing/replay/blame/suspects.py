"""Which lines what is emitted may have gone wrong in, the likeliest first.

Candidates are the lines that a wrong token depends on, along paths that emit it (a dynamic slice,
Korel and Laski 1988). Nearer to the decision comes before farther from it. A line in which values
that the code was handed apart come together, as a row of the target and one of the draft, comes
before one that passes values on, and that before one that has nothing to do with them. A test in
which they come together is a decision as well, also where it went one way on every path.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from simverify.auditing.replay.blame.dependence import Graph, Node
from simverify.auditing.replay.blame.partings import Event, Parting, decision, through
from simverify.auditing.replay.blame.steps import Step
from simverify.auditing.replay.runs import Call
from simverify.results import Instance

MOST = 12
"""Lines that are named."""

_PASSES_ON, _APART = 1, 3
"""How much farther a line counts that no values meet in, and one without any of them."""

_RIGHT = 3
"""How much farther a line counts that something right comes from (Zhang et al. 2006)."""

_TO_THE_END = 2
"""How much farther a line counts that lies behind the end of a path and not behind a decision."""

_LAST = 1_000
"""Farther than any line of a path that is looked at."""

_SAME = 1e-6


@dataclass(frozen=True)
class Way:
    """Steps of a path, and the one whose dependences are looked for.

    ``farther``: how much farther they count. ``itself``: that statement is one of them. ``right``:
    a step that gets its probabilities right, and so what it depends on.
    """

    path: Sequence[Step]
    start: int
    farther: int = 0
    itself: bool = False
    right: int | None = None


def suspects(ways: Sequence[Way]) -> tuple[str, ...]:
    """Return the statements that these depend on, as ``file:line``."""
    best: dict[str, tuple[int, int, int, int]] = {}
    graphs: dict[int, Graph] = {}
    left_out = set()
    for number, way in enumerate(ways):
        if id(way.path) not in graphs:
            graphs[id(way.path)] = Graph(way.path)
        graph = graphs[id(way.path)]
        if way.start not in graph.of:
            continue
        start = graph.of[way.start]
        if not way.itself:
            left_out.add(graph.nodes[start].at)
        behind = graph.behind({start: 0}, _cost)
        tests = dict.fromkeys((i for i in behind if _is_decision(graph.nodes[i])), 1)
        far, right = graph.behind(tests | {start: 0}, _cost), _right(graph, way)
        for i, steps in far.items():
            node = graph.nodes[i]
            if node.counts:
                doubt = _doubt(node) + _RIGHT * (node.at in right)
                key = (steps + doubt + way.farther, doubt, number, -node.ran)
                best[node.at] = min(best.get(node.at, key), key)
    return tuple(at for at in sorted(best, key=lambda at: best[at]) if at not in left_out)[:MOST]


def _right(graph: Graph, way: Way) -> set[str]:
    """Return the lines that are right as what is computed from them is, and that one's caller."""
    if way.right is None or way.right not in graph.of:
        return set()
    caller = way.path[way.right].caller
    found = set(graph.behind({graph.of[way.right]: 0}, _cost))
    if caller is not None and caller in graph.of:
        found.add(graph.of[caller])
    return {graph.nodes[i].at for i in found}


def _cost(node: Node) -> int:
    return int(node.counts)


def _is_decision(node: Node) -> bool:
    return node.counts and node.statement.test and node.meets


def _doubt(node: Node) -> int:
    if node.inputs == 0:
        return _APART
    return 0 if node.meets else _PASSES_ON


class Sites:
    """Paths that are looked at, by the line of a decision and the line that called for it.

    ``to_end``: lines behind the end of the path count too, as where no line decides the token.
    ``both``: so do those of a path that does not give the token, as where its kind is not known.
    """

    to_end: bool
    both: bool
    _rows: list[list[float]]
    _found: dict[tuple[str, str], "_Site"]

    def __init__(self, instance: Instance, *, to_end: bool, both: bool) -> None:
        self.to_end, self.both, self._found = to_end, both, {}
        self._rows = [_shares(row) for row in instance.draft_probs.values()]

    def add(self, call: Call, parting: Parting, event: Event) -> None:
        """Look at the likeliest path through a decision that gives the event, and one that not."""
        depth = len(parting.taken)
        leaves = through(call.leaves, parting.taken)
        for wanted in (True, False) if self.both else (True,):
            leaf = next((x for x in leaves if event(x.tokens) == wanted), None)
            here = None if leaf is None else decision(leaf, depth)
            if leaf is None or here is None:
                continue
            caller = leaf.steps[here].caller
            at = parting.where, "" if caller is None else leaf.steps[caller].at
            site = self._found.setdefault(at, _Site())
            weight = call.mass * leaf.weight
            if weight > site.weights[wanted]:
                site.weights[wanted] = weight
                site.ways[wanted] = Way(leaf.steps, here, int(not wanted))
            if wanted:
                site.moved += call.mass * parting.weight
                site.drafts &= call.drafted is None and self._is_drafted(parting)

    def ways(self, most: int) -> list[Way]:
        """Return what to look behind of, by the decisions that move the most probability.

        A token that a rule drafts itself, with the probabilities of the draft's own row, is drafted
        as it should be: what that depends on comes last.
        """
        sites = sorted(self._found.values(), key=lambda site: -site.moved)[:most]
        found = []
        for site in sites:
            for way in site.ways.values():
                found.append(replace(way, farther=_LAST) if site.drafts else way)
                if self.to_end:
                    farther = way.farther + _TO_THE_END * (not site.drafts)
                    right = way.start if site.drafts else None
                    found.append(Way(way.path, _end(way.path), farther, itself=True, right=right))
        return found

    def _is_drafted(self, parting: Parting) -> bool:
        shares = sorted(share for share in parting.shares if share > _SAME)
        return not parting.coin and any(
            len(row) == len(shares)
            and all(abs(a - b) < _SAME for a, b in zip(row, shares, strict=True))
            for row in self._rows
        )


class _Site:
    def __init__(self) -> None:
        self.moved = 0.0
        self.drafts = True
        self.weights = {True: 0.0, False: 0.0}
        self.ways: dict[bool, Way] = {}


def _shares(row: Sequence[float | str]) -> list[float]:
    return sorted(x for x in (float(Fraction(share)) for share in row) if x > _SAME)


def _end(path: Sequence[Step]) -> int:
    """Return the last step of the code under audit."""
    return max((i for i, step in enumerate(path) if step.own), default=len(path) - 1)
