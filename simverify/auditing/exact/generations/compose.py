"""The law of a generation from the laws of single calls.

A step rule's paths multiply from call to call, although what a call does depends on nothing
but the tokens before it and on what the code has kept. So each call is enumerated once for
each pair of the two (a :class:`Node`), and the laws are composed. To run a call from a node,
the paths of one history that led there are run again, up to the call: nothing is restored,
so code that keeps something out of sight keeps it here too.

Which nodes are run: those that begin within the first tokens of the output; after each number
of tokens that the first call can emit a second call, and after each number that this one can
emit a third; as many as are affordable. Of code that keeps what it kept at the start these
calls look for something hidden, which no instance shows better than the core: elsewhere one
call after the longest is made, if it takes few paths. Beyond them a node in which the code
keeps what it kept at the start is completed with the target's law, as the call of a rule without
state is (Sun et al. 2025, Lemma 2); of any other one only that it is reached is known.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from simverify.auditing.exact.generations.calls import (
    EVERYWHERE,
    Beyond,
    Composed,
    Generation,
    Node,
    Place,
    Run,
    Way,
    composed,
)
from simverify.auditing.exact.generations.steps import StepEnumeration
from simverify.symbolic import ExactLaw, OutOfTime
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.paths import TooManyPaths
from simverify.symbolic.errors import UNTRACKED, StandInsChanged, Untracked
from simverify.symbolic.guards.watchdog import Stopwatch
from simverify.symbolic.state.kept import Kept, Unlike

WITHIN = 1_000
"""Paths of an instance that calls in the state of the start are run within."""

WITHIN_APART = 3_000
"""The same where each history is followed for itself."""

THIRD_WITHIN = 400
"""The same for third calls after the first."""

ROUNDING = 1e-12
"""Largest difference of two laws of one call that is rounding."""

_CALLS = 8
"""Where paths have no end, a call gets this part of them all."""

_MOST_CHECKED = 64
"""Paths of a call at most, where it is run once more after another history."""


class NotComposable(Exception):
    """Calls of this code cannot be composed; says why."""


def compose(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    *,
    max_paths: int,
    seconds: float | None,
    merges: bool = True,
    beyond: Beyond = EVERYWHERE,
    enough: float | None = None,
) -> Composed:
    """Return the law of a generation by ``rule``, of ``generation.length`` tokens or more.

    ``merges``: whether calls that begin alike are run once; else each history is followed for
    itself. ``beyond``: which calls are made beyond the first tokens where nothing is kept that
    could differ. ``enough``: see :meth:`.Enumeration.run`. Raises as the exact tier does, and
    :class:`NotComposable` where what the code keeps is not the same at the start of each path,
    or two histories with one image have two laws.
    """
    watch = Stopwatch()
    while True:
        left = None if seconds is None else max(0.01, seconds - watch.seconds())
        run = _Composition(enumeration, rule, generation, max_paths, left, merges, beyond, enough)
        try:
            law = run.law()
        except StandInsChanged:
            continue
        # Other stand-ins are other objects, whose images cannot be compared with the first's.
        if not run.is_mixed:
            return law


@dataclass
class _Composition:
    enumeration: StepEnumeration
    rule: Callable[..., Any]
    generation: Generation
    max_paths: int
    seconds: float | None
    merges: bool
    beyond: Beyond
    enough: float | None
    nodes: dict[tuple[Place, Hashable], Node] = field(default_factory=dict)
    paths: int = 0
    dearest: int = 0
    complete: bool = True
    is_mixed: bool = False

    @property
    def within(self) -> int:
        """Paths that those of them that can be left out stay within."""
        return WITHIN if self.merges else WITHIN_APART

    def law(self) -> Composed:
        self._watch = Stopwatch()
        self._interception = -1
        self._drifts = ""
        # Code that raises while it is built keeps nothing.
        self._start: Hashable = None
        self._image: Hashable = None
        first = self.generation.first()
        root = Node(first, None, [Way(first)])
        self._run(root)
        root.image = self._start
        self.nodes[root.place, root.image] = root
        self._run_all(lambda node: self._is_first(node) and node.image != self._start)
        seconds = list(self._after(root, self.within, due=self.beyond.due, wanted=True))
        self._run_all(lambda node: self._is_first(node) and self._fits(self.within), anew=True)
        for second in seconds:
            more = self.beyond.every_way
            for _ in self._after(second, THIRD_WITHIN, due=False, wanted=more):
                pass
        self._check_history()
        law = composed(self.nodes, self.generation, self._start)
        return replace(law, paths=self.paths)

    def _run_all(self, wanted: Callable[[Node], bool], *, anew: bool = False) -> None:
        """Run all calls that are ``wanted``, and those that they lead to.

        ``anew``: a rule that keeps what it kept at the start is built for the call, as if the
        tokens before were its prompt: that spares the calls of a history.
        """
        while True:
            waiting = [
                node
                for node in self.nodes.values()
                if node.law is None and self._goes_on(node.place) and wanted(node)
            ]
            if not waiting:
                return
            node = min(waiting, key=lambda node: (node.order, node.place.tokens))
            alike = anew and node.image == self._start and node.place.tokens
            self._run(node, Way(node.place) if alike else None)

    def _is_first(self, node: Node) -> bool:
        """Whether it begins within the first tokens."""
        return node.place.earlier is not None or len(node.place.tokens) < self.generation.length

    def _goes_on(self, place: Place) -> bool:
        return self.complete and not self.is_mixed and not self.generation.is_over(place)

    def _fits(self, within: int) -> bool:
        """Whether one more call like the dearest so far stays within so many paths."""
        return self.paths + self.dearest <= within

    def _after(self, node: Node, within: int, *, due: bool, wanted: bool) -> Iterator[Node]:
        """Run the likeliest call after each number of tokens that the one of ``node`` emits.

        The most tokens first, then the fewest. Where the code keeps other things than at the
        start, what one call owes the next may pay: all are run that emit the same tokens.
        ``due``: one is run in any case. ``wanted``: so are more, if they fit.
        """
        best: dict[int, Any] = {}
        for end in node.law.ends if node.law is not None else ():
            likeliest = best.setdefault(len(end.tokens), end)
            if end.weight > likeliest.weight:
                best[len(end.tokens)] = end
        counts = sorted(best)
        for count in counts[-1:] + counts[:-1]:
            end = best[count]
            after = self.nodes[self.generation.next(node.place, end.tokens), end.mark]
            if not self._goes_on(after.place):
                continue
            if after.image != self._start:
                self._run_all(partial(self._continues, after.place.tokens, within))
            elif due or (wanted and self._fits(min(within, self.beyond.within))):
                due, wanted = False, self.beyond.every_way
                self._run(after)
                yield after

    def _continues(self, tokens: Tokens, within: int, node: Node) -> bool:
        """Whether a call emits what may follow ``tokens``, up to one full call and one more."""
        own = node.place.tokens
        common = min(len(own), len(tokens))
        near = len(own) <= len(tokens) + self.generation.gamma + 1
        alike = own[:common] == tokens[:common] and node.place.earlier is None
        return near and alike and node.image != self._start and self._fits(within)

    def _run(self, node: Node, way: Way | None = None) -> None:
        """Enumerate the call of ``node`` after a history, and note where it leads to."""
        if node.law is not None:
            return
        node.run = way = way or node.ways[0]
        node.law = self._enumerate(node.place, way)
        self.dearest = max(self.dearest, node.law.paths)
        self.complete = self.complete and node.law.complete
        for end in node.law.ends:
            key = self.generation.next(node.place, end.tokens), end.mark
            after = self.nodes.setdefault(key, Node(*key, []))
            ways = [Way(way.begin, way.calls + 1, choices) for choices in end.ways]
            after.ways = [*after.ways, *ways][:2]

    def _enumerate(self, at: Place, way: Way) -> ExactLaw:
        left = None if self.seconds is None else self.seconds - self._watch.seconds()
        if left is not None and left <= 0:
            raise OutOfTime(self._watch.seconds(), self.paths)
        if self.paths >= self.max_paths:
            raise TooManyPaths(self.max_paths)
        most = self.max_paths - self.paths
        if self.enough is not None:
            most = min(most, self.max_paths // _CALLS)
        law = self.enumeration.run(
            self._call(at, way), max_paths=most, seconds=left,
            since=way.choices, mark=lambda: self._image, enough=self.enough,
        )  # fmt: skip
        self.paths += law.paths
        if self._drifts:
            raise NotComposable(self._drifts)
        return law

    def _call(self, at: Place, way: Way) -> Callable[[], Tokens]:
        """Return what makes the calls of a history, and then the one ``at`` a place."""
        enumeration, source = self.enumeration, self.enumeration.source

        def call() -> Tokens:
            looks = enumeration.intercepting and source.plan is None
            run = Run(
                self.generation, self.rule, enumeration.rng,
                is_step=enumeration.is_step, at=way.begin, built=source.sequences.is_built,
            )  # fmt: skip
            if looks:
                self._begin(run.instance)
            for _ in range(way.calls):
                run.call()
            if run.place != at:
                source.refuse(f"{UNTRACKED}: a repeated path went elsewhere", Untracked)
            source.slack = 0.0
            new = run.call()
            if looks:
                self._end(run.instance)
            return new

        return call

    def _begin(self, instance: Any) -> None:
        """Note what is kept at the start of a path: it must be the same at that of each."""
        if not self.merges:
            self._start = None
        elif self._interception != self.enumeration.interceptions:
            self.is_mixed = bool(self.nodes)
            self._interception = self.enumeration.interceptions
            self._kept = Kept(self.rule, self.enumeration.rng)
            self._start = self._kept.image(instance)
            self._drifts = self._kept.reason
        elif instance is not None and self._kept.image(instance) != self._start:
            self._drifts = "what the code keeps differs from path to path"

    def _end(self, instance: Any) -> None:
        if not self.merges:
            self._image = Unlike()
            return
        self._image = self._kept.image(instance, known=not self.enumeration.source.remembers())
        if instance is None and self._image != self._start:
            # It will still be there when the next path begins.
            self._drifts = "a function keeps something from call to call"

    def _check_history(self) -> None:
        """Run one call again after another history; code that hides nothing has the same law."""
        checked = [
            (node, way)
            for node in self.nodes.values()
            for way in node.ways
            if node.law is not None and node.law.paths <= _MOST_CHECKED and way != node.run
        ]
        if not checked or not self.beyond.within or self.is_mixed or not self.complete:
            return
        # The longest histories have had most to hide.
        node, way = max(checked, key=lambda pair: (pair[1].calls, pair[0].place.tokens))
        again = self._enumerate(node.place, way)
        assert node.law is not None
        one, other = (
            {(end.tokens, end.mark): end.weight for end in law.ends} for law in (node.law, again)
        )
        if any(abs(one.get(x, 0) - other.get(x, 0)) > ROUNDING for x in one | other):
            raise NotComposable("two histories that look the same lead to two laws")
