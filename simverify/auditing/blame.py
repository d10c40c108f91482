"""Which lines of code a failure may come from, the likeliest first.

Candidates are the lines that a wrong token depends on, along paths that emit it (a dynamic slice,
Korel and Laski 1988). Nearer to the decision comes before farther from it. A line in which values
come together that the code was handed apart, as a row of the target and one of the draft, comes
before one that passes values on, and that before one that has nothing to do with them. A test in
which they come together is a decision as well, also where it went one way on every path.

Where a decision is not as the rows demand, a number that it rests on is wrong, and what comes from
other decisions comes last. Lines that it depends on by a test alone count as farther, and so do
lines that the numbers of a right decision come from (a dice, Chen and Cheung 1997).
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import msgspec
import numpy as np

from simverify.arrays import Row
from simverify.auditing.dependence import (
    BranchPoint,
    DependenceGraph,
    Stage,
    StatementRun,
    TokensEvent,
    branch_points,
    decision_step,
    leaves_through,
    stage_events,
)
from simverify.auditing.exact_tier import make_counterexample, make_localisation
from simverify.auditing.examiner import ExactResult, Examiner, judges_generations, rich_instance
from simverify.auditing.instances import InstanceRows
from simverify.auditing.invocation import Rule
from simverify.auditing.replay import find_breach_paths
from simverify.auditing.rerun import (
    CALLS_BY_CONTRACT,
    PATH_RUN_ERRORS,
    CallPaths,
    LineStep,
    StepTracer,
)
from simverify.auditing.subject import Contract, Subject
from simverify.auditing.trees import as_enumerable
from simverify.results import Breach, Finding, Instance, Localisation
from simverify.symbolic.engine import Budget, RecordedPath
from simverify.symbolic.outcomes import Tokens
from simverify.symbolic.provenance import parse_raise_site, portable_path
from simverify.symbolic.races import DecisionKind

# Decisions that are as the rows demand, so that the numbers behind them are right.
#
# A draft may be drawn from any law. A draft x that came from the law D is kept with the probability
# min(1, p(x) / D(x)); what comes after a rejection is drawn in proportion to max(p - D, 0); a token
# that is settled by one draw is the target's. A decision that is none of these rests on a wrong
# number, or is wrong itself.


BranchPath = tuple[int, ...]
"""A decision, by the branches that are taken before it."""

NextTokenLaw = Mapping[int, float]

_LAW_TOLERANCE = 1e-5


@dataclass(frozen=True)
class StepVerdicts:
    """Steps of a path that decide as the rows demand, and those that do not.

    Both are empty where nothing of the call is wrong by the rows: then something else than a number
    is, as one that is used twice. ``undrawn``: that every decision is right, as where a token is
    taken that nothing draws. ``always_kept``: as in :class:`DecisionVerdicts`.
    """

    right: frozenset[int] = frozenset()
    wrong: frozenset[int] = frozenset()
    undrawn: bool = False
    always_kept: bool = False


@dataclass(frozen=True)
class DecisionVerdicts:
    """Which decisions of a call are as the rows demand, of those where that is known.

    ``always_kept``: a draft is emitted where a coin should have been asked and was not.
    """

    known: Mapping[BranchPath, bool]
    always_kept: bool = False

    def of(self, leaf: RecordedPath) -> StepVerdicts:
        """Return what is known of a path."""
        if all(self.known.values()) and not self.always_kept:
            return StepVerdicts(undrawn=bool(self.known))
        decisions: dict[bool, set[int]] = {True: set(), False: set()}
        for begin, end in _decision_spans(leaf):
            place = _branch_path(leaf, begin)
            if place in self.known:
                steps = (decision_step(leaf, depth) for depth in range(begin, end))
                decisions[self.known[place]].update(step for step in steps if step is not None)
        return StepVerdicts(
            frozenset(decisions[True]), frozenset(decisions[False]), always_kept=self.always_kept
        )


NO_VERDICTS = DecisionVerdicts({})


def judge_decisions(
    leaves: Sequence[RecordedPath], rows: InstanceRows, sequence: Tokens | None = None
) -> DecisionVerdicts:
    """Return what the rows say of the decisions of a call.

    ``sequence``: paths that leave it were cut short there.
    """
    forks = {
        place: fork
        for place, fork in _find_decisions(leaves)
        if sequence is None or fork.before == sequence[: fork.position]
    }
    drafted: dict[tuple[BranchPath, int], NextTokenLaw] = {}
    known: dict[BranchPath, bool] = {}
    always_kept = False
    for place in sorted(forks, key=len):
        fork = forks[place]
        prefix = (*rows.prompt, *fork.before)
        try:
            p, q = rows.target(prefix), rows.draft(prefix)
        except ValueError:
            continue
        if any(token is not None and not 0 <= token < len(p) for token in fork.next_tokens()):
            continue
        if (drafts := fork.drafts(q, forks)) is not None:
            drafted[place, fork.position], tokens = drafts
            always_kept |= any(p[token] < drafts[0][token] - _LAW_TOLERANCE for token in tokens)
            known[place] = True
            continue
        before = (drafted.get((place[:i], fork.position)) for i in range(len(place)))
        drawn = next((_law_row(own, len(q)) for own in before if own is not None), q)
        is_right = fork.is_right(p, drawn)
        law = fork.settled()
        if sequence is not None and is_right is False and law is not None and _matches_row(law, q):
            is_right = always_kept = True
        if is_right is not None:
            known[place] = is_right
    return DecisionVerdicts(known, always_kept)


@dataclass(frozen=True)
class _Decision:
    """A decision: the shares of its branches, and which tokens come next behind each.

    ``position``: of the first token of the output that its paths do not share; ``before``: the
    output up to there.
    """

    place: BranchPath
    coin: bool
    before: Tokens
    shares: Mapping[BranchPath, float]
    tokens: Mapping[BranchPath, frozenset[int | None]]

    @property
    def position(self) -> int:
        """Index of the next token."""
        return len(self.before)

    def next_tokens(self) -> frozenset[int | None]:
        """Return the next tokens of all paths; None of one that ends before."""
        return frozenset().union(*self.tokens.values())

    def settled(self) -> NextTokenLaw | None:
        """Return the law of the next token where this decision settles it, else None."""
        law: dict[int, float] = defaultdict(float)
        for way, tokens in self.tokens.items():
            token = _single_token(tokens)
            if token is None:
                return None
            law[token] += self.shares[way]
        return law

    def drafts(
        self, q: Row, forks: "Mapping[BranchPath, _Decision]"
    ) -> tuple[NextTokenLaw, list[int]] | None:
        """Return the law of what it drafts, and the tokens that are kept without a coin.

        None where it drafts nothing.
        A coin comes after it whose chances depend on what was drawn, and on one side of which the
        token is the one that was drawn. What could be a coin itself drafts where it has the law q.
        """
        if self.settled() is not None:
            return None
        behind = {way: self._coin(way, forks) for way in self.tokens}
        chances = [0.0 if coin is None else coin.shares[0,] for coin in behind.values()]
        if max(chances) - min(chances) < _LAW_TOLERANCE:
            return None
        for side in ((0,), (1,)):
            kept = {
                way: _single_token(self.tokens[way] if coin is None else coin.tokens[side])
                for way, coin in behind.items()
            }
            law = {token: self.shares[way] for way, token in kept.items() if token is not None}
            if len(law) == len(kept) and (not self.coin or _matches_row(law, q)):
                uncoined = (kept[way] for way, coin in behind.items() if coin is None)
                return law, [token for token in uncoined if token is not None]
        return None

    def is_right(self, p: Row, d: Row) -> bool | None:
        """Return whether it is as rows demand, ``d`` that of the draft; None if that is unknown."""
        checks: list[bool] = []
        law = self.settled()
        if law is not None:
            rest = np.maximum(p - d, 0.0)
            laws = [p] if rest.sum() < _LAW_TOLERANCE else [p, rest / rest.sum()]
            checks += [_matches_row(law, row) for row in laws]
        if self.coin:
            for way, tokens in self.tokens.items():
                x = _single_token(tokens)
                if x is not None and d[x] > 0:
                    checks.append(
                        bool(abs(self.shares[way] - min(1.0, p[x] / d[x])) < _LAW_TOLERANCE)
                    )
        return any(checks) if checks else None

    def _coin(self, way: BranchPath, forks: "Mapping[BranchPath, _Decision]") -> "_Decision | None":
        fork = forks.get((*self.place, *way))
        return fork if fork is not None and fork.coin and fork.position == self.position else None


def _matches_row(law: NextTokenLaw, row: Row) -> bool:
    return bool(np.abs(_law_row(law, len(row)) - row).max() < _LAW_TOLERANCE)


def _law_row(law: NextTokenLaw, size: int) -> Row:
    return np.array([law.get(token, 0.0) for token in range(size)])


def _single_token(tokens: frozenset[int | None]) -> int | None:
    (*more, token) = tokens
    return None if more else token


def _find_decisions(leaves: Sequence[RecordedPath]) -> Iterator[tuple[BranchPath, _Decision]]:
    at: dict[BranchPath, dict[BranchPath, list[RecordedPath]]] = defaultdict(
        lambda: defaultdict(list)
    )
    shares: dict[BranchPath, float] = {}
    kinds: dict[BranchPath, DecisionKind] = {}
    for leaf in leaves:
        for begin, end in _decision_spans(leaf):
            place, way = _branch_path(leaf, begin), _branch_path(leaf, end)[begin:]
            at[place][way].append(leaf)
            kinds[place] = leaf.branches[begin].kind
            shares[place + way] = math.prod(own.weight for own in leaf.branches[begin:end])
    for place, ways in at.items():
        if len(ways) < 2:
            continue
        through = [leaf.tokens for own in ways.values() for leaf in own]
        same = [a == b for a, b in zip(min(through), max(through), strict=False)]
        before = through[0][: (*same, False).index(False)]
        tokens = {
            way: frozenset(_next_token(leaf, before) for leaf in own) for way, own in ways.items()
        }
        coin = kinds[place] is DecisionKind.BOUND and set(ways) == {(0,), (1,)}
        yield (
            place,
            _Decision(place, coin, before, {way: shares[place + way] for way in ways}, tokens),
        )


def _decision_spans(leaf: RecordedPath) -> Iterator[tuple[int, int]]:
    """Yield where decisions begin and end: comparisons of one draw in one line are one."""
    begin, branches = 0, leaf.branches
    for i in range(1, len(branches) + 1):
        if (
            i == len(branches)
            or branches[i].draw is None
            or (branches[i].draw, branches[i].where)
            != (branches[begin].draw, branches[begin].where)
        ):
            yield begin, i
            begin = i


def _branch_path(leaf: RecordedPath, end: int) -> BranchPath:
    return tuple(branch.taken for branch in leaf.branches[:end])


def _next_token(leaf: RecordedPath, before: Tokens) -> int | None:
    return leaf.tokens[len(before)] if len(leaf.tokens) > len(before) else None


MAX_SUSPECTS = 12
"""Lines that are named."""

_PASS_THROUGH_COST, _NO_INPUT_COST = 1, 3
"""How much farther a line counts that no values meet in, and one without any of them."""

_CORRECT_VALUE_COST = 3
"""How much farther a line counts that something right comes from (Zhang et al. 2006)."""

_FORWARDING_COST = 3
"""How much farther a line counts that calls a function of names as they are."""

_CONTROL_ONLY_COST = 3
"""How much farther a line counts that a wrong number hangs on by a test alone."""

_AFTER_DECISION_COST = 2
"""How much farther a line counts that lies behind the end of a path and not behind a decision."""

_LAST_RANK = 1_000
"""Farther than any line of a path that is looked at."""

_ARGMAX_FUNCTIONS = frozenset({"argmax", "argsort", "topk"})
"""Names of functions that take the likeliest where others draw."""

_MIN_SHARE = 1e-6


@dataclass(frozen=True)
class SlicingCriterion:
    """Steps of a path, and the one whose dependences are looked for.

    ``farther``: how much farther they count. ``itself``: that statement is one of them. ``right``:
    a step that gets its probabilities right, and so what it depends on. ``known``: of the path.
    """

    path: Sequence[LineStep]
    start: int
    farther: int = 0
    itself: bool = False
    right: int | None = None
    known: StepVerdicts = field(default_factory=StepVerdicts)

    @property
    def wrong(self) -> bool:
        """Whether the decision that it begins at is known not to be as the rows demand."""
        return self.start in self.known.wrong


def rank_suspects(ways: Sequence[SlicingCriterion]) -> tuple[str, ...]:
    """Return the statements that these depend on, as ``file:line``."""
    best: dict[str, tuple[int, int, int, int]] = {}
    graphs: dict[int, DependenceGraph] = {}
    for way in ways:
        if id(way.path) not in graphs:
            graphs[id(way.path)] = DependenceGraph(way.path)
    right_values = _correct_value_steps(ways, graphs)
    left_out = set()
    for number, way in enumerate(ways):
        graph = graphs[id(way.path)]
        if way.start not in graph.of:
            continue
        start = graph.of[way.start]
        if not way.itself:
            left_out.add(graph.nodes[start].at)
        behind = graph.behind({start: 0}, _step_cost)
        tests = {} if way.wrong else {i: 1 for i in behind if _tests_data(graph.nodes[i])}
        far, right = graph.behind(tests | {start: 0}, _step_cost), _correct_lines(graph, way)
        values = graph.values([way.start], ()) if way.wrong else far.keys()
        for i, steps in far.items():
            node = graph.nodes[i]
            if node.counts:
                doubt = _doubt_cost(node) + _CORRECT_VALUE_COST * (node.at in right)
                if way.known.undrawn and any(
                    x.name in _ARGMAX_FUNCTIONS for x in node.statement.calls
                ):
                    doubt = -steps
                doubt += _CONTROL_ONLY_COST * (i not in values)
                doubt += _CORRECT_VALUE_COST * (node.ran in right_values[number])
                key = (steps + doubt + way.farther, doubt, number, -node.ran)
                best[node.at] = min(best.get(node.at, key), key)
    return tuple(at for at in sorted(best, key=lambda at: best[at]) if at not in left_out)[
        :MAX_SUSPECTS
    ]


def _correct_value_steps(
    ways: Sequence[SlicingCriterion], graphs: Mapping[int, DependenceGraph]
) -> list[set[int]]:
    """Return of each way the steps that the values of right decisions come from.

    What is known of one path holds for another that parts from it at the same decision, as far as
    both run the same lines.
    """
    sources = []
    for way in ways:
        graph = graphs[id(way.path)]
        indices = graph.values(way.known.right, way.known.wrong)
        sources.append({graph.nodes[i].ran for i in indices})
    every: list[set[int]] = []
    for way in ways:
        every.append(set())
        for other, steps in zip(ways, sources, strict=True):
            if other.start == way.start:
                common = _common_prefix_length(way.path, other.path)
                every[-1] |= {step for step in steps if step < common}
    return every


def _common_prefix_length(path: Sequence[LineStep], other: Sequence[LineStep]) -> int:
    """Return how many steps two paths share."""
    if path is other:
        return len(path)
    same = (a == b for a, b in zip(path, other, strict=False))
    return next((i for i, is_same in enumerate(same) if not is_same), min(len(path), len(other)))


def _correct_lines(graph: DependenceGraph, way: SlicingCriterion) -> set[str]:
    """Return the lines that are right as what is computed from them is, and that one's caller."""
    if way.right is None or way.right not in graph.of:
        return set()
    caller = way.path[way.right].caller
    indices = set(graph.behind({graph.of[way.right]: 0}, _step_cost))
    if caller is not None and caller in graph.of:
        indices.add(graph.of[caller])
    return {graph.nodes[i].at for i in indices}


