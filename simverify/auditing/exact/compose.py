"""The law of a generation from the laws of single calls.

A step rule's paths multiply from call to call, although what a call does depends on nothing
but the tokens before it and on what the code has kept. So each call is enumerated once for
each pair of the two (a :class:`Node`), and the laws are composed. To run a call from a node,
the paths of one history that led there are run again, up to the call: nothing is restored,
so code that keeps something out of sight keeps it here too.

Which nodes are run: those that begin within the first tokens of the output; after each number
of tokens that the first call can emit a second call, and after each number that this one can
emit a third; as many as are affordable. Beyond them a node in which the code keeps what it
kept at the start is completed with the target's law, as the call of a rule without state is
(Sun et al. 2025, Lemma 2); of any other one only that it is reached is known.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from simverify.auditing.exact.calls import Generation, Place, Run
from simverify.auditing.exact.enumerate import StepEnumeration, law_of_tokens
from simverify.symbolic import ExactLaw, Finding, OutOfTime
from simverify.symbolic.endings import Tokens
from simverify.symbolic.engine import RARE, End
from simverify.symbolic.errors import UNTRACKED
from simverify.symbolic.kept import Kept, Unlike
from simverify.symbolic.paths import Choice, TooManyPaths
from simverify.symbolic.watchdog import Stopwatch

WITHIN = 1_000
"""Paths of an instance that calls in the state of the start are run within; of those after the
first call one at least is run."""

WITHIN_APART = 3_000
"""The same where each history is followed for itself."""

THIRD_WITHIN = 400
"""The same for third calls after the first."""

_ROUNDING = 1e-12
"""Largest difference of two laws of one call that is rounding."""

_MOST_CHECKED = 64
"""Paths of a call at most, where it is run once more after another history."""

_CHECKED_LENGTH = 4
_CHECKED_PATHS = 100
"""On the smallest instances so many tokens are also enumerated without composing, until so many
paths were run for it."""


class NotComposable(Exception):
    """Calls of this code cannot be composed; says why."""


@dataclass
class Node:
    """Calls that begin alike: at one place, with the same things kept.

    ``ways``: one or two histories that lead there, each a number of calls and their choices.
    ``law``: that of the next call; None until it is run.
    """

    place: Place
    image: Hashable
    ways: list[tuple[int, tuple[Choice, ...]]]
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


def law_of_generation(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    *,
    max_paths: int,
    seconds: float | None,
) -> Composed:
    """Return the law of a generation; calls that begin alike are run once where that is safe.

    On the first instances that are small enough the calls are also made one after the other,
    on every path: code that keeps something out of sight gives another law then, and from
    there on each history is followed for itself. Raises as the exact tier does.
    """
    watch = Stopwatch()

    def left() -> float | None:
        return None if seconds is None else max(0.01, seconds - watch.seconds())

    if enumeration.composes:
        try:
            law = compose(enumeration, rule, generation, max_paths=max_paths, seconds=seconds)
            if _is_tiny(generation) and enumeration.checked < _CHECKED_PATHS:
                _check_plainly(enumeration, rule, generation, max_paths, left())
        except NotComposable:
            enumeration.composes = False
        else:
            return law
    return compose(enumeration, rule, generation, max_paths=max_paths, seconds=left(), merges=False)


def _plain(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    *,
    max_paths: int,
    seconds: float | None,
) -> ExactLaw:
    """Return the law with every path of all calls."""
    g = generation
    return law_of_tokens(
        enumeration, rule, g.target, g.draft, gamma=g.gamma, length=g.length, prefix=g.prompt,
        earlier_calls=g.earlier_calls, eos=g.eos, max_paths=max_paths, seconds=seconds,
    )  # fmt: skip


def _is_tiny(generation: Generation) -> bool:
    vocab = len(generation.target(generation.prompt))
    return vocab == 2 and generation.gamma == 1 and not generation.earlier_calls


def _check_plainly(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    max_paths: int,
    seconds: float | None,
) -> None:
    """Make a few calls one after the other on every path: the law must be the composed one."""
    longer = replace(generation, length=_CHECKED_LENGTH)
    composed = compose(enumeration, rule, longer, max_paths=max_paths, seconds=seconds)
    plain = _plain(enumeration, rule, longer, max_paths=max_paths, seconds=seconds)
    enumeration.checked += plain.paths
    one, other = _cut(composed), _cut(plain)
    if any(abs(one.get(x, 0.0) - other.get(x, 0.0)) > _ROUNDING for x in one | other):
        raise NotComposable("composed, the calls have another law than one after the other")


def _cut(law: Composed | ExactLaw) -> dict[Tokens, float]:
    """Return the law of the first tokens."""
    cut: dict[Tokens, float] = {}
    for tokens, mass in (*law.probabilities.items(), *law.open.items()):
        first = tokens[:_CHECKED_LENGTH]
        cut[first] = cut.get(first, 0.0) + mass
    return cut


def compose(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    *,
    max_paths: int,
    seconds: float | None,
    merges: bool = True,
) -> Composed:
    """Return the law of a generation by ``rule``, of ``generation.length`` tokens or more.

    ``merges``: whether calls that begin alike are run once; else each history is followed for
    itself. Raises as the exact tier does, and :class:`NotComposable` where what the code keeps
    is not the same at the start of each path, or two histories with one image have two laws.
    """
    watch = Stopwatch()
    while True:
        left = None if seconds is None else max(0.01, seconds - watch.seconds())
        run = _Composition(enumeration, rule, generation, max_paths, left, merges)
        law = run.composed()
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
    nodes: dict[tuple[Place, Hashable], Node] = field(default_factory=dict)
    paths: int = 0
    complete: bool = True
    is_mixed: bool = False

    @property
    def within(self) -> int:
        """Paths that those of them that can be left out stay within."""
        return WITHIN if self.merges else WITHIN_APART

    def composed(self) -> Composed:
        self._watch = Stopwatch()
        self._interception = -1
        self._drifts = ""
        root = Node(self.generation.first(), None, [(0, ())])
        self._run(root)
        root.image = self._start
        self.nodes[root.place, root.image] = root
        self._run_all(lambda node: self._is_first(node) and node.image != self._start)
        seconds = list(self._after(root, self.within, at_least=1))
        self._run_all(lambda node: self._is_first(node) and self._fits(self.within))
        for second in seconds:
            for _ in self._after(second, THIRD_WITHIN, at_least=0):
                pass
        self._check_history()
        return self._law(root)

    def _run_all(self, wanted: Callable[[Node], bool]) -> None:
        """Run all calls that are ``wanted``, and those that they lead to."""
        while True:
            waiting = [
                node
                for node in self.nodes.values()
                if node.law is None and self._goes_on(node.place) and wanted(node)
            ]
            if not waiting:
                return
            self._run(min(waiting, key=lambda node: (node.order, node.place.tokens)))

    def _is_first(self, node: Node) -> bool:
        """Whether it begins within the first tokens."""
        return node.place.earlier is not None or len(node.place.tokens) < self.generation.length

    def _goes_on(self, place: Place) -> bool:
        return self.complete and not self.is_mixed and not self.generation.is_over(place)

    def _fits(self, within: int) -> bool:
        """Whether one more call like the dearest so far stays within so many paths."""
        most = max(n.law.paths for n in self.nodes.values() if n.law is not None)
        return self.paths + most <= within

    def _after(self, node: Node, within: int, *, at_least: int) -> Iterator[Node]:
        """Run the likeliest call after each number of tokens that the one of ``node`` emits.

        The most tokens first, then the fewest. Where the code keeps other things than at the
        start, what one call owes the next may pay: all are run that emit the same tokens.
        """
        best: dict[int, End] = {}
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
            elif at_least > 0 or self._fits(within):
                at_least -= 1
                self._run(after)
                yield after

    def _continues(self, tokens: Tokens, within: int, node: Node) -> bool:
        """Whether a call emits what may follow ``tokens``, up to one full call and one more."""
        own = node.place.tokens
        common = min(len(own), len(tokens))
        near = len(own) <= len(tokens) + self.generation.gamma + 1
        alike = own[:common] == tokens[:common] and node.place.earlier is None
        return near and alike and node.image != self._start and self._fits(within)

    def _run(self, node: Node) -> None:
        """Enumerate the call of ``node``, and note where it leads to."""
        if node.law is not None:
            return
        calls = node.ways[0][0]
        node.law = self._enumerate(node, *node.ways[0])
        self.complete = self.complete and node.law.complete
        for end in node.law.ends:
            key = self.generation.next(node.place, end.tokens), end.mark
            after = self.nodes.setdefault(key, Node(*key, []))
            after.ways = [*after.ways, *((calls + 1, way) for way in end.ways)][:2]

    def _enumerate(self, node: Node, calls: int, choices: tuple[Choice, ...]) -> ExactLaw:
        left = None if self.seconds is None else self.seconds - self._watch.seconds()
        if left is not None and left <= 0:
            raise OutOfTime(self._watch.seconds(), self.paths)
        if self.paths >= self.max_paths:
            raise TooManyPaths(self.max_paths)
        law = self.enumeration.run(
            self._call(node.place, calls), max_paths=self.max_paths - self.paths, seconds=left,
            since=choices, mark=lambda: self._image,
        )  # fmt: skip
        self.paths += law.paths
        if self._drifts:
            raise NotComposable(self._drifts)
        return law

    def _call(self, at: Place, calls: int) -> Callable[[], Tokens]:
        """Return what makes the ``calls`` of a history, and then the one ``at`` a place."""
        enumeration, source = self.enumeration, self.enumeration.source

        def call() -> Tokens:
            looks = enumeration.intercepting and source.plan is None
            run = Run(self.generation, self.rule, enumeration.rng, is_step=enumeration.is_step)
            if looks:
                self._begin(run.instance)
            for _ in range(calls):
                run.call()
            if run.place != at:
                source.refuse(f"{UNTRACKED}: a repeated path went elsewhere")
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
            node
            for node in self.nodes.values()
            if node.law is not None and len(node.ways) > 1 and node.law.paths <= _MOST_CHECKED
        ]
        if not checked or self.is_mixed or not self.complete:
            return
        # The longest histories have had most to hide.
        node = max(checked, key=lambda node: (node.order, node.place.tokens))
        again = self._enumerate(node, *node.ways[1])
        assert node.law is not None
        one, other = (
            {(end.tokens, end.mark): end.weight for end in law.ends} for law in (node.law, again)
        )
        if any(abs(one.get(x, 0) - other.get(x, 0)) > _ROUNDING for x in one | other):
            raise NotComposable("two histories that look the same lead to two laws")

    def _law(self, root: Node) -> Composed:
        """Compose the laws of all calls that were run."""
        mass = {(root.place, root.image): 1.0}
        ends: dict[Tokens, float] = {}
        unknown: dict[Tokens, float] = {}
        lost_by: dict[str, float] = {}
        findings: dict[str, Finding] = {}
        laws = []
        for key, node in sorted(self.nodes.items(), key=lambda item: item[1].order):
            here = mass.get(key, 0.0)
            if node.law is None:
                known = self.generation.is_over(node.place) or node.image == self._start
                where = ends if known else unknown
                where[node.place.tokens] = where.get(node.place.tokens, 0.0) + here
                continue
            laws.append((here, node.law))
            for end in node.law.ends:
                after = self.generation.next(node.place, end.tokens), end.mark
                mass[after] = mass.get(after, 0.0) + here * end.weight
            for kind, share in node.law.lost_by:
                lost_by[kind] = lost_by.get(kind, 0.0) + here * share
            for finding in node.law.findings:
                findings.setdefault(finding.kind, finding)
        for kind, share in lost_by.items():
            grave = "violation" if share > RARE else "warning"
            findings[kind] = replace(findings[kind], severity=grave)
        return Composed(
            ends, unknown, self.paths,
            pruned=sum(here * law.pruned for here, law in laws),
            lost=sum(here * law.lost for here, law in laws),
            findings=tuple(findings.values()),
            complete=self.complete,
            dtypes=frozenset[str]().union(*(law.dtypes for _, law in laws)),
        )  # fmt: skip
