"""Which lines of code a failure may come from, the likeliest first.

Candidates are the lines that a wrong token depends on, along paths that emit it (a dynamic slice,
Korel and Laski 1988), those near the decision first. A line in which values meet that the code was
handed apart, as a row of the target and one of the draft, comes before one that passes values on,
and that before any other. A test in which they meet counts as a decision.

Where a decision is not as the rows demand, what comes from other decisions comes last. Lines that
it depends on by a test alone count as farther, and so do lines that the numbers of a right decision
come from (a dice, Chen and Cheung 1997).
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

import msgspec
import numpy as np

from simverify.arrays import Row
from simverify.auditing import dependence, rerun
from simverify.auditing.exact_tier import make_counterexample, make_localisation
from simverify.auditing.examiner import ExactResult, Examiner, judges_generations, rich_instance
from simverify.auditing.instances import InstanceRows
from simverify.auditing.replay import find_breach_paths
from simverify.auditing.subject import Contract, Subject
from simverify.auditing.trees import as_enumerable
from simverify.results import Breach, Finding, Instance, Localisation
from simverify.symbolic.engine import Budget, RecordedPath
from simverify.symbolic.outcomes import Tokens
from simverify.symbolic.provenance import parse_raise_site, portable_path
from simverify.symbolic.races import DecisionKind

# Decisions that are as the rows demand, so that the numbers behind them are right. A draft may be
# drawn from any law. A draft x that came from the law D is kept with the probability
# min(1, p(x) / D(x)); what comes after a rejection is drawn in proportion to max(p - D, 0); a token
# that is settled by one draw is the target's. Any other decision is wrong, or rests on a wrong
# number.

BranchPath = tuple[int, ...]  # a decision, by the branches that are taken before it
NextTokenLaw = Mapping[int, float]

_LAW_TOLERANCE = 1e-5


@dataclass(frozen=True)
class StepVerdicts:
    """Steps of a path that decide as the rows demand, and those that do not; both may be empty."""

    right: frozenset[int] = frozenset()
    wrong: frozenset[int] = frozenset()
    undrawn: bool = False  # every decision is right, as where a token is taken that nothing draws
    always_kept: bool = False  # as in DecisionVerdicts


@dataclass(frozen=True)
class DecisionVerdicts:
    """Which decisions of a call are as the rows demand, of those where that is known."""

    known: Mapping[BranchPath, bool]
    always_kept: bool = False  # a draft is emitted where a coin should have been asked and was not

    def of(self, leaf: RecordedPath) -> StepVerdicts:
        """Return what is known of a path."""
        if all(self.known.values()) and not self.always_kept:
            return StepVerdicts(undrawn=bool(self.known))
        decisions: dict[bool | None, set[int]] = defaultdict(set)
        for begin, end in _decision_spans(leaf):
            steps = (dependence.decision_step(leaf, depth) for depth in range(begin, end))
            is_right = self.known.get(_branch_path(leaf, begin))
            decisions[is_right].update(step for step in steps if step is not None)
        right, wrong = frozenset(decisions[True]), frozenset(decisions[False])
        return StepVerdicts(right, wrong, always_kept=self.always_kept)


NO_VERDICTS = DecisionVerdicts({})


def judge_decisions(
    leaves: Sequence[RecordedPath], rows: InstanceRows, sequence: Tokens | None = None
) -> DecisionVerdicts:
    """Judge the decisions of a call by the rows; paths that leave ``sequence`` were cut there."""
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
        tokens = itertools.chain.from_iterable(fork.tokens.values())
        if any(token is not None and not 0 <= token < len(p) for token in tokens):
            continue
        if (drafts := fork.drafts(q, forks)) is not None:
            drafted[place, fork.position], uncoined = drafts
            always_kept |= any(p[token] < drafts[0][token] - _LAW_TOLERANCE for token in uncoined)
            known[place] = True
            continue
        before = (drafted.get((place[:i], fork.position)) for i in range(len(place)))
        drawn = next((_law_row(law, len(q)) for law in before if law is not None), q)
        is_right = fork.is_right(p, drawn)
        law = fork.settled()
        if sequence is not None and is_right is False and law is not None and _matches_row(law, q):
            is_right = always_kept = True
        if is_right is not None:
            known[place] = is_right
    return DecisionVerdicts(known, always_kept)


@dataclass(frozen=True)
class _Decision:
    """A decision: the shares of its branches, and which tokens come next behind each."""

    place: BranchPath
    coin: bool
    before: Tokens  # of the output, up to the first token that its paths do not share
    shares: Mapping[BranchPath, float]
    tokens: Mapping[BranchPath, frozenset[int | None]]

    @property
    def position(self) -> int:
        return len(self.before)

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
        """Return the law of its drafts, and those kept without a coin; None if it drafts nothing.

        A coin's chances depend on the draft, which is the token on one side of it. What could be a
        coin itself drafts where it has the law q.
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
                    off = abs(self.shares[way] - min(1.0, p[x] / d[x]))
                    checks.append(bool(off < _LAW_TOLERANCE))
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
    at: dict[BranchPath, dict[BranchPath, list[Tokens]]] = defaultdict(lambda: defaultdict(list))
    shares: dict[BranchPath, float] = {}
    kinds: dict[BranchPath, DecisionKind] = {}
    for leaf in leaves:
        for begin, end in _decision_spans(leaf):
            place, way = _branch_path(leaf, begin), _branch_path(leaf, end)[begin:]
            at[place][way].append(leaf.tokens)
            kinds[place] = leaf.branches[begin].kind
            shares[place + way] = math.prod(own.weight for own in leaf.branches[begin:end])
    for place, ways in ((place, ways) for place, ways in at.items() if len(ways) > 1):
        outputs = list(itertools.chain.from_iterable(ways.values()))
        same = [a == b for a, b in zip(min(outputs), max(outputs), strict=False)]
        n = (*same, False).index(False)
        tokens = {
            way: frozenset(out[n] if len(out) > n else None for out in some)
            for way, some in ways.items()
        }
        coin = kinds[place] is DecisionKind.BOUND and set(ways) == {(0,), (1,)}
        own = {way: shares[place + way] for way in ways}
        yield place, _Decision(place, coin, outputs[0][:n], own, tokens)