def _step_cost(node: StatementRun) -> int:
    return int(node.counts and not _is_forwarding(node))


def _is_forwarding(node: StatementRun) -> bool:
    return node.statement.hands_on and bool(node.calls)


def _tests_data(node: StatementRun) -> bool:
    return node.counts and node.statement.test and node.meets


def _doubt_cost(node: StatementRun) -> int:
    if node.inputs == 0:
        return _NO_INPUT_COST
    return (0 if node.meets else _PASS_THROUGH_COST) + _FORWARDING_COST * _is_forwarding(node)


class DecisionSites:
    """Paths that are looked at, by the line of a decision and the line that called for it.

    ``to_end``: lines behind the end of the path count too, as where no line decides the token.
    ``both``: so do those of a path that does not give the token, as where its kind is not known.
    """

    to_end: bool
    both: bool
    _rows: list[list[float]]
    _found: dict[tuple[str, str], "_DecisionSite"]

    def __init__(self, instance: Instance, *, to_end: bool, both: bool) -> None:
        self.to_end, self.both, self._found = to_end, both, {}
        self._rows = [_positive_shares(row) for row in instance.draft_probs.values()]

    def add(
        self, call: CallPaths, parting: BranchPoint, event: TokensEvent, verdicts: DecisionVerdicts
    ) -> None:
        """Look at the likeliest path through a decision that gives the event, and one that not.

        ``verdicts``: on the decisions of the call.
        """
        depth = len(parting.taken)
        leaves = leaves_through(call.leaves, parting.taken)
        for wanted in (True, False) if self.both else (True,):
            leaf = next((x for x in leaves if event(x.tokens) == wanted), None)
            step = None if leaf is None else decision_step(leaf, depth)
            if leaf is None or step is None:
                continue
            caller = leaf.steps[step].caller
            at = parting.where, "" if caller is None else leaf.steps[caller].at
            site = self._found.setdefault(at, _DecisionSite())
            weight = call.mass * leaf.weight
            if weight > site.weights[wanted]:
                site.weights[wanted] = weight
                known = verdicts.of(leaf)
                site.ways[wanted] = SlicingCriterion(leaf.steps, step, int(not wanted), known=known)
            if wanted:
                site.moved += call.mass * parting.weight
                site.drafts &= (
                    call.drafted is None
                    and self._is_drafted(parting)
                    and verdicts.known.get(parting.taken) is not False
                )

    def ways(self, most: int) -> list[SlicingCriterion]:
        """Return what to look behind of, by the decisions that move the most probability.

        A token that a rule drafts itself, with the probabilities of the draft's own row, is drafted
        as it should be: what that depends on comes last, as it does of any other right decision.
        """
        sites = sorted(self._found.values(), key=lambda site: -site.moved)[:most]
        is_known = any(way.wrong for site in sites for way in site.ways.values())
        result = []
        for site in sites:
            for way in site.ways.values():
                if way.wrong:
                    result.append(way)
                    continue
                is_right = site.drafts or way.start in way.known.right
                result.append(replace(way, farther=_LAST_RANK) if is_right or is_known else way)
                if self.to_end or way.known.always_kept:
                    farther = (
                        way.farther + _AFTER_DECISION_COST * (not is_right) + _LAST_RANK * is_known
                    )
                    right = way.start if site.drafts else None
                    end = _last_user_step(way.path)
                    result.append(
                        replace(way, start=end, farther=farther, itself=True, right=right)
                    )
        return result

    def _is_drafted(self, parting: BranchPoint) -> bool:
        shares = sorted(share for share in parting.shares if share > _MIN_SHARE)
        return not parting.coin and any(
            len(row) == len(shares)
            and all(abs(a - b) < _MIN_SHARE for a, b in zip(row, shares, strict=True))
            for row in self._rows
        )


