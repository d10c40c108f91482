"""Failures of an audit, run again and shown draw by draw: paths, breaches, coins, trials."""

import ast
import inspect
import itertools
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from simverify.auditing import coins, drafters
from simverify.auditing.comparison import sequence_probability
from simverify.auditing.enumeration import (
    DEFAULT_BUDGET,
    block_arguments,
    check_token_ids,
    takes_step_arguments,
)
from simverify.auditing.instances import InstanceRows, instance_drafting
from simverify.auditing.invocation import (
    CallOutcome,
    ProbeCase,
    Rule,
    attempt_call,
    make_caller,
    read_result,
)
from simverify.auditing.rerun import (
    CALLS_BY_CONTRACT,
    StepTracer,
    record_paths,
    run_generation,
    trace_calls,
)
from simverify.auditing.sampled_runs import Contract as SampledContract
from simverify.auditing.sampled_runs import (
    ContractMisuse,
    SampledInstance,
    TimeLimitReached,
    TrialRunner,
)
from simverify.auditing.sandbox import seeded_global_generators
from simverify.auditing.subject import Contract, Subject
from simverify.auditing.trees import as_enumerable, tree_arguments
from simverify.engines.bridge import parse_request
from simverify.errors import SimverifyError
from simverify.results import Breach, Counterexample, FailingTrial, Instance
from simverify.symbolic.engine import Budget, RecordedBranch, RecordedPath
from simverify.symbolic.outcomes import InvalidTokens, Tokens
from simverify.symbolic.provenance import CallBroken, current_user_line
from simverify.symbolic.races import DecisionKind
from simverify.trees import ROOT, DraftTree, TreeShape

# Every path by which code emits a given output on a given instance, shown draw by draw.


@dataclass(frozen=True)
class ExplainedPath:
    """One path that leads to the output.

    ``drafted`` is the given block and ``draft_probability`` that of drafting it (None and 1
    under the step contract); ``tree`` draws it where it is one. ``weight`` is the path's own;
    ``completion`` the target's probability of the tokens of the output that the call left out.
    """

    drafted: Tokens | None
    draft_probability: float
    emitted: Tokens
    weight: float
    completion: float
    draws: int
    branches: tuple[RecordedBranch, ...]
    tree: str = ""

    @property
    def contribution(self) -> float:
        """Probability of the output by this path: the product of the three."""
        return self.draft_probability * self.weight * self.completion


@dataclass(frozen=True)
class OutputPosition:
    """The rows p and q after the first ``index`` tokens of the output; q is None past gamma."""

    index: int
    token: int
    target: tuple[float, ...]
    draft: tuple[float, ...] | None


@dataclass(frozen=True)
class Explanation:
    """All paths to ``sequence``, heaviest first; their contributions sum to ``emitted``.

    ``head``: of a drafter's call, what it was asked and reports, a line each.
    """

    instance: str
    sequence: Tokens
    emitted: float
    due: float
    positions: tuple[OutputPosition, ...]
    trails: tuple[ExplainedPath, ...]
    head: tuple[str, ...] = ()


def explain_output(
    rule: Rule,
    contract: Contract,
    instance: Instance,
    sequence: Sequence[int],
    budget: Budget = DEFAULT_BUDGET,
) -> Explanation:
    """Run the paths of ``rule`` on ``instance`` again and keep those that emit ``sequence``.

    ``sequence``: the first tokens of a completed output, up to gamma+1 under the verify contract.
    ``budget``: for all paths, also those that lead elsewhere. Raises ``ValueError`` where
    ``sequence`` does not fit the instance, or the instance lacks a row; else as the exact tier.
    """
    model = InstanceRows(instance)
    rule, contract = as_enumerable(rule, contract, model.drafting)
    if contract not in CALLS_BY_CONTRACT:
        raise ValueError(f"contract {contract!r}: pass one of {', '.join(CALLS_BY_CONTRACT)}")
    tokens = tuple(int(x) for x in sequence)
    most = instance.gamma + 1
    if not tokens or (contract != "step" and len(tokens) > most):
        raise ValueError(f"sequence of {len(tokens)} tokens: pass 1 to gamma + 1 = {most}")
    if min(tokens) < 0 or max(tokens) >= instance.vocab_size:
        raise ValueError(f"sequence {list(tokens)}: pass ids in 0..{instance.vocab_size - 1}")
    paths = [
        ExplainedPath(
            call.drafted,
            call.mass,
            leaf.tokens,
            leaf.weight,
            _completion(model, tokens, leaf.tokens),
            leaf.draws,
            leaf.branches,
            call.tree,
        )
        for call in CALLS_BY_CONTRACT[contract](rule, model, tokens, budget)
        for leaf in call.leaves
        if _agree(leaf.tokens, tokens)
    ]
    return _explain_paths(model, tokens, paths, len(tokens) if contract == "step" else model.gamma)