def _decision_spans(leaf: RecordedPath) -> Iterator[tuple[int, int]]:
    """Yield where decisions begin and end; comparisons of one draw in one line are one decision."""
    begin, places = 0, [(branch.draw, branch.where) for branch in leaf.branches]
    for i in range(1, len(places) + 1):
        if i == len(places) or places[i][0] is None or places[i] != places[begin]:
            yield begin, i
            begin = i


def _branch_path(leaf: RecordedPath, end: int) -> BranchPath:
    return tuple(branch.taken for branch in leaf.branches[:end])


MAX_SUSPECTS = 12  # lines that are named
_PASS_THROUGH_COST, _NO_INPUT_COST = 1, 3
"""How much farther a line counts that no values meet in, and one without any of them."""

_CORRECT_VALUE_COST = 3  # of a line that something right comes from (Zhang et al. 2006)
_FORWARDING_COST = 3  # of a line that calls a function of names as they are
_CONTROL_ONLY_COST = 3  # of a line that a wrong number hangs on by a test alone
_AFTER_DECISION_COST = 2  # of a line that lies behind the end of a path and not behind a decision
_LAST_RANK = 1_000  # farther than any line of a path that is looked at
_ARGMAX_FUNCTIONS = {"argmax", "argsort", "topk"}  # they take the likeliest where others draw

_MIN_SHARE = 1e-6


@dataclass(frozen=True)
class SlicingCriterion:
    """Steps of a path, and the one whose dependences are looked for."""

    path: Sequence[rerun.LineStep]
    start: int
    farther: int = 0  # how much farther the dependences count
    itself: bool = False  # the statement at ``start`` is one of them
    right: int | None = None  # a step with the right probabilities; what it depends on is right too
    known: StepVerdicts = field(default_factory=StepVerdicts)  # of the path

    @property
    def wrong(self) -> bool:
        """Whether the decision that it begins at is known not to be as the rows demand."""
        return self.start in self.known.wrong


