"""What each statement that a path ran depends on: a dynamic dependence graph.

A statement depends on what last wrote the names that it reads, on what the functions that it calls
return, on what its function was called with, and on the tests around it, all read off the source
and the lines that ran (Agrawal and Horgan 1990). Libraries and other threads are not seen.
"""

import ast
import contextlib
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Literal

from simverify.auditing.rerun import CallPaths, LineStep
from simverify.symbolic.engine import RecordedPath
from simverify.symbolic.outcomes import Tokens
from simverify.symbolic.races import DecisionKind

NameSet = frozenset[str]


@dataclass(frozen=True)
class Argument:
    """What is handed over in a call: the names whose values count, and the functions called."""

    names: NameSet = frozenset()
    functions: NameSet = frozenset()


@dataclass(frozen=True)
class CallSite:
    """A call in a statement: the last part of the function's name, and what is handed over."""

    name: str
    places: tuple[Argument, ...]
    keywords: dict[str, Argument]
    method: bool  # it is called on an object, which may be its first argument
    known: bool  # no argument is spread by ``*``, so that each one's place is known

    def argument(self, param: str, params: tuple[str, ...]) -> Argument | None:
        """Return what is handed over as ``param``; None where that is not known."""
        places = params[1:] if self.method and params[:1] in (("self",), ("cls",)) else params
        if not self.known or param not in (*self.keywords, *places):
            return None
        given = dict(zip(places, self.places, strict=False)) | self.keywords
        return given.get(param, Argument())


@dataclass(frozen=True)
class Statement:
    """A statement without those inside it: first and last line, and the names it has to do with."""

    first: int
    last: int
    # Names whose values count: of what it asks for its length, shape or device alone, they do not.
    reads: NameSet
    writes: NameSet
    partly: NameSet  # names of which it changes a part, as an item: what they were counts as well
    handed: bool  # a call whose result nobody takes may change what it is of and what it is given
    around: tuple[int, ...]  # the first lines of the tests and loops that it stands in
    plain: bool  # it computes nothing itself, as ``return x``
    test: bool  # it decides which statements run
    function: str
    params: tuple[str, ...]
    calls: tuple[CallSite, ...]
    # The names of each part of a tuple that it returns, or that it takes apart, which the first of
    # ``calls`` returned.
    parts: tuple[NameSet, ...] = ()
    hands_on: bool = False  # it is a call of names as they are


def statements_by_line(file: str) -> dict[int, Statement]:
    """Return the statement of each line of a file; none of one that is not Python."""
    try:
        return _parse_statements(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}


@functools.lru_cache(maxsize=32)
def _parse_statements(text: str) -> dict[int, Statement]:
    # By the text, for a file may be edited and audited again.
    statements = _read_statements(parse_module(text).body, _Context((), "", ()))
    return {line: x for x in statements for line in range(x.first, x.last + 1)}


def parse_module(text: str) -> ast.Module:
    """Return a file's tree, with tabs of eight or four if it mixes tabs and blanks, or raise."""
    try:
        return ast.parse(text)
    except TabError:
        for blanks in (8, 4):
            with contextlib.suppress(SyntaxError):
                return ast.parse(text.expandtabs(blanks))
        raise


_NON_COMPUTING = (
    ast.For | ast.With | ast.Try | ast.Pass | ast.Break | ast.Continue | ast.Import | ast.ImportFrom
)
_COMPUTING = (ast.BinOp, ast.Call, ast.Compare, ast.Subscript, ast.IfExp)
_TEST_STATEMENTS = (ast.If, ast.While, ast.Assert)
_CONTROL_STATEMENTS = (ast.If, ast.While, ast.For)
_SHAPE_ATTRIBUTES = frozenset({"shape", "device", "dtype", "ndim", "size", "dim", "numel"})
_METADATA_FUNCTIONS = frozenset({"len", "range", "isinstance", "type", "hasattr", "print"})


@dataclass(frozen=True)
class _Context:
    """Where statements stand: in which tests, and in which function with which arguments."""

    around: tuple[int, ...]
    function: str
    params: tuple[str, ...]