def _agree(emitted: Tokens, sequence: Tokens) -> bool:
    """Whether one begins as the other does."""
    common = min(len(emitted), len(sequence))
    return emitted[:common] == sequence[:common]


def _completion(model: InstanceRows, sequence: Tokens, emitted: Tokens) -> float:
    """Return the target's probability of the tokens that ``emitted`` leaves out."""
    common = min(len(emitted), len(sequence))
    return sequence_probability(model.expected, sequence, common, model.prompt)


def _explain_paths(
    model: InstanceRows, tokens: Tokens, paths: list[ExplainedPath], drafts: int
) -> Explanation:
    """Return the explanation of an output; its first ``drafts`` tokens have draft rows."""
    positions = []
    for i, token in enumerate(tokens):
        prefix = model.prompt + tokens[:i]
        q = tuple(model.draft(prefix).tolist()) if i < drafts else None
        positions.append(OutputPosition(i, token, tuple(model.expected(prefix).tolist()), q))
    paths = sorted(paths, key=lambda path: path.contribution, reverse=True)
    return Explanation(
        model.name,
        tokens,
        sum(path.contribution for path in paths),
        sequence_probability(model.expected, tokens, prompt=model.prompt),
        tuple(positions),
        tuple(paths),
    )


# Every path on which a drafter answers a call in the same way, shown draw by draw.


def explain_draft(
    rule: Callable[..., Any], example: Counterexample, budget: Budget = DEFAULT_BUDGET
) -> Explanation:
    """Run a drafter's calls up to that of ``example`` again; keep the paths that answer like it.

    Raises ``CannotEnumerate``, ``TooManyPaths`` or ``OutOfTime`` as the exact tier does.
    """
    call, model, reports = example.call, InstanceRows(example.instance), drafters.ReportedRows()
    assert call is not None, "the counterexample of a drafter has a call"
    drafting = model.drafting
    assert drafting is not None, "and an instance that says how it drafts"
    asked_for = reports.number(np.array(call.reported))
    enumeration, source = record_paths(rule, seed_once=True)

    def run() -> Tokens:
        source.handing(enumeration.rng)
        drafter = drafters.build_drafter(rule)
        source.sequences.is_built()
        given = drafter, drafting.shape, model.draft, enumeration.rng, model.prompt
        grown = drafters.draft_tree(*given, most=len(call.before) + 1)
        numbers = drafters.encode_calls(grown.calls, reports)
        source.end(numbers)
        return numbers

    with enumeration:
        enumeration.run(run, budget)
    like: list[ExplainedPath] = []
    for leaf in source.take():
        *replies, last = drafters.decode_calls(leaf.tokens, drafting.shape, model.prompt)
        before = tuple(answer.tokens for answer in replies)
        alike = (before, last.report) == (call.before, asked_for)
        if alike and len(last.tokens) == len(example.sequence):
            like.append(
                ExplainedPath(None, 1.0, last.tokens, leaf.weight, 1.0, leaf.draws, leaf.branches)
            )
    share = sum(trail.weight for trail in like)
    emitted: dict[Tokens, float] = {}
    for trail in like:
        emitted[trail.emitted] = emitted.get(trail.emitted, 0.0) + trail.weight / share
    sequence = tuple(example.sequence)
    row = np.array(call.reported)
    expected = drafters.expected_siblings(drafting.scheme, row, call.asked, len(sequence), emitted)
    there = [trail for trail in like if trail.emitted == sequence]
    return Explanation(
        example.instance.name,
        sequence,
        emitted.get(sequence, 0.0),
        expected.get(sequence, 0.0),
        (),
        tuple(sorted(there, key=lambda trail: trail.weight, reverse=True)),
        _drafter_heading(example, model, share),
    )


