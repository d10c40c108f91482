"""Which lines what is emitted may have gone wrong in, the likeliest first.

Candidates are the lines that a wrong token depends on, along paths that emit it (a dynamic slice,
Korel and Laski 1988). Nearer to the decision comes before farther from it. A line in which values
that the code was handed apart come together, as a row of the target and one of the draft, comes
before one that passes values on, and that before one that has nothing to do with them. A test in
which they come together is a decision as well, also where it went one way on every path.

Where a decision is not as the rows demand, a number that it rests on is wrong, and what comes from
other decisions comes last. Lines that it hangs on by a test alone count farther, and so do lines
that the numbers of a right decision come from (a dice, Chen and Cheung 1997).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from simverify.auditing.replay.blame.dependence import Graph, Node
from simverify.auditing.replay.blame.partings import Event, Parting, decision, through
from simverify.auditing.replay.blame.rights import Known, Verdicts
from simverify.auditing.replay.blame.steps import Step
from simverify.auditing.replay.runs import Call
from simverify.results import Instance

MOST = 12
"""Lines that are named."""

_PASSES_ON, _APART = 1, 3
"""How much farther a line counts that no values meet in, and one without any of them."""

_RIGHT = 3
"""How much farther a line counts that something right comes from (Zhang et al. 2006)."""

_HANDS_ON = 3
"""How much farther a line counts that calls a function of names as they are."""

_NO_VALUE = 3
"""How much farther a line counts that a wrong number hangs on by a test alone."""

_TO_THE_END = 2
"""How much farther a line counts that lies behind the end of a path and not behind a decision."""

_LAST = 1_000
"""Farther than any line of a path that is looked at."""

_TAKES = frozenset({"argmax", "argsort", "topk"})
"""Names of functions that take the likeliest where others draw."""

_SAME = 1e-6


@dataclass(frozen=True)
class Way:
    """Steps of a path, and the one whose dependences are looked for.

    ``farther``: how much farther they count. ``itself``: that statement is one of them. ``right``:
    a step that gets its probabilities right, and so what it depends on. ``known``: of the path.
    """

    path: Sequence[Step]
    start: int
    farther: int = 0
    itself: bool = False
    right: int | None = None
    known: Known = field(default_factory=Known)

    @property
    def wrong(self) -> bool:
        """Whether the decision that it begins at is known not to be as the rows demand."""
        return self.start in self.known.wrong


def suspects(ways: Sequence[Way]) -> tuple[str, ...]:
    """Return the statements that these depend on, as ``file:line``."""
    best: dict[str, tuple[int, int, int, int]] = {}
    graphs: dict[int, Graph] = {}
    for way in ways:
        if id(way.path) not in graphs:
            graphs[id(way.path)] = Graph(way.path)
    right_values = _right_values(ways, graphs)
    left_out = set()
    for number, way in enumerate(ways):
        graph = graphs[id(way.path)]
        if way.start not in graph.of:
            continue
        start = graph.of[way.start]
        if not way.itself:
            left_out.add(graph.nodes[start].at)
        behind = graph.behind({start: 0}, _cost)
        tests = {} if way.wrong else {i: 1 for i in behind if _is_decision(graph.nodes[i])}
        far, right = graph.behind(tests | {start: 0}, _cost), _right(graph, way)
        values = graph.values([way.start], ()) if way.wrong else far.keys()
        for i, steps in far.items():
            node = graph.nodes[i]
            if node.counts:
                doubt = _doubt(node) + _RIGHT * (node.at in right)
                if way.known.undrawn and any(x.name in _TAKES for x in node.statement.calls):
                    doubt = -steps
                doubt += _NO_VALUE * (i not in values)
                doubt += _RIGHT * (node.ran in right_values[number])
                key = (steps + doubt + way.farther, doubt, number, -node.ran)
                best[node.at] = min(best.get(node.at, key), key)
    return tuple(at for at in sorted(best, key=lambda at: best[at]) if at not in left_out)[:MOST]


def _right_values(ways: Sequence[Way], graphs: Mapping[int, Graph]) -> list[set[int]]:
    """Return of each way the steps that the values of right decisions come from.

    What is known of one path holds for another that parts from it at the same decision, as far as
    both run the same lines.
    """
    own = []
    for way in ways:
        graph = graphs[id(way.path)]
        found = graph.values(way.known.right, way.known.wrong)
        own.append({graph.nodes[i].ran for i in found})
    every: list[set[int]] = []
    for way in ways:
        every.append(set())
        for other, steps in zip(ways, own, strict=True):
            if other.start == way.start:
                common = _common(way.path, other.path)
                every[-1] |= {step for step in steps if step < common}
    return every


def _common(path: Sequence[Step], other: Sequence[Step]) -> int:
    """Return how many steps two paths share."""
    if path is other:
        return len(path)
    same = (a == b for a, b in zip(path, other, strict=False))
    return next((i for i, is_same in enumerate(same) if not is_same), min(len(path), len(other)))


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
    return int(node.counts and not _hands_on(node))


def _hands_on(node: Node) -> bool:
    return node.statement.hands_on and bool(node.calls)


def _is_decision(node: Node) -> bool:
    return node.counts and node.statement.test and node.meets


def _doubt(node: Node) -> int:
    if node.inputs == 0:
        return _APART
    return (0 if node.meets else _PASSES_ON) + _HANDS_ON * _hands_on(node)


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

    def add(self, call: Call, parting: Parting, event: Event, verdicts: Verdicts) -> None:
        """Look at the likeliest path through a decision that gives the event, and one that not.

        ``verdicts``: on the decisions of the call.
        """
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
                known = verdicts.of(leaf)
                site.ways[wanted] = Way(leaf.steps, here, int(not wanted), known=known)
            if wanted:
                site.moved += call.mass * parting.weight
                site.drafts &= (
                    call.drafted is None
                    and self._is_drafted(parting)
                    and verdicts.known.get(parting.taken) is not False
                )

    def ways(self, most: int) -> list[Way]:
        """Return what to look behind of, by the decisions that move the most probability.

        A token that a rule drafts itself, with the probabilities of the draft's own row, is drafted
        as it should be: what that depends on comes last, as it does of any other right decision.
        """
        sites = sorted(self._found.values(), key=lambda site: -site.moved)[:most]
        is_known = any(way.wrong for site in sites for way in site.ways.values())
        found = []
        for site in sites:
            for way in site.ways.values():
                if way.wrong:
                    found.append(way)
                    continue
                is_right = site.drafts or way.start in way.known.right
                found.append(replace(way, farther=_LAST) if is_right or is_known else way)
                if self.to_end or way.known.always_kept:
                    farther = way.farther + _TO_THE_END * (not is_right) + _LAST * is_known
                    right = way.start if site.drafts else None
                    end = _end(way.path)
                    found.append(replace(way, start=end, farther=farther, itself=True, right=right))
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