class _DecisionSite:
    def __init__(self) -> None:
        self.moved = 0.0
        self.drafts = True
        self.weights = {True: 0.0, False: 0.0}
        self.ways: dict[bool, SlicingCriterion] = {}


def _positive_shares(row: Sequence[float | str]) -> list[float]:
    return sorted(x for x in (float(Fraction(share)) for share in row) if x > _MIN_SHARE)


def _last_user_step(path: Sequence[LineStep]) -> int:
    """Return the last step of the code under audit."""
    return max((i for i, step in enumerate(path) if step.own), default=len(path) - 1)


# Deciding lines: where the paths of a failing instance branch.
#
# A law that leaves the target at one token of the output leaves it by the decisions that settle
# this token and none before it. Which these are is read off the tree of all paths: a decision
# settles an event where its branches give it different probabilities, and leaves an earlier event
# alone where they do not. Where no decision settles the token alone, those that settle the output
# up to it are named.


MAX_DECIDING_LINES = 3
"""Lines that are named, those that move the most probability first."""

_MAX_BLAME_PATHS = 20_000
_BLAME_SECONDS = 10.0
_TRACED_SECONDS = 30.0
"""Following lines is slower."""


@dataclass(frozen=True)
class DecidingLines:
    """The lines, as ``file:line``. ``alone``: they decide the token and none before it.

    ``sources``: where the numbers of that decision come from, the likeliest mistake first.
    """

    lines: tuple[str, ...] = ()
    alone: bool = True
    sources: tuple[str, ...] = ()