def _drafter_heading(example: Counterexample, model: InstanceRows, share: float) -> tuple[str, ...]:
    call = example.call
    assert call is not None, "the counterexample of a drafter has a call"
    lines = [
        f"after {_number_list(call.prefix) or 'no token'}, asked for {call.asked}, "
        f"scheme {example.instance.scheme}",
        f"  draft row: {_row_text(model.draft(call.prefix).tolist())}",
        f"  reported:  {_row_text(call.reported)}",
    ]
    if share < 1 - 1e-9:
        lines.append(
            f"  this row and this number of tokens are returned with probability {share:.6g}"
        )
    return tuple(lines)


def draft_breach_call(rule: Callable[..., Any], breach: Breach) -> Callable[[Any], CallOutcome]:
    """Return what drafts on the instance of ``breach`` with a generator, and says how it ends."""
    model = InstanceRows(breach.instance)
    drafting = model.drafting
    assert drafting is not None, "a breach of the draft contract says how is drafted"

    def run(rng: Any) -> tuple[Tokens, str]:
        drafter = drafters.build_drafter(rule)
        grown = drafters.draft_tree(drafter, drafting.shape, model.draft, rng, model.prompt)
        return drafters.encode_calls(grown.calls, drafters.ReportedRows()), ""

    return lambda rng: attempt_call(lambda: run(rng))


# An explanation as plain text: the rows, then every path with its draws and branches.


def render_explanation(explanation: Explanation, *, most: int = 10, only: int | None = None) -> str:
    """Plain text of the rows and of the ``most`` heaviest paths; no colour, no width.

    ``only``: the number of the one path to show, from 0 in the order of weight.
    """
    e = explanation
    lines = [
        f"{e.instance}: {'tokens' if e.head else 'output'} {_number_list(e.sequence)}",
        *e.head,
        f"emitted with probability {e.emitted:.9g}, due {e.due:.9g}, "
        f"difference {e.emitted - e.due:+.3g}",
        "",
    ]
    for place in e.positions:
        lines.append(f"position {place.index}: token {place.token}")
        lines.append(f"  p = {_row_text(place.target)}")
        if place.draft is not None:
            lines.append(f"  q = {_row_text(place.draft)}")
    if not e.trails:
        return "\n".join([*lines, "", "no path leads there: the code never emits it"]) + "\n"
    count = "1 path leads" if len(e.trails) == 1 else f"{len(e.trails)} paths lead"
    lines += ["", f"{count} there, numbered from 0, heaviest first"]
    for number in range(len(e.trails))[:most] if only is None else [only]:
        lines += ["", *_trail_lines(number, e.trails[number])]
    if only is None and len(e.trails) > most:
        rest = sum(trail.contribution for trail in e.trails[most:])
        lines += ["", f"{len(e.trails) - most} more paths of weight {rest:.6g} together"]
    return "\n".join(lines) + "\n"


def _trail_lines(number: int, trail: ExplainedPath) -> Iterator[str]:
    yield f"path {number}: {trail.contribution:.6g}, emits {_number_list(trail.emitted)}"
    if trail.drafted is not None:
        drafted = f"tree {trail.tree}" if trail.tree else f"draft {_number_list(trail.drafted)}"
        yield f"  {drafted}: {trail.draft_probability:.6g}"
    yield from map(branch_line, trail.branches)
    decided = {branch.draw for branch in trail.branches}
    idle = set(range(1, trail.draws + 1)) - decided
    if idle and None not in decided:
        yield f"  decided nothing: draw {_number_list(sorted(idle))}"
    if trail.completion != 1:
        yield f"  the target completes it: {trail.completion:.6g}"


def branch_line(branch: RecordedBranch) -> str:
    """Return the line of one decision."""
    text = "  draws: " if branch.draw is None else f"  draw {branch.draw}: "
    text += branch.kind.value
    if branch.left is None or branch.ways > 2:
        text += f", number {branch.taken} of 0..{branch.ways - 1}"
    if branch.left is not None:
        text += f", u in [{branch.left[0]:.6g}, {branch.left[1]:.6g})"
    return f"{text}: {branch.weight:.6g}" + (f" at {branch.where}" if branch.where else "")


def _number_list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _row_text(row: Iterable[float]) -> str:
    return "  ".join(f"{x:.6g}" for x in row)


# The paths on which a call broke its contract, run again and shown draw by draw.