def rank_suspects(criteria: Sequence[SlicingCriterion]) -> tuple[str, ...]:
    """Return the statements that the criteria depend on, as ``file:line``."""
    best: dict[str, tuple[int, int, int, int]] = {}
    paths = {id(criterion.path): criterion.path for criterion in criteria}
    graphs = {number: dependence.DependenceGraph(path) for number, path in paths.items()}
    right_values = _correct_value_steps(criteria, graphs)
    left_out = set()
    for number, criterion in enumerate(criteria):
        graph = graphs[id(criterion.path)]
        if criterion.start not in graph.of:
            continue
        start = graph.of[criterion.start]
        if not criterion.itself:
            left_out.add(graph.nodes[start].at)
        behind = graph.behind({start: 0}, _step_cost)
        tests = {} if criterion.wrong else {i: 1 for i in behind if graph.nodes[i].tests_data}
        far, right = graph.behind(tests | {start: 0}, _step_cost), _correct_lines(graph, criterion)
        values = graph.values([criterion.start], ()) if criterion.wrong else far.keys()
        for i, steps in far.items():
            node = graph.nodes[i]
            if node.counts:
                doubt = _doubt_cost(node) + _CORRECT_VALUE_COST * (node.at in right)
                likeliest = any(x.name in _ARGMAX_FUNCTIONS for x in node.statement.calls)
                if criterion.known.undrawn and likeliest:
                    doubt = -steps
                doubt += _CONTROL_ONLY_COST * (i not in values)
                doubt += _CORRECT_VALUE_COST * (node.ran in right_values[number])
                key = (steps + doubt + criterion.farther, doubt, number, -node.ran)
                best[node.at] = min(best.get(node.at, key), key)
    ranked = [at for at in sorted(best, key=best.__getitem__) if at not in left_out]
    return tuple(ranked[:MAX_SUSPECTS])


def _correct_value_steps(
    criteria: Sequence[SlicingCriterion], graphs: Mapping[int, dependence.DependenceGraph]
) -> list[set[int]]:
    """Return, for each criterion, the steps that the values of right decisions come from.

    What is known of one path holds for another that leaves it at the same decision, as far as both
    run the same lines.
    """
    sources = []
    for criterion in criteria:
        graph = graphs[id(criterion.path)]
        indices = graph.values(criterion.known.right, criterion.known.wrong)
        sources.append({graph.nodes[i].ran for i in indices})
    every: list[set[int]] = []
    for criterion in criteria:
        every.append(set())
        for other, steps in zip(criteria, sources, strict=True):
            if other.start == criterion.start:
                same = zip(criterion.path, other.path, strict=False)
                common = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], same)))
                every[-1] |= {step for step in steps if step < common}
    return every


def _correct_lines(graph: dependence.DependenceGraph, way: SlicingCriterion) -> set[str]:
    """Return the lines behind a right result, and its caller: they are right as well."""
    if way.right is None or way.right not in graph.of:
        return set()
    caller = way.path[way.right].caller
    indices = set(graph.behind({graph.of[way.right]: 0}, _step_cost))
    if caller is not None and caller in graph.of:
        indices.add(graph.of[caller])
    return {graph.nodes[i].at for i in indices}


def _step_cost(node: dependence.StatementRun) -> int:
    return int(node.counts and not _is_forwarding(node))


def _is_forwarding(node: dependence.StatementRun) -> bool:
    return node.statement.hands_on and bool(node.calls)


def _doubt_cost(node: dependence.StatementRun) -> int:
    if node.inputs == 0:
        return _NO_INPUT_COST
    return (0 if node.meets else _PASS_THROUGH_COST) + _FORWARDING_COST * _is_forwarding(node)