def locate_deviation(
    subject: Subject, contract: Contract, shown: ExactResult, tolerance: float | None
) -> Localisation | None:
    """Return where the law that was judged leaves the target, with the lines that decide it.

    Where the failing instance leaves the code no choice, as rows of one token do, a richer one is
    taken for the lines.
    """
    place = make_localisation(shown)
    if place is None or subject.coin_bits is not None:
        return place
    named = _find_deciding_lines(subject, contract, shown)
    if not named.lines:
        examiner = Examiner(subject, contract, tolerance).within(seconds=_BLAME_SECONDS)
        try:
            richer = examiner.judge(rich_instance(contract, shown.model))
        except PATH_RUN_ERRORS:
            return place
        if richer.deviates:
            named = _find_deciding_lines(subject, contract, richer)
    return msgspec.structs.replace(
        place, lines=named.lines, alone=named.alone, sources=named.sources or msgspec.UNSET
    )


def _find_deciding_lines(
    subject: Subject, contract: Contract, judged: ExactResult
) -> DecidingLines:
    place = make_localisation(judged)
    if place is None:
        return DecidingLines()
    example = make_counterexample(
        judged, "step" if judges_generations(subject, contract) else contract
    )
    if len(example.sequence) <= place.position:
        return DecidingLines()
    return deciding_lines(
        subject.rule, contract, example.instance, example.sequence, place.position, place.stage
    )