def replay_contract_breach(rule: Rule, contract: Contract, breach: Breach) -> tuple[str, ...]:
    """Return a text for each path on which ``rule`` breaks its contract again, heaviest first.

    Of a rule that drafts itself, in the shortest generation in which it does. Raises
    ``CannotEnumerate``, ``TooManyPaths`` or ``OutOfTime`` as the exact tier does.
    """
    broken, texts = find_breach_paths(rule, contract, breach), []
    for i, leaf in enumerate(broken):
        lines = [
            *_breach_heading(breach),
            f"path {i} of {len(broken)} that break it:",
            f"  {leaf.broke}",
            f"  probability {leaf.weight:.6g}, {leaf.draws} draws",
            *map(branch_line, leaf.branches),
        ]
        texts.append("\n".join(lines) + "\n")
    return tuple(texts)


def find_breach_paths(
    rule: Rule, contract: Contract, breach: Breach, steps: StepTracer | None = None
) -> list[RecordedPath]:
    """Return the paths on which ``rule`` breaks its contract again, the heaviest first.

    ``steps``: follows the lines that they run. Raises as :func:`replay_contract_breach` does.
    """
    rule, contract = as_enumerable(rule, contract, instance_drafting(breach.instance))
    gamma = breach.instance.gamma
    lengths = {gamma + 1}  # tokens that are generated
    if contract == "step":
        # The last call asks for the rows after gamma drafts more.
        deepest = max(len(prefix.split(",")) for prefix in breach.instance.target_probs)
        recorded = max(deepest - gamma + 1, 1)
        lengths = {min(gamma + 1, recorded), recorded}
    every = (_breach_leaves(rule, contract, breach, length, steps) for length in sorted(lengths))
    return next((leaves for leaves in every if leaves), [])


def _breach_leaves(
    rule: Rule, contract: Contract, breach: Breach, length: int, steps: StepTracer | None
) -> list[RecordedPath]:
    enumeration, source = record_paths(rule, seed_once=contract in ("step", "draft"), steps=steps)
    calls: dict[str, Callable[..., Callable[[Any], CallOutcome]]] = {
        "step": partial(_generation_call, length=length),
        "draft": draft_breach_call,
        "verify": _block_call,
        "tree": _tree_call,
    }
    one = calls[contract](rule, breach)

    def call() -> Tokens:
        source.handing(enumeration.rng)
        outcome = one(enumeration.rng)
        changed = f"changes its arguments in place: {', '.join(outcome.changed)}"
        source.end(outcome.tokens or (), changed if outcome.changed else outcome.fault)
        if outcome.tokens is None:
            raise InvalidTokens("broken", outcome.fault)
        return outcome.tokens

    with enumeration:
        enumeration.run(call, DEFAULT_BUDGET)
    broken = [leaf for leaf in source.take() if leaf.broke]
    return sorted(broken, key=lambda leaf: -leaf.weight)


def _block_call(rule: Rule, breach: Breach) -> Callable[[Any], CallOutcome]:
    drafted = breach.draft_tokens
    assert drafted is not None, "a breach of the verify contract has draft tokens"
    model = InstanceRows(breach.instance)
    targets, drafts, _ = block_arguments(model, drafted, model.prompt)
    case = ProbeCase(model.name, model.gamma, targets, np.vstack([drafts, drafts[:1]]))
    call = make_caller(rule, "verify")
    return lambda rng: call(case, rng, drafted)


def _tree_call(rule: Rule, breach: Breach) -> Callable[[Any], CallOutcome]:
    tree, model = _breach_tree(breach), InstanceRows(breach.instance)
    ways = {tree.text(node) for node in range(ROOT, len(tree.tokens))}
    arguments = tree_arguments(tree, model.target, model.draft)

    def run(rng: Any) -> tuple[Tokens, str]:
        tokens = read_result(rule(*(x.copy() for x in arguments.values()), rng))
        if len(tokens) > breach.instance.gamma + 1:
            raise InvalidTokens("too-many", f"returned {len(tokens)} tokens")
        check_token_ids(tokens, model.vocab_size)
        return tokens, f"returned {tokens}: no path from the root" * (tokens[:-1] not in ways)

    return lambda rng: attempt_call(lambda: run(rng))


def _breach_tree(breach: Breach) -> DraftTree:
    drafting = instance_drafting(breach.instance)
    assert drafting is not None, "a breach of the tree contract says how trees are drafted"
    assert breach.parents is not None, "and has the tree's shape"
    assert breach.draft_tokens is not None, "and its tokens"
    return DraftTree(TreeShape(breach.parents), breach.draft_tokens, drafting.scheme)