class DecisionSites:
    """Paths that are looked at, by the line of a decision and the line that called for it.

    ``to_end``: lines behind the end of the path count too. ``both``: so do those of a path that
    does not give the token.
    """

    def __init__(self, instance: Instance, *, to_end: bool, both: bool) -> None:
        self.to_end, self.both = to_end, both
        self._rows = [
            sorted(x for x in map(float, map(Fraction, row)) if x > _MIN_SHARE)
            for row in instance.draft_probs.values()
        ]
        self._sites: dict[tuple[str, str], _DecisionSite] = defaultdict(_DecisionSite)

    def add(
        self,
        call: rerun.CallPaths,
        parting: dependence.BranchPoint,
        event: dependence.TokensEvent,
        verdicts: DecisionVerdicts,
    ) -> None:
        """Look at the likeliest path through a decision with the event, and at one without it."""
        depth = len(parting.taken)
        leaves = dependence.leaves_through(call.leaves, parting.taken)
        for wanted in (True, False) if self.both else (True,):
            leaf = next((x for x in leaves if event(x.tokens) == wanted), None)
            step = None if leaf is None else dependence.decision_step(leaf, depth)
            if leaf is None or step is None:
                continue
            caller = leaf.steps[step].caller
            at = parting.where, "" if caller is None else leaf.steps[caller].at
            site = self._sites[at]
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
        """Return where to look, by the decisions that move the most probability.

        What a right decision depends on comes last, as of a token drafted by the draft's own row.
        """
        sites = sorted(self._sites.values(), key=lambda site: -site.moved)[:most]
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
                    farther = _AFTER_DECISION_COST * (not is_right) + _LAST_RANK * is_known
                    own = (i for i, step in enumerate(way.path) if step.own)
                    start, right = max(own, default=len(way.path) - 1), way.start
                    at_end = replace(way, start=start, farther=way.farther + farther, itself=True)
                    result.append(replace(at_end, right=right if site.drafts else None))
        return result

    def _is_drafted(self, parting: dependence.BranchPoint) -> bool:
        shares = sorted(share for share in parting.shares if share > _MIN_SHARE)
        return not parting.coin and any(
            len(row) == len(shares)
            and all(abs(a - b) < _MIN_SHARE for a, b in zip(row, shares, strict=True))
            for row in self._rows
        )


class _DecisionSite:
    def __init__(self) -> None:
        self.moved, self.drafts, self.weights = 0.0, True, {True: 0.0, False: 0.0}
        self.ways: dict[bool, SlicingCriterion] = {}


# Deciding lines. A law that leaves the target at one token leaves it by the decisions that settle
# this token and none before it, or, where there are none, by those that settle the output up to it.

MAX_DECIDING_LINES = 3  # lines that are named, those that move the most probability first
_MAX_BLAME_PATHS = 20_000
_BLAME_SECONDS = 10.0
_TRACED_SECONDS = 30.0  # following lines is slower

# Lines, as ``file:line``; whether they decide the token and none before it; and the lines behind
# that decision's numbers, the likeliest mistake first.
DecidingLines = tuple[tuple[str, ...], bool, tuple[str, ...]]
_NO_LINES: DecidingLines = ((), True, ())


def locate_deviation(
    subject: Subject, contract: Contract, shown: ExactResult, tolerance: float | None
) -> Localisation | None:
    """Return where the law that was judged leaves the target, with the lines that decide it.

    A richer instance is taken for the lines where the failing one leaves the code no choice.
    """
    place = make_localisation(shown)
    if place is None or subject.coin_bits is not None:
        return place
    named = _deciding_lines(subject, contract, shown)
    if named == _NO_LINES:
        examiner = Examiner(subject, contract, tolerance).within(seconds=_BLAME_SECONDS)
        try:
            richer = examiner.judge(rich_instance(contract, shown.model))
        except rerun.PATH_RUN_ERRORS:
            return place
        if richer.deviates:
            named = _deciding_lines(subject, contract, richer)
    lines, alone, sources = named
    behind = sources or msgspec.UNSET
    return msgspec.structs.replace(place, lines=lines, alone=alone, sources=behind)