def _read_statements(body: Sequence[ast.stmt], place: _Context) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inside = place
            if not isinstance(node, ast.ClassDef):
                given = node.args
                spread = [x for x in (given.vararg, given.kwarg) if x is not None]
                params = [*given.posonlyargs, *given.args, *given.kwonlyargs, *spread]
                inside = _Context((), node.name, tuple(x.arg for x in params))
            yield from _read_statements(node.body, inside)
            continue
        blocks = [getattr(node, name, ()) for name in ("body", "orelse", "finalbody")]
        blocks += [one.body for one in getattr(node, "handlers", ())]
        inner = [part for block in blocks for part in block if isinstance(part, ast.stmt)]
        last = min((part.lineno for part in inner), default=(node.end_lineno or node.lineno) + 1)
        yield _make_statement(node, set(inner), max(last - 1, node.lineno), place)
        around = (node.lineno,) * isinstance(node, _CONTROL_STATEMENTS)
        yield from _read_statements(inner, replace(place, around=place.around + around))


def _make_statement(node: ast.stmt, inner: set[ast.stmt], last: int, place: _Context) -> Statement:
    reads: set[str] = set()
    writes: set[str] = set()
    partly: set[str] = set()
    calls: list[CallSite] = []
    waiting: list[ast.AST] = [node]
    stored: list[ast.AST] = []
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Name):
            if not any(one is whole for whole in stored):
                (reads if isinstance(one.ctx, ast.Load) else writes).add(one.id)
        elif isinstance(one, ast.Subscript | ast.Attribute) and isinstance(one.ctx, ast.Store):
            root: ast.AST = one
            while isinstance(root, ast.Subscript | ast.Attribute):
                root = root.value
            stored.append(root)
            partly |= _names_in(one.value)
        elif isinstance(one, ast.AugAssign):
            reads |= _names_in(one.target)
        elif isinstance(one, ast.Call):
            calls.append(_call_site(one))
        if not _reads_metadata_only(one):
            waiting += [child for child in ast.iter_child_nodes(one) if child not in inner]
    handed = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    plain = isinstance(node, _NON_COMPUTING) or (
        isinstance(node, ast.Return) and not any(isinstance(x, _COMPUTING) for x in ast.walk(node))
    )
    return Statement(
        node.lineno,
        last,
        frozenset(reads),
        frozenset(writes),
        frozenset(partly),
        handed,
        place.around,
        plain,
        isinstance(node, _TEST_STATEMENTS),
        place.function,
        place.params,
        tuple(calls),
        _name_parts(node),
        _forwards_names(node),
    )


def _name_parts(node: ast.stmt) -> tuple[NameSet, ...]:
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        return tuple(_make_argument(one).names for one in node.value.elts)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and all(isinstance(x, ast.Name) for x in target.elts):
            return tuple(map(_names_in, target.elts))
    return ()


def _forwards_names(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Assign | ast.Return) else None
    return isinstance(call, ast.Call) and not any(
        isinstance(one, _COMPUTING)
        for part in (call.func, *call.args, *(named.value for named in call.keywords))
        for one in ast.walk(part)
    )