def _generation_call(rule: Rule, breach: Breach, length: int) -> Callable[[Any], CallOutcome]:
    model = InstanceRows(breach.instance)

    def one(rng: Any) -> CallOutcome:
        before: list[Tokens] = [()]
        generate = partial(run_generation, rule, model, rng, length, before=before)
        outcome = attempt_call(lambda: (generate(), ""))
        if outcome.tokens is not None or not before[-1]:
            return outcome
        place = f"in the call after the tokens {_number_list(before[-1])}"
        return replace(outcome, fault=f"{outcome.fault}, {place}")

    return one


def _breach_heading(breach: Breach) -> list[str]:
    lines = [f"{breach.instance.name}: {breach.message}"]
    if breach.draft_tokens is None:
        return lines
    if breach.parents is not None:
        return [*lines, f"draft tree {_breach_tree(breach).drawn()}"]
    model = InstanceRows(breach.instance)
    targets, drafts, _ = block_arguments(model, breach.draft_tokens, model.prompt)
    lines.append(f"draft tokens {_number_list(breach.draft_tokens)}")
    for i, p in enumerate(targets):
        lines += [f"position {i}", f"  p = {_row_text(p)}"]
        if i < len(drafts):
            lines.append(f"  q = {_row_text(drafts[i])}")
    return lines


# Code that takes its coins, on a failing instance: which coins lead where.


_MAX_COIN_CALLS = 100_000


def explain_coins(subject: Subject, instance: Instance, sequence: Sequence[int]) -> Explanation:
    """Return the boxes of coins whose calls emit ``sequence``, as paths.

    Raises ``SimverifyError`` where the calls break, or are no function of their coins any more.
    """
    model, tokens = InstanceRows(instance), tuple(sequence)
    paths, scale = [], 2 ** (subject.coin_bits or 53)
    for drafted in itertools.product(range(instance.vocab_size), repeat=instance.gamma):
        mass = sequence_probability(model.draft, drafted)
        for box, emitted in _constant_boxes(subject, model, drafted) if mass > 0 else ():
            if not emitted or not _agree(emitted, tokens):
                continue
            branches = []
            for axis, (low, high) in enumerate(zip(box.low, box.high, strict=True)):
                if (share := (high - low + 1) / scale) < 1:
                    left = low / scale, (high + 1) / scale
                    kind = DecisionKind.BOUND
                    branches.append(RecordedBranch(kind, axis + 1, 0, 2, share, left, ""))
            completion = _completion(model, tokens, emitted)
            weight, draws = box.share(scale), len(box.low)
            paths.append(
                ExplainedPath(drafted, mass, emitted, weight, completion, draws, tuple(branches))
            )
    return _explain_paths(model, tokens, paths, instance.gamma)


def replay_coin_breach(subject: Subject, breach: Breach) -> tuple[str, ...]:
    """Return a text for each box of coins on which a call breaks its contract again."""
    model, drafted = InstanceRows(breach.instance), breach.draft_tokens
    assert drafted is not None, "a breach of the verify contract has draft tokens"
    block = block_arguments(model, drafted)
    scale = 2 ** (subject.coin_bits or 0)
    texts = []
    for box, emitted in _constant_boxes(subject, model, drafted):
        given = np.array(box.low) / scale
        call = coins.CheckedCoinCall(subject.rule, *block)
        call(given)
        if call.findings:
            lines = [
                f"{model.name}: draft tokens {_number_list(drafted)}",
                *(f"p[{i}] = {_row_text(row)}" for i, row in enumerate(block[0])),
                *(f"q[{i}] = {_row_text(row)}" for i, row in enumerate(block[1])),
                f"coins: {', '.join(f'{x:.17g}' for x in given)}",
                *(f"ends: {finding.kind}: {finding.message}" for finding in call.findings.values()),
                *([f"tokens: {_number_list(emitted)}"] if emitted else []),
            ]
            texts.append((box.share(scale), "\n".join(lines) + "\n"))
    return tuple(text for _, text in sorted(texts, key=lambda pair: -pair[0]))