def deciding_lines(
    rule: Rule,
    contract: Contract,
    instance: Instance,
    sequence: Tokens,
    position: int,
    stage: Stage | None,
) -> DecidingLines:
    """Return the lines where the token at ``position`` is decided.

    Files of installed packages are named from the package's folder on. Where no line decides that
    token alone, as none is drawn for it, they are those that decide the output up to it.

    ``rule``, ``contract``, ``instance``: the code under audit and the instance that it fails on.
    ``sequence``: an output of the wrong probability; its tokens are looked at where ``stage`` is
    None. ``position``: index of the first token at which the law leaves the target. ``stage``: the
    kind of token that carries the deviation: the line that keeps the draft token, that draws after
    a rejection, or that draws the bonus token. Of an output that never comes, or whose token is of
    another kind, every token in that place is looked at.
    """
    model = InstanceRows(instance)
    rule, contract = as_enumerable(rule, contract, model.drafting)
    if contract not in CALLS_BY_CONTRACT:
        return DecidingLines()
    budget = Budget(_MAX_BLAME_PATHS, _BLAME_SECONDS)
    try:
        calls = list(CALLS_BY_CONTRACT[contract](rule, model, sequence, budget))
    except PATH_RUN_ERRORS:
        return DecidingLines()
    every = range(len(model.target(model.prompt)))
    for alone, lasts in itertools.product((True, False), ((sequence[position],), every)):
        weights: dict[str, float] = defaultdict(float)
        for call, last in itertools.product(calls, lasts):
            before, event = stage_events(call, (*sequence[:position], last), stage)
            for parting in branch_points(call.leaves, before if alone else None, event):
                weights[parting.where] += call.mass * parting.weight
        if weights:
            most = sorted(weights, key=lambda where: -weights[where])[:MAX_DECIDING_LINES]
            result = DecidingLines(tuple(map(portable_path, most)), alone)
            ends = [(*sequence[:position], last) for last in lasts]
            behind = _suspect_statements(
                rule, contract, instance, sequence[: position + 2], ends, stage, most, alone
            )
            named = [line for line in map(portable_path, behind) if line not in result.lines]
            return replace(result, sources=tuple(named))
    return DecidingLines()


