"""What each statement that a path ran depends on: a dynamic dependence graph.

A statement depends on what last wrote the names that it reads, on what the functions that it calls
return, on what its function was called with, and on the tests around it. All of this is read off
the source and the lines that ran (Agrawal and Horgan 1990); what a library or another thread did
between them is not seen.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from simverify.auditing.replay.blame.statements import Statement, statements
from simverify.auditing.replay.blame.steps import Step

_KEPT = 40
"""Statements that changed a part of a name, of those since it was written as a whole."""

_DRAWS = frozenset(
    {"rand", "rand_like", "random", "random_", "uniform", "uniform_", "multinomial", "choice",
     "choices", "exponential", "exponential_", "gumbel", "gumbel_r", "bernoulli", "bernoulli_",
     "randint", "integers", "categorical", "sample"}
)  # fmt: skip
"""Names of functions that draw."""

_ROUNDS = 10
"""Passes that carry inputs through the graph; a loop needs more than one."""


@dataclass
class Node:
    """A statement as it ran once, in one call of its function; or an argument of such a call.

    ``ran``: the step that it began with. ``data``, ``tests``: what it depends on, and ``read`` what
    of that it reads; ``calls``: the last statement of each call that it made. An argument is where
    the call is, and depends on what was handed over by that name alone. ``inputs``: which of what
    the code was handed, and of the random numbers that it drew, its values come from, a bit for
    each; ``meets``: here they come together, from values of different inputs.
    """

    statement: Statement
    call: int
    own: bool
    at: str
    ran: int
    data: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    tests: set[int] = field(default_factory=set)
    calls: dict[int, int] = field(default_factory=dict)
    inputs: int = 0
    meets: bool = False

    @property
    def counts(self) -> bool:
        """Whether it belongs to the code under audit, and computes something."""
        return self.own and not self.statement.plain


class Graph:
    """The dependences of a path. ``of``: the node of each step; not of one whose source is lost."""

    def __init__(self, path: Sequence[Step]) -> None:
        self.nodes: list[Node] = []
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
        known = {file: statements(file) for file in {step.file for step in path}}
        for i, step in enumerate(path):
            statement = known[step.file].get(step.line)
            if statement is not None:
                self._run(i, step, statement)
        self._carry()

    def behind(self, starts: Mapping[int, int], cost: Callable[[Node], int]) -> dict[int, int]:
        """Return the nodes that others depend on, and how far each of them is behind the nearest.

        ``starts``: those nodes, with how far they are themselves; ``cost``: of a step backwards to
        a node.
        """
        found: dict[int, int] = {}
        waiting = sorted((far, start) for start, far in starts.items())
        while waiting:
            far, i = heappop(waiting)
            if i in found:
                continue
            found[i] = far
            node = self.nodes[i]
            for j in (*node.data, *node.tests, *node.calls.values()):
                heappush(waiting, (far + cost(self.nodes[j]), j))
        return found

    def values(self, steps: Iterable[int], decided: Iterable[int]) -> set[int]:
        """Return the nodes that the values at these steps come from; no test is followed.

        Nothing is followed behind what is drawn before, or ``decided`` at these steps: it is what
        it is by chance, whatever its chances were.
        """
        begun = {self.of[step] for step in steps if step in self.of}
        stops = {self.of[step] for step in decided if step in self.of}
        found: set[int] = set()
        waiting = list(begun)
        while waiting:
            i = waiting.pop()
            node = self.nodes[i]
            if i in found or i in stops or (i not in begun and _draws(node.statement)):
                continue
            found.add(i)
            waiting += [*node.data, *node.calls.values()]
        return found

    def _run(self, i: int, step: Step, statement: Statement) -> None:
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
        node = Node(statement, call, step.own, f"{step.file}:{statement.first}", i)
        self.nodes.append(node)
        if _draws(statement):
            node.inputs = self._input()
        for name in statement.reads:
            node.read |= self._sources(call, statement.params, name)
        node.data |= node.read
        for name in statement.partly:
            node.data |= self._sources(call, statement.params, name)
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
            written[name] = (*(x for x in written.get(name, ()) if x != n), n)[-_KEPT:]

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

    def _take_apart(self, node: Node) -> None:
        """Let each name of a tuple that a call returned depend on its own part alone."""
        parts = node.statement.parts if node.statement.writes else ()
        for call, end in list(node.calls.items()) if parts else ():
            last = self.nodes[end]
            if (
                last.statement.function != node.statement.calls[0].name
                or len(last.statement.parts) != len(parts)
                or last.statement.writes
            ):
                continue
            for names, own in zip(parts, last.statement.parts, strict=True):
                read = set().union(
                    *(self._sources(last.call, last.statement.params, name) for name in own)
                )
                self.nodes.append(replace(last, data=read, read=read))
                # What is handed over counts as far as the function's own lines make use of it.
                calls = {call: len(self.nodes) - 1}
                self.nodes.append(replace(node, data=set(), read=set(), calls=calls))
                for name in names:
                    self._written[node.call][name] = (len(self.nodes) - 1,)

    def _sources(self, call: int, params: tuple[str, ...], name: str) -> set[int]:
        """Return where ``name`` comes from: written in a call, handed to it, or from around it."""
        at: int | None = call
        while at is not None:
            found = self._written[at].get(name)
            if found is not None:
                return set(found)
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
            self.nodes.append(Node(first.statement, call, False, "", first.ran, inputs=bit))
            return n
        caller = self.nodes[outer]
        node = Node(caller.statement, caller.call, caller.own, caller.at, caller.ran, inputs=bit)
        self.nodes.append(node)
        sites = [x for x in caller.statement.calls if x.name == self._function[call]]
        given = sites[0].argument(name, params) if len(sites) == 1 else None
        for one in caller.statement.reads if given is None else given.names:
            node.data |= self._sources(caller.call, caller.statement.params, one) - {outer}
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
        own = [node for node in nodes if node.own]
        own_inputs = {id(node): node.inputs for node in own}
        for _ in range(_ROUNDS):
            before = [node.inputs for node in own]
            for node in own:
                for j in (*node.data, *node.calls.values()):
                    node.inputs |= nodes[j].inputs
            if before == [node.inputs for node in own]:
                break
        for node in own:
            behind = {nodes[j].inputs for j in (*node.read, *node.calls.values())}
            node.meets = len(behind - {0}) + (own_inputs[id(node)] > 0) > 1


def _draws(statement: Statement) -> bool:
    return any(site.name in _DRAWS for site in statement.calls)