def replay_line(subject: Subject, line: str) -> str:
    """Ask once more what broke a call, of code that was started anew, and say what comes."""
    request = parse_request(line)
    given = request.target_probs, request.draft_probs, request.draft_tokens, request.coins
    lines = [f"asked: {line}"]
    try:
        lines.append(f"answered: {list(subject.rule(*given))}")
    except (InvalidTokens, CallBroken) as error:
        lines.append(f"ends: {error.kind}: {error}")
    else:
        lines.append("in the audit this call broke the contract; as a first call it keeps it")
    return "\n".join(lines) + "\n"


def _constant_boxes(
    subject: Subject, model: InstanceRows, drafted: Tokens
) -> list[tuple[coins.Box, Tokens]]:
    """Return the boxes of coins on which the call on one drafted block is constant."""
    boxes: list[tuple[coins.Box, Tokens]] = []
    call = coins.CheckedCoinCall(subject.rule, *block_arguments(model, drafted))
    try:
        coins.bisect_law(
            call,
            subject.coins or len(drafted) + 1,
            bits=subject.coin_bits or 53,
            max_calls=_MAX_COIN_CALLS,
            used=coins.coin_counter(subject.rule),
            each=lambda box, tokens: boxes.append((box, tokens)),
        )
    except (*coins.BISECTION_FAILURES, coins.TooManyCalls) as error:
        raise SimverifyError(f"{subject.name} has changed since the audit: {error}") from None
    return boxes


# What code does in one sampled call: the draws it makes, the branches it takes.
#
# Such code cannot be followed, so it runs on numbers: a generator that records what it hands out,
# and Python's own tracing, which sees the lines of the code's file.


_MAX_VALUE_LENGTH = 60
"""Characters of an argument or a result that are shown."""


class RecordingGenerator(np.random.Generator):
    """The generator of a trial, which notes every draw in ``log``."""

    def __init__(self, bits: np.random.BitGenerator, log: list[str]) -> None:
        super().__init__(bits)
        self.log = log
        self.inside = False


def _recorded_method(name: str) -> Callable[..., Any]:
    method = getattr(np.random.Generator, name)

    @wraps(method)
    def draw(self: RecordingGenerator, *given: Any, **named: Any) -> Any:
        if self.inside:  # numpy's methods call one another
            return method(self, *given, **named)
        self.inside = True
        try:
            result = method(self, *given, **named)
        finally:
            self.inside = False
        words = [short_value(x) for x in given]
        words += [f"{key}={short_value(x)}" for key, x in named.items()]
        where = f" at {line}" if (line := current_user_line()) else ""
        self.log.append(f"draw: {name}({', '.join(words)}) = {short_value(result)}{where}")
        return result

    return draw


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "spawn"):
        setattr(RecordingGenerator, _name, _recorded_method(_name))


def short_value(value: Any) -> str:
    """Return ``value`` on one line, cut where it is long."""
    return short_text(_format_number(value.tolist() if hasattr(value, "tolist") else value))


def short_text(text: str) -> str:
    """Return ``text`` on one line, cut where it is long."""
    text = " ".join(text.split())
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 3]}..."


def _format_number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.17g}"
    if isinstance(value, list | tuple):
        items = (f"{x:.6g}" if isinstance(x, float) else _format_number(x) for x in value)
        return f"[{', '.join(items)}]"
    return repr(value)