def _suspect_statements(
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
    steps = StepTracer()
    budget = Budget(_MAX_BLAME_PATHS, _TRACED_SECONDS)
    model = InstanceRows(instance)
    sites = DecisionSites(instance, to_end=stage is None or not alone, both=stage is None)
    try:
        with steps.following():
            calls = CALLS_BY_CONTRACT[contract](rule, model, sequence, budget, steps)
            for call in calls:
                cut = sequence if call.drafted is None else None
                # A second draft for one place is judged by what the first left over.
                verdicts = NO_VERDICTS if call.tree else judge_decisions(call.leaves, model, cut)
                for beginning in beginnings:
                    before, event = stage_events(call, beginning, stage)
                    for parting in branch_points(call.leaves, before if alone else None, event):
                        if parting.where in lines:
                            sites.add(call, parting, event, verdicts)
    except PATH_RUN_ERRORS:
        pass  # what was followed until then is as good
    return rank_suspects(sites.ways(MAX_DECIDING_LINES))


# The lines behind an exception, read off a path on which the code raises it again.


RAISES_KIND = "raises"
"""What is broken where code raises, in a finding."""


def add_exception_sources(
    findings: Sequence[Finding], subject: Subject, contract: Contract, found: Breach | None
) -> list[Finding]:
    """Return the findings, those of code that raised on ``found`` with the lines behind it."""
    raised = [one.line for one in findings if one.broke == RAISES_KIND and one.line is not None]
    if found is None or not raised or subject.coin_bits is not None:
        return list(findings)
    at, behind = _exception_sources(subject, contract, found)
    return [
        msgspec.structs.replace(one, sources=behind)
        if behind and one.broke == RAISES_KIND and one.line == at
        else one
        for one in findings
    ]


def _exception_sources(
    subject: Subject, contract: Contract, found: Breach
) -> tuple[str, tuple[str, ...]]:
    """Return the line that raises, and the statements that it depends on."""
    steps = StepTracer()
    try:
        with steps.following():
            broken = find_breach_paths(subject.rule, contract, found, steps)
    except PATH_RUN_ERRORS:
        return "", ()
    for leaf in broken:
        for at in parse_raise_site(leaf.broke)[:1]:
            ran = [i for i, step in enumerate(leaf.steps) if portable_path(step.at) == at]
            if ran:
                named = map(portable_path, rank_suspects([SlicingCriterion(leaf.steps, ran[-1])]))
                return at, tuple(named)
    return "", ()