def _deciding_lines(subject: Subject, contract: Contract, judged: ExactResult) -> DecidingLines:
    """Return the lines where the first token at which the law leaves the target is decided.

    By the token's kind, they keep the draft token, draw after a rejection, or draw the bonus token.
    Where the output never comes, or the token is of another kind, every token in that place is
    looked at. Empty where the paths cannot be run again one by one, or no line of the code under
    audit decides it.
    """
    place = make_localisation(judged)
    if place is None:
        return _NO_LINES
    shown_as = "step" if judges_generations(subject, contract) else contract
    example = make_counterexample(judged, shown_as)
    sequence, position, instance = example.sequence, place.position, example.instance
    if len(sequence) <= position:
        return _NO_LINES
    model = InstanceRows(instance)
    rule, contract = as_enumerable(subject.rule, contract, model.drafting)
    if contract not in rerun.CALLS_BY_CONTRACT:
        return _NO_LINES
    run = partial(rerun.CALLS_BY_CONTRACT[contract], rule)
    try:
        calls = list(run(model, sequence, Budget(_MAX_BLAME_PATHS, _BLAME_SECONDS)))
    except rerun.PATH_RUN_ERRORS:
        return _NO_LINES
    every = range(len(model.target(model.prompt)))
    for alone, lasts in itertools.product((True, False), ((sequence[position],), every)):
        ends = [(*sequence[:position], last) for last in lasts]
        weights: dict[str, float] = defaultdict(float)
        for call, end in itertools.product(calls, ends):
            for point, _ in _settling_points(call, end, place.stage, alone):
                weights[point.where] += call.mass * point.weight
        if not weights:
            continue
        most = sorted(weights, key=lambda where: -weights[where])[:MAX_DECIDING_LINES]
        # Where no line decides the token alone, the way of what the code returns is followed too.
        stage = place.stage
        sites = DecisionSites(instance, to_end=stage is None or not alone, both=stage is None)
        cut, steps, model = sequence[: position + 2], rerun.StepTracer(), InstanceRows(instance)
        try:
            with steps.following():
                budget = Budget(_MAX_BLAME_PATHS, _TRACED_SECONDS)
                for call in run(model, cut, budget, steps):
                    # A second draft for one place is judged by what the first left over.
                    of_steps = cut if call.drafted is None else None
                    verdicts = (
                        NO_VERDICTS if call.tree else judge_decisions(call.leaves, model, of_steps)
                    )
                    for end in ends:
                        for point, event in _settling_points(call, end, stage, alone):
                            if point.where in most:
                                sites.add(call, point, event, verdicts)
        except rerun.PATH_RUN_ERRORS:
            pass  # what was followed until then is as good
        lines = tuple(map(portable_path, most))
        behind = map(portable_path, rank_suspects(sites.ways(MAX_DECIDING_LINES)))
        return lines, alone, tuple(line for line in behind if line not in lines)
    return _NO_LINES


def _settling_points(
    call: rerun.CallPaths, beginning: Tokens, stage: dependence.Stage | None, alone: bool
) -> Iterator[tuple[dependence.BranchPoint, dependence.TokensEvent]]:
    """Return the decisions of a call that settle the end of ``beginning``, and that event."""
    before, event = dependence.stage_events(call, beginning, stage)
    points = dependence.branch_points(call.leaves, before if alone else None, event)
    return ((point, event) for point in points)


# The lines behind an exception, read off a path on which the code raises it again.

RAISES_KIND = "raises"  # what is broken where code raises, in a finding


def add_exception_sources(
    findings: Sequence[Finding], subject: Subject, contract: Contract, breach: Breach | None
) -> list[Finding]:
    """Return the findings, those of code that raised on ``breach`` with the lines behind it."""
    raised = [x for x in findings if x.broke == RAISES_KIND and x.line is not None]
    if breach is None or not raised or subject.coin_bits is not None:
        return list(findings)
    at, behind = _exception_sources(subject, contract, breach)
    raised = [finding for finding in raised if behind and finding.line == at]
    return [
        msgspec.structs.replace(finding, sources=behind) if finding in raised else finding
        for finding in findings
    ]


def _exception_sources(
    subject: Subject, contract: Contract, breach: Breach
) -> tuple[str, tuple[str, ...]]:
    """Return the line that raises, and the statements that it depends on."""
    steps = rerun.StepTracer()
    try:
        with steps.following():
            broken = find_breach_paths(subject.rule, contract, breach, steps)
    except rerun.PATH_RUN_ERRORS:
        return "", ()
    for leaf in broken:
        for at in parse_raise_site(leaf.broke)[:1]:
            ran = [i for i, step in enumerate(leaf.steps) if portable_path(step.at) == at]
            if ran:
                named = map(portable_path, rank_suspects([SlicingCriterion(leaf.steps, ran[-1])]))
                return at, tuple(named)
    return "", ()