def record_branches(rule: Callable[..., Any], log: list[str]) -> AbstractContextManager[None]:
    """Note in ``log`` how each ``if`` and ``while`` of the rule's file goes, if none traces yet."""
    file = inspect.getsourcefile(inspect.unwrap(rule)) if hasattr(rule, "__code__") else None
    tests = {} if file is None else _tests_by_line(file)

    def begin(frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code.co_filename != file:
            return None
        test: _BranchTest | None = None

        def step(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal test
            line = frame.f_lineno
            if test is not None and not (event == "line" and line in test.lines):
                if event != "exception":
                    taken = event == "line" and line in test.body
                    outcome = "true" if taken else "false"
                    log.append(f"branch: {test.text} is {outcome} at {file}:{test.lines[0]}")
                test = None
            if event == "line":
                test = tests.get(line, test)
            return step

        return step

    return trace_calls(None if file is None else begin)


@dataclass(frozen=True)
class _BranchTest:
    """A test in the source: its words, its lines, and those of what it guards."""

    text: str
    lines: range
    body: range


def _tests_by_line(file: str) -> dict[int, _BranchTest]:
    """Return every ``if`` and ``while`` of a file by its first line, but for one-line ones."""
    try:
        source = Path(file).read_text()
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return {}
    tests = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While):
            lines = range(node.lineno, (node.test.end_lineno or node.lineno) + 1)
            body = range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
            if body.start not in lines:
                text = short_text(ast.get_source_segment(source, node.test) or "the test")
                tests[node.lineno] = _BranchTest(text, lines, body)
    return tests


# One trial of the sampled tier, run again: its inputs, draws, decisions and tokens.


TRIAL_REPLAY_SECONDS = 60.0


def replay_trial(
    rule: Callable[..., Any],
    contract: SampledContract,
    failing: FailingTrial,
    *,
    seed: int,
    batch: int | None,
    seconds: float = TRIAL_REPLAY_SECONDS,
) -> str:
    """Run a trial of the sampled tier by its address and tell what happens, as plain text.

    ``rule``, ``contract``, ``seed`` and ``batch`` are those of the run that ``failing`` comes from:
    batched code is called with its whole batch. ``seconds``: limit of the call.
    """
    log, given = list[str](), failing.instance
    instance = SampledInstance(
        InstanceRows(given), given.gamma, eos=given.eos, earlier_calls=given.earlier_calls
    )
    row = failing.trial % batch if batch else None
    runner = TrialRunner(
        _recording_rule(rule, contract, log, row),
        contract,
        instance,
        seed=seed,
        number=failing.number,
        pilot=failing.pilot,
        rows=batch,
        seconds=seconds,
    )
    with seeded_global_generators(seed):
        before = _global_states()
        with record_branches(rule, log):
            emitted: Tokens | None = None
            try:
                emitted = runner.replay(failing.trial)
                ending = f"emits {short_value(emitted)}"
            except ContractMisuse as misuse:
                ending = f"ends: {misuse}"
            except TimeLimitReached:
                ending = "ends: the time limit passed"
        elsewhere = before != _global_states()
    lines = [
        f"{instance.name}: trial {failing.trial}{' of the pilot' if failing.pilot else ''}, "
        f"seed {seed}",
        failing.why,
        *([f"row {row} of a batch of {batch}, which is run whole"] if batch else []),
        "",
        *log,
        ending,
    ]
    if elsewhere:
        lines.append(
            "it draws from the process's own generators too (random, numpy.random or torch), "
            "which went on from trial to trial in the run, and begin anew here"
        )
    if failing.emitted is not None and emitted != failing.emitted:
        lines.append(
            f"in the run it emitted {short_value(failing.emitted)}: the code draws from elsewhere, "
            "or keeps something from earlier calls"
        )
    return "\n".join(lines) + "\n"


def _recording_rule(
    rule: Callable[..., Any], contract: SampledContract, log: list[str], row: int | None
) -> Callable[..., Any]:
    """Return ``rule`` with its inputs and draws noted in ``log``; of a batch those of ``row``."""
    if contract == "verify":

        @wraps(rule)
        def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
            given = (target_probs, draft_probs, draft_tokens)
            p, q, x = given if row is None else (block[row] for block in given)
            log.append(f"draft: {short_value(x)}")
            for name, block in (("p", p), ("q", q)):
                log.extend(f"{name}[{i}] = {short_value(law)}" for i, law in enumerate(block))
            return rule(
                target_probs, draft_probs, draft_tokens, RecordingGenerator(rng.bit_generator, log)
            )

        return verify

    def step_of(step: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> Any:
            def noted(name: str, row: Callable[[Any], Any]) -> Callable[[Any], Any]:
                def give(context: Any) -> Any:
                    law = row(context)
                    after = short_value(tuple(context))
                    log.append(f"{name} after {after} = {short_value(law)}")
                    return law

                return give

            log.append(f"call after {short_value(tuple(prefix))}")
            rows = noted("p", target), noted("q", draft)
            return step(prefix, *rows, gamma, RecordingGenerator(rng.bit_generator, log))

        return recorded

    if takes_step_arguments(rule):
        return step_of(rule)

    class Recorded:
        def __init__(self) -> None:
            inner = rule()
            self.step = step_of(inner.step)
            if hasattr(inner, "reset"):
                self.reset = inner.reset

    return Recorded


def _global_states() -> list[Any]:
    torch = sys.modules.get("torch")
    states = [random.getstate(), str(np.random.get_state())]  # noqa: NPY002
    return states + ([torch.get_rng_state().tolist()] if torch else [])