def _reads_metadata_only(node: ast.AST) -> bool:
    """Whether an expression takes nothing of the values that stand in it, as ``len(x)``."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Load) and node.attr in _SHAPE_ATTRIBUTES
    if isinstance(node, ast.Compare):  # x is None
        return all(isinstance(one, ast.Is | ast.IsNot) for one in node.ops)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _METADATA_FUNCTIONS
        and not any(isinstance(x, ast.Call) for part in node.args for x in ast.walk(part))
    )


def _call_site(node: ast.Call) -> CallSite:
    return CallSite(
        _function_name(node),
        tuple(_make_argument(one) for one in node.args),
        {one.arg: _make_argument(one.value) for one in node.keywords if one.arg is not None},
        method=isinstance(node.func, ast.Attribute),
        known=not any(isinstance(one, ast.Starred) for one in node.args)
        and all(one.arg is not None for one in node.keywords),
    )


def _make_argument(node: ast.expr) -> Argument:
    nodes: list[ast.AST] = [node]
    for one in nodes:  # grows while it is gone through
        nodes += [] if _reads_metadata_only(one) else ast.iter_child_nodes(one)
    calls = frozenset(_function_name(one) for one in nodes if isinstance(one, ast.Call))
    return Argument(frozenset(one.id for one in nodes if isinstance(one, ast.Name)), calls)


def _function_name(node: ast.Call) -> str:
    at = node.func
    return at.attr if isinstance(at, ast.Attribute) else at.id if isinstance(at, ast.Name) else ""


def _names_in(node: ast.AST) -> NameSet:
    return frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name))


_MAX_PARTIAL_WRITES = 40
"""Statements that changed a part of a name, of those since it was written as a whole."""

_DRAWING_FUNCTIONS = re.compile(
    "rand(_like|int|om_?)?|uniform_?|multinomial|choices?|exponential_?|gumbel(_r)?|bernoulli_?|"
    "integers|categorical|sample"
)
"""Names of functions that draw."""

_MAX_PASSES = 10  # passes that carry inputs through the graph; a loop needs more than one


@dataclass
class StatementRun:
    """A statement as it ran once, in one call of its function; or an argument of such a call.

    An argument is where the call is, and depends on what was handed over by that name alone.
    """

    statement: Statement
    call: int
    own: bool
    at: str
    ran: int  # the step that it began with
    data: set[int] = field(default_factory=set)  # what it depends on
    read: set[int] = field(default_factory=set)  # what of that it reads
    tests: set[int] = field(default_factory=set)  # the tests that it depends on
    calls: dict[int, int] = field(default_factory=dict)  # the last statement of each call it made
    # A bit for each value that the code was handed, and each draw, that its values come from.
    inputs: int = 0
    meets: bool = False  # values of different inputs come together here

    @property
    def counts(self) -> bool:
        """Whether it belongs to the code under audit, and computes something."""
        return self.own and not self.statement.plain

    @property
    def tests_data(self) -> bool:
        """Whether it is a test of the code under audit in which values come together."""
        return self.counts and self.statement.test and self.meets


class DependenceGraph:
    """The dependences of a path. ``of``: the node of each step; not of one whose source is lost."""

    def __init__(self, path: Sequence[LineStep]) -> None:
        self.nodes: list[StatementRun] = []
        self.of: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._written: dict[int, dict[str, tuple[int, ...]]] = {}
        self._tests: dict[int, dict[int, int]] = {}
        self._outer: dict[int, int | None] = {}
        self._within: dict[int, int] = {}
        self._handed: dict[int, frozenset[str]] = {}
        self._arguments: dict[tuple[int, str], int] = {}
        self._function: dict[int, str] = {}
        self._bits = 0
        known = {file: statements_by_line(file) for file in {step.file for step in path}}
        for i, step in enumerate(path):
            statement = known[step.file].get(step.line)
            if statement is not None:
                self._run(i, step, statement)
        self._carry()

    def behind(
        self, starts: Mapping[int, int], cost: Callable[[StatementRun], int]
    ) -> dict[int, int]:
        """Return the nodes that ``starts`` depend on, with their distance to the nearest of these.

        ``starts`` have a distance themselves; ``cost``: of a step backwards to a node.
        """
        distances: dict[int, int] = {}
        waiting = sorted((far, start) for start, far in starts.items())
        while waiting:
            far, i = heappop(waiting)
            if i not in distances:
                distances[i], node = far, self.nodes[i]
                for j in (*node.data, *node.tests, *node.calls.values()):
                    heappush(waiting, (far + cost(self.nodes[j]), j))
        return distances

    def values(self, steps: Iterable[int], decided: Iterable[int]) -> set[int]:
        """Return the nodes that the values at these steps come from; no test is followed.

        Nor is anything behind an earlier draw, or behind what is ``decided`` at these steps.
        """
        starts = {self.of[step] for step in steps if step in self.of}
        stops = {self.of[step] for step in decided if step in self.of}
        visited: set[int] = set()
        waiting = list(starts)
        while waiting:
            i = waiting.pop()
            node = self.nodes[i]
            drawn = i not in starts and _makes_draw(node.statement)
            if not (drawn or i in visited or i in stops):
                visited.add(i)
                waiting += [*node.data, *node.calls.values()]
        return visited

    def _run(self, i: int, step: LineStep, statement: Statement) -> None:
        call = self._within.get(step.call, step.call)
        outer = None if step.caller is None else self.of.get(step.caller)
        around = None if outer is None else self.nodes[outer]
        if call not in self._last and around is not None and around.statement is statement:
            # A comprehension runs as a function of its own, within the statement.
            call = self._within[step.call] = around.call
        last = self._last.get(call)
        if last is not None and self.nodes[last].statement is statement:
            self.of[i] = last  # a statement of several lines, or a loop of one
            return
        if last is None:
            self._outer[call], self._written[call], self._tests[call] = outer, {}, {}
            self._handed[call], self._function[call] = frozenset(step.handed), statement.function
        else:
            self._changed(last)
        n = self.of[i] = self._last[call] = len(self.nodes)
        node = StatementRun(statement, call, step.own, f"{step.file}:{statement.first}", i)
        self.nodes.append(node)
        if _makes_draw(statement):
            node.inputs = self._input()
        node.read = self._sources(call, statement.params, statement.reads)
        node.data = node.read | self._sources(call, statement.params, statement.partly)
        node.tests = {self._tests[call][x] for x in statement.around if x in self._tests[call]}
        self._tests[call][statement.first] = n
        outer = self._outer[call]
        if outer is not None:
            self.nodes[outer].calls[call] = n
        for name in statement.writes:
            self._written[call][name] = (n,)
        self._add(call, statement.partly - statement.writes, n)

    def _add(self, call: int, names: Iterable[str], n: int) -> None:
        written = self._written[call]
        for name in names:
            writers = (*(x for x in written.get(name, ()) if x != n), n)
            written[name] = writers[-_MAX_PARTIAL_WRITES:]

    def _changed(self, n: int) -> None:
        """Note what a statement changed by way of a call, now that the call has ended."""
        node = self.nodes[n]
        self._take_apart(node)
        if not node.statement.handed:
            return
        changed = set(node.statement.reads)
        for call in node.calls:
            first = self.nodes[node.calls[call]].statement
            sites = [x for x in node.statement.calls if x.name == first.function]
            if len(sites) == 1 and sites[0].known:
                for param in first.params:
                    given = sites[0].argument(param, first.params)
                    if given is not None and param not in self._written[call]:
                        changed -= given.names
        self._add(node.call, changed, n)

    def _take_apart(self, node: StatementRun) -> None:
        """Let each name of a tuple that a call returned depend on its own part alone."""
        parts = node.statement.parts if node.statement.writes else ()
        for call, end in list(node.calls.items()) if parts else ():
            last = self.nodes[end]
            returned = last.statement
            known = returned.function == node.statement.calls[0].name and not returned.writes
            if not known or len(returned.parts) != len(parts):
                continue
            for names, part in zip(parts, returned.parts, strict=True):
                read = self._sources(last.call, returned.params, part)
                self.nodes.append(replace(last, data=read, read=read))
                # What is handed over counts as far as the function's own lines make use of it.
                calls = {call: len(self.nodes) - 1}
                self.nodes.append(replace(node, data=set(), read=set(), calls=calls))
                for name in names:
                    self._written[node.call][name] = (len(self.nodes) - 1,)

    def _sources(self, call: int, params: tuple[str, ...], names: Iterable[str]) -> set[int]:
        return {source for name in names for source in self._sources_of(call, params, name)}

    def _sources_of(self, call: int, params: tuple[str, ...], name: str) -> set[int]:
        """Return where ``name`` comes from: written in a call, handed to it, or from around it."""
        at: int | None = call
        while at is not None:
            writers = self._written[at].get(name)
            if writers is not None:
                return set(writers)
            if name in params:
                argument = self._argument(at, params, name)
                return set() if argument is None else {argument}
            outer = self._outer[at]  # a nested function reads a name of the one around it
            if outer is None:
                break
            at, params = self.nodes[outer].call, self.nodes[outer].statement.params
        return set()

    def _argument(self, call: int, params: tuple[str, ...], name: str) -> int | None:
        """Return the node of an argument; None if the call came from outside all that is known."""
        if (call, name) in self._arguments:
            return self._arguments[call, name]
        outer = self._outer[call]
        bit = self._input() if name in self._handed[call] else 0
        if outer is None and not bit:
            return None
        n = self._arguments[call, name] = len(self.nodes)
        if outer is None:
            first = next(node for node in self.nodes if node.call == call)
            self.nodes.append(StatementRun(first.statement, call, False, "", first.ran, inputs=bit))
            return n
        caller = self.nodes[outer]
        node = replace(caller, data=set(), read=set(), tests=set(), inputs=bit, meets=False)
        self.nodes.append(node)
        sites = [x for x in caller.statement.calls if x.name == self._function[call]]
        given = sites[0].argument(name, params) if len(sites) == 1 else None
        names = caller.statement.reads if given is None else given.names
        node.data = self._sources(caller.call, caller.statement.params, names) - {outer}
        node.calls = {
            other: j
            for other, j in caller.calls.items()
            if other < call and (given is None or self._function[other] in given.functions)
        }
        return n

    def _input(self) -> int:
        self._bits += 1
        return 1 << self._bits

    def _carry(self) -> None:
        """Carry the inputs of the code from where it is handed them to all that comes of them."""
        nodes = self.nodes
        own_nodes = [node for node in nodes if node.own]
        own_inputs = {id(node): node.inputs for node in own_nodes}
        for _ in range(_MAX_PASSES):
            before = [node.inputs for node in own_nodes]
            for node in own_nodes:
                for j in (*node.data, *node.calls.values()):
                    node.inputs |= nodes[j].inputs
            if before == [node.inputs for node in own_nodes]:
                break
        for node in own_nodes:
            behind = {nodes[j].inputs for j in (*node.read, *node.calls.values())}
            node.meets = len(behind - {0}) + (own_inputs[id(node)] > 0) > 1


def _makes_draw(statement: Statement) -> bool:
    return any(_DRAWING_FUNCTIONS.fullmatch(site.name) for site in statement.calls)


# Decisions, read off the tree of all paths. A decision settles an event where its branches give it
# different probabilities, and leaves an earlier event alone where they do not.

Stage = Literal["accepted", "residual", "bonus"]

_SHARE_TOLERANCE = 1e-12

TokensEvent = Callable[[Tokens], bool]


def stage_events(
    call: CallPaths, beginning: Tokens, stage: Stage | None
) -> tuple[TokensEvent, TokensEvent]:
    """Return what is settled before the last token of ``beginning``, and what settles it."""
    end, x = len(beginning), call.drafted
    place = end - 1
    if stage is None or x is None:
        return lambda out: out[:place] == beginning[:place], lambda out: out[:end] == beginning
    if stage == "accepted":
        return (
            lambda out: len(out) > place and out[:place] == x[:place],
            lambda out: len(out) > end and out[:end] == x[:end],
        )
    return (
        lambda out: len(out) == end and out[:place] == x[:place],
        lambda out: len(out) == end and out == (*x[:place], beginning[-1]),
    )


@dataclass
class _PathNode:
    """Of the paths that begin with the same decisions: their weight, and that of each event."""

    weight: float = 0.0
    before: float = 0.0
    event: float = 0.0
    where: str = ""
    kind: DecisionKind | None = None


@dataclass(frozen=True)
class BranchPoint:
    """A decision that settles an event: its line, how much, and the branches taken before it."""

    where: str
    weight: float
    taken: tuple[int, ...]
    shares: tuple[float, ...]  # the probability of each of its branches there
    coin: bool  # it asks whether a draw is below a number, as who accepts a token does


def branch_points(
    leaves: Iterable[RecordedPath], before: TokensEvent | None, event: TokensEvent
) -> Iterator[BranchPoint]:
    """Yield each decision that settles ``event`` and not ``before``."""
    nodes: dict[tuple[int, ...], _PathNode] = defaultdict(_PathNode)
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
        node = nodes[place]
        ends = [nodes[child] for child in below if nodes[child].weight > 0]
        if not node.where or len(ends) < 2:
            continue
        settled = [end.before / end.weight for end in ends]
        shares = [end.event / end.weight for end in ends]
        if max(settled) - min(settled) <= _SHARE_TOLERANCE < max(shares) - min(shares):
            mean = node.event / node.weight
            moved = (x.weight * abs(share - mean) for x, share in zip(ends, shares, strict=True))
            chances = tuple(end.weight / node.weight for end in ends)
            coin = node.kind is DecisionKind.BOUND
            yield BranchPoint(node.where, sum(moved), place, chances, coin)


def leaves_through(leaves: Sequence[RecordedPath], taken: tuple[int, ...]) -> list[RecordedPath]:
    """Return the paths that begin with these branches, the likeliest first."""
    paths = [x for x in leaves if tuple(y.taken for y in x.branches[: len(taken)]) == taken]
    return sorted(paths, key=lambda leaf: -leaf.weight)


def decision_step(leaf: RecordedPath, depth: int) -> int | None:
    """Return the step at which a path takes its branch ``depth``; None if it was not followed."""
    branch = leaf.branches[depth]
    ran = (i for i, step in enumerate(leaf.steps[: branch.steps]) if step.at == branch.where)
    return max(ran, default=None)
