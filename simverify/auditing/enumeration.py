"""The exact law of what a verifier emits: one call, step by step, a whole generation.

A step rule's paths multiply from call to call, although what a call does depends on nothing
but the tokens before it and on the state that the code carries. So each call is enumerated once for
each pair of the two (a :class:`CallNode`), and the laws are composed. To run a call from a node,
the paths of one history that led there are run again, up to the call: nothing is restored,
so code that hides state carries it here too.

Which nodes are run: those that begin within the first tokens of the output; after each number
of tokens that the first call can emit a second call, and after each number that this one can
emit a third; as many as are affordable. For code whose state is that of the start these calls look
for something hidden, which no instance shows better than the core: elsewhere one call after the
longest is made, if it takes few paths. Beyond them a node with the state of the start is completed
with the target's law, as the call of a rule without state is (Sun et al. 2025, Lemma 2); of any
other one only that it is reached is known.
"""

import inspect
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from simverify.arrays import Row
from simverify.auditing.coverage import call_monitored
from simverify.symbolic import Enumeration, ExactLaw, Finding, Float64Promotion
from simverify.symbolic.engine import EDGE_PROBABILITY, Budget, Spending
from simverify.symbolic.hidden_state import HiddenState, NeverEqual
from simverify.symbolic.outcomes import InvalidTokens, Tokens
from simverify.symbolic.paths import Choice
from simverify.symbolic.provenance import (
    UNTRACKED_RANDOMNESS,
    Severity,
    StandInsChanged,
    UntrackedRandomness,
    keep_most_severe,
)
from simverify.symbolic.scalar import Draw
from simverify.symbolic.streams import DrawSequences

DEFAULT_BUDGET = Budget(200_000, 60.0)


def enumerate_verify(
    verify: Callable[..., Any],
    target_probs: npt.ArrayLike,
    draft_probs: npt.ArrayLike,
    draft_tokens: npt.ArrayLike,
    *,
    budget: Budget = DEFAULT_BUDGET,
    prune: float = 1e-12,
) -> ExactLaw:
    """Exact law of the tokens that ``verify`` emits for one drafted block.

    ``verify(target_probs, draft_probs, draft_tokens, rng) -> tokens`` gets float64 (gamma+1, V),
    float64 (gamma, V) and int (gamma,) as they are given. ``prune``: conditional weight under
    which a branch is not run. Raises :class:`CannotEnumerate` for a draw that is used in a way
    that cannot be followed; it says which and where. Raises :class:`TooManyPaths` or
    :class:`OutOfTime` where the budget ends first.
    """
    target, draft = (np.array(x, dtype=np.float64) for x in (target_probs, draft_probs))
    tokens = np.array(draft_tokens, dtype=np.int64)
    gamma = tokens.shape[0] if tokens.ndim == 1 else -1
    if gamma < 1 or target.ndim != 2 or target.shape[0] != gamma + 1:
        raise ValueError(
            f"draft_tokens {tokens.shape} and target_probs {target.shape}: pass (gamma,) with "
            "gamma at least 1 and (gamma+1, V)"
        )
    expected = gamma, target.shape[1]
    if draft.shape != expected:
        raise ValueError(f"draft_probs has shape {draft.shape}: pass (gamma, V) = {expected}")
    if tokens.min() < 0 or tokens.max() >= target.shape[1]:
        raise ValueError(f"draft_tokens {tokens.tolist()}: pass ids in 0..{target.shape[1] - 1}")
    with Enumeration(verify, prune=prune) as enumeration:
        return enumerate_block(enumeration, verify, target, draft, tokens, budget)


class TargetAndDraft(Protocol):
    """A target and a draft: ``target(prefix)`` and ``draft(prefix)`` return rows (V,)."""

    def target(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the target after ``prefix``."""

    def draft(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the draft after ``prefix``."""


def block_arguments(
    model: TargetAndDraft, drafted: Tokens, prompt: Tokens = ()
) -> tuple[Row, Row, npt.NDArray[np.int64]]:
    """Return target rows (gamma+1, V), draft rows (gamma, V) and ids (gamma,) of a block."""
    prefixes = [prompt + drafted[:i] for i in range(len(drafted) + 1)]
    return (
        np.array([model.target(prefix) for prefix in prefixes]),
        np.array([model.draft(prefix) for prefix in prefixes[:-1]]),
        np.array(drafted, dtype=np.int64),
    )


def enumerate_block(
    enumeration: Enumeration,
    verify: Callable[..., Any],
    target_probs: Row,
    draft_probs: Row,
    draft_tokens: npt.NDArray[np.int64],
    budget: Budget = DEFAULT_BUDGET,
) -> ExactLaw:
    """As :func:`enumerate_verify`, inside an enumeration that is already set up."""
    drafted = tuple(int(x) for x in draft_tokens)

    def wrong(tokens: Tokens) -> str:
        if tokens[:-1] == drafted[: len(tokens) - 1]:
            return ""
        return (
            f"returned {tokens} for the draft {drafted}: all but the last token must be an "
            "accepted prefix of the draft"
        )

    given = {"target_probs": target_probs, "draft_probs": draft_probs, "draft_tokens": draft_tokens}
    call = make_checked_call(enumeration, verify, given, len(drafted), wrong)
    return enumeration.run(call, budget)


def make_checked_call(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    arguments: dict[str, npt.NDArray[Any]],
    gamma: int,
    wrong: Callable[[Tokens], str],
) -> Callable[[], Tokens]:
    """Return what calls ``rule`` on copies of ``arguments`` and checks what it does and returns.

    ``wrong(tokens)``: why what was accepted is no part of the draft, or "".
    """
    vocab = arguments["target_probs"].shape[1]
    given, find = [x.copy() for x in arguments.values()], enumeration.source.find
    images = [x.tobytes() for x in arguments.values()]

    def call() -> Tokens:
        try:
            tokens = read_tokens(call_monitored(rule, *given, enumeration.rng))
        finally:
            for i, (name, original) in enumerate(arguments.items()):
                if given[i].shape != original.shape or given[i].tobytes() != images[i]:
                    find("inputs-modified", "violation", f"changes its argument {name} in place")
                    given[i] = original.copy()
        if len(tokens) > gamma + 1:
            text = f"returned {len(tokens)} tokens, gamma + 1 = {gamma + 1}"
            raise InvalidTokens("too-many", text)
        check_token_ids(tokens, vocab)
        if why := wrong(tokens):
            find("not-a-prefix", "violation", why)
        return tokens

    return call


def monitored_reset(instance: Any) -> Callable[[], Any] | None:
    """Return the reset of a step rule, if it has one, in sight of who watches."""
    reset = getattr(instance, "reset", None)
    return None if reset is None else partial(call_monitored, reset)


def accepts_arguments(signature: inspect.Signature, count: int) -> bool:
    """Whether what has ``signature`` can be called with ``count`` arguments."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _takes_arguments(name: str, count: int, call: str, rule: Callable[..., Any]) -> bool:
    """Tell a function from a class or factory of objects; ``ValueError`` for what is neither."""
    if not callable(rule):
        raise ValueError(
            f"{name} is a function, class or factory, got {type(rule).__name__}: an instance "
            "cannot be built anew for every path"
        )
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return not inspect.isclass(rule)
    if accepts_arguments(signature, count) and not inspect.isclass(rule):
        return True
    if not accepts_arguments(signature, 0):
        raise ValueError(f"{signature} is neither {call} nor a class or factory without arguments")
    return False


takes_step_arguments = partial(
    _takes_arguments, "a step rule", 5, "step(prefix, target, draft, gamma, rng)"
)
takes_tree_arguments = partial(
    _takes_arguments, "a tree rule", 5, "tree(target_probs, draft_probs, tokens, parents, rng)"
)
takes_draft_arguments = partial(
    _takes_arguments, "a drafter", 4, "draft(prefix, draft_row, k, rng)"
)


def read_tokens(result: Any) -> Tokens:
    """Read what the code returned; :class:`InvalidTokens` if it is not a row of integers."""
    if result is None:
        raise InvalidTokens("no-tokens", "returned None: return the list of token ids it emits")
    raw = result.tolist() if hasattr(result, "tolist") else result
    # A generator can be read only once, and a set has no order.
    row = hasattr(raw, "__len__") and hasattr(raw, "__getitem__")
    if isinstance(raw, str | bytes | dict) or not row:
        kind = type(result).__name__
        article = "an" if kind[:1].lower() in "aeiou" else "a"
        raise InvalidTokens(
            "shape", f"returned {article} {kind}, expected a list, array or tensor of integers"
        )
    tokens = tuple(_read_token(x) for x in raw)
    if not tokens:
        raise InvalidTokens("empty", "returned no tokens: at least one is due")
    return tokens


def _read_token(x: Any) -> int:
    if type(x) is int:
        return x
    if isinstance(x, int | np.integer) and not isinstance(x, bool):
        return int(x)
    if isinstance(x, Draw):
        x.source.refuse("a draw returned as a token")
    if isinstance(x, list | tuple) or getattr(x, "ndim", 0) > 0:
        raise InvalidTokens("shape", "returned nested rows: one row of tokens is due")
    if not isinstance(x, bool | np.bool_) and "float" not in str(getattr(x, "dtype", "")):
        try:
            return operator.index(x)
        except TypeError:
            pass
    raise InvalidTokens("not-integers", f"returned a {type(x).__name__} as a token")


def check_token_ids(tokens: Tokens, vocab: int) -> None:
    """Raise :class:`InvalidTokens` for an id outside the vocabulary."""
    for token in tokens:
        if not 0 <= token < vocab:
            text = f"returned token {token}, vocabulary 0..{vocab - 1}"
            raise InvalidTokens("out-of-range", text)


# One generation as a decoding loop makes it: calls, end of sequence, reset.


def decode_generation(
    more: Callable[[Tokens], Tokens],
    reset: Callable[[], object] | None,
    *,
    length: int,
    prefix: Tokens = (),
    eos: int | None = None,
    earlier_calls: int = 0,
) -> Tokens:
    """Return the tokens of a generation after ``prefix``: ``length`` or more, or up to ``eos``.

    ``more`` calls the rule after the tokens it is given and returns the checked new ones. Tokens
    after ``eos`` are dropped. ``earlier_calls``: up to so many calls of another generation come
    first, fewer if that meets ``eos``. The rule is reset before each generation.
    """

    def run(enough: Callable[[int, int], bool]) -> Tokens:
        if reset is not None:
            reset()
        new: Tokens = ()
        calls = 0
        while not enough(len(new), calls):
            new += cut_at_eos(more(prefix + new), eos)
            calls += 1
            if eos in new:
                break
        return new

    if earlier_calls:
        run(lambda _, calls: calls == earlier_calls)
    return run(lambda tokens, _: tokens >= length)


def cut_at_eos(tokens: Tokens, eos: int | None) -> Tokens:
    """Return ``tokens`` up to the first ``eos``, which is kept."""
    return tokens[: tokens.index(eos) + 1] if eos is not None and eos in tokens else tokens


def eos_absorbing(row: Callable[[Sequence[int]], Row], eos: int | None) -> Callable[[Tokens], Row]:
    """Return the law of generations that are filled up with ``eos`` once it has come."""

    def after(prefix: Tokens) -> Row:
        law = row(prefix)
        return np.eye(len(law))[eos] if eos is not None and eos in prefix else law

    return after


# A generation as a chain of calls. Calls that begin alike have one law; the law of a generation is
# composed of these.


@dataclass(frozen=True)
class GenerationState:
    """How far a generation is: its tokens, and its calls if it is an earlier one (else None)."""

    tokens: Tokens
    earlier: int | None


@dataclass(frozen=True)
class Generation:
    """What is generated after ``prompt``, call by call: ``length`` tokens or more, or to ``eos``.

    Calls, end of sequence and an earlier generation are as in :func:`decode_generation`.
    """

    target: Callable[[Tokens], Row]
    draft: Callable[[Tokens], Row]
    gamma: int
    length: int
    prompt: Tokens = ()
    earlier_calls: int = 0
    eos: int | None = None

    def __post_init__(self) -> None:
        if min(self.length, self.gamma) < 1:
            given = f"length={self.length}, gamma={self.gamma}"
            raise ValueError(f"{given}: both must be at least 1")

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return len(self.target(self.prompt))

    def first(self) -> GenerationState:
        """Where it begins."""
        return GenerationState((), 0 if self.earlier_calls else None)

    def next(self, place: GenerationState, new: Tokens) -> GenerationState:
        """Where it is after a call that emitted ``new``."""
        tokens = place.tokens + new
        if place.earlier is None:
            return GenerationState(tokens, None)
        over = place.earlier + 1 == self.earlier_calls or self.eos in tokens
        return GenerationState((), None) if over else GenerationState(tokens, place.earlier + 1)

    def has_ended(self, place: GenerationState) -> bool:
        """Whether end of sequence has come."""
        return place.earlier is None and self.eos is not None and self.eos in place.tokens


class GenerationRun:
    """One generation by a rule, built anew: ``instance`` is its object, None for a function.

    ``at``: where it begins, as after a longer prompt. ``sequences`` learn when the rule is built.
    """

    def __init__(
        self,
        generation: Generation,
        rule: Callable[..., Any],
        rng: Any,
        *,
        is_step: bool,
        sequences: DrawSequences,
        at: GenerationState | None = None,
    ) -> None:
        self._generation, self._rng = generation, rng
        self._vocab = generation.vocab_size
        self.instance = None if is_step else call_monitored(rule)
        self._step = rule if self.instance is None else self.instance.step
        self.place = at or generation.first()
        self._reset()
        sequences.is_built()

    def call(self) -> Tokens:
        """Make the next call; return what counts of its tokens."""
        g, place = self._generation, self.place
        prefix = g.prompt + place.tokens
        result = call_monitored(self._step, prefix, g.target, g.draft, g.gamma, self._rng)
        tokens = read_tokens(result)
        check_token_ids(tokens, self._vocab)
        new = cut_at_eos(tokens, g.eos)
        self.place = g.next(place, new)
        if place.earlier is not None and self.place.earlier is None:
            self._reset()
        return new

    def run_calls(self, calls: int) -> Tokens:
        """Make up to so many calls; return what they emit together."""
        tokens: Tokens = ()
        for _ in range(calls):
            if self._generation.has_ended(self.place):
                break
            tokens += self.call()
        return tokens

    def finish(self) -> Tokens:
        """Make all calls; return the first tokens of the output, as many as are asked for."""
        g = self._generation
        while self.place.earlier is not None or not (
            g.has_ended(self.place) or len(self.place.tokens) >= g.length
        ):
            self.call()
        return self.place.tokens[: g.length]

    def _reset(self) -> None:
        if (reset := monitored_reset(self.instance)) is not None:
            reset()


@dataclass(frozen=True)
class ExtraCalls:
    """Calls beyond the first tokens of an output, which look for hidden state.

    Code whose state is that of the start needs no others. ``every_way``: a call after each way in
    which the calls before can end; otherwise one, after the most tokens. Calls are made while the
    instance stays within ``within`` paths; ``due``: one is made in any case. Without any, no call
    is repeated after another history.
    """

    every_way: bool = True
    within: int = 1_000
    due: bool = True


ALL_EXTRA_CALLS = ExtraCalls()
NO_EXTRA_CALLS = ExtraCalls(every_way=False, within=0, due=False)


class History(NamedTuple):
    """A history: ``calls`` with these ``choices``, from ``begin``, where the rule is built."""

    begin: GenerationState
    calls: int = 0
    choices: tuple[Choice, ...] = ()


@dataclass
class CallNode:
    """Calls that begin alike: at one place, with the same hidden state.

    ``ways``: one or two histories that lead there. ``law``: that of the next call, enumerated after
    the history ``run``; None until then.
    """

    place: GenerationState
    image: Hashable
    ways: list[History]
    run: History | None = None
    law: ExactLaw | None = None

    @property
    def order(self) -> tuple[bool, int, int]:
        """What comes before what: a call leads to nodes of higher order alone."""
        return self.place.earlier is None, self.place.earlier or 0, len(self.place.tokens)


@dataclass(frozen=True)
class ComposedLaw:
    """The law of the first tokens of a generation, in sequences of different lengths.

    ``probabilities``: of sequences that the target completes; ``open``: of sequences after which
    nothing is known. ``accepted``: E[tau] of the first call; None where an end of sequence may have
    cut it. Other fields as in :class:`ExactLaw`.
    """

    probabilities: dict[Tokens, float]
    open: dict[Tokens, float]
    paths: int
    pruned: float
    lost: float
    findings: tuple[Finding, ...]
    complete: bool
    dtypes: Mapping[str, str]
    accepted: float | None = None


def compose_laws(
    nodes: Mapping[tuple[GenerationState, Hashable], CallNode],
    generation: Generation,
    start: Hashable,
) -> ComposedLaw:
    """Compose the laws of the calls run; ``start``: the image of what is kept at first."""
    mass = {(generation.first(), start): 1.0}
    ends: dict[Tokens, float] = {}
    unknown: dict[Tokens, float] = {}
    lost_by: dict[str, float] = {}
    findings: dict[str, Finding] = {}
    laws = []
    for key, node in sorted(nodes.items(), key=lambda item: item[1].order):
        weight = mass.get(key, 0.0)
        if node.law is None:
            known = generation.has_ended(node.place) or node.image == start
            where = ends if known else unknown
            # Tokens of an earlier generation do not belong to the output.
            tokens = node.place.tokens if node.place.earlier is None else ()
            where[tokens] = where.get(tokens, 0.0) + weight
            continue
        laws.append((weight, node.law))
        for end in node.law.ends:
            after = generation.next(node.place, end.tokens), end.mark
            mass[after] = mass.get(after, 0.0) + weight * end.weight
        for kind, share in node.law.lost_by:
            lost_by[kind] = lost_by.get(kind, 0.0) + weight * share
        for finding in node.law.findings:
            keep_most_severe(findings, finding)
    for kind, share in lost_by.items():
        grave: Severity = "violation" if share > EDGE_PROBABILITY else "warning"
        findings[kind] = replace(findings[kind], severity=grave)
    first = nodes[generation.first(), start].law
    return ComposedLaw(
        ends,
        unknown,
        sum(law.paths for _, law in laws),
        pruned=sum(here * law.pruned for here, law in laws),
        lost=sum(here * law.lost for here, law in laws),
        findings=tuple(findings.values()),
        complete=all(law.complete for _, law in laws),
        dtypes={name: line for _, law in laws for name, line in law.dtypes.items()},
        accepted=None
        if generation.eos is not None or first is None
        else sum(weight * (len(tokens) - 1) for tokens, weight in first.probabilities.items()),
    )


# Step rules in the exact tier: the law of the first tokens that one emits, call after call.


class StepEnumeration(Enumeration):
    """Follows a step rule, which may seed itself once, when it is built.

    ``is_step``: whether the rule is a function and not a factory. ``composes``: whether its calls
    may be composed; false once the composed law differed from the enumerated one. ``checked``: the
    paths that this comparison has run.
    """

    def __init__(
        self, rule: Callable[..., Any], *, leaves: int = 0, lift: Float64Promotion | None = None
    ) -> None:
        self.is_step = takes_step_arguments(rule)
        self.composes = True
        self.checked = 0
        super().__init__(rule, seed_once=True, leaves=leaves, lift=lift)


def enumerate_tokens(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    generation: Generation,
    budget: Budget = DEFAULT_BUDGET,
) -> ExactLaw:
    """Exact law of the first tokens that a step rule emits, with every path of all calls.

    ``rule`` is a function ``step(prefix, target, draft, gamma, rng)``, or a class or factory
    without arguments whose instance has ``step`` and, if it keeps state, ``reset``; it is
    built anew for every path. A generation that ``eos`` ends sooner is shorter.
    Raises as :func:`enumerate_verify`, and ``ValueError`` if ``rule`` is neither.
    """
    is_step, sequences = takes_step_arguments(rule), enumeration.source.sequences

    def call() -> Tokens:
        rng = enumeration.rng
        return GenerationRun(generation, rule, rng, is_step=is_step, sequences=sequences).finish()

    return enumeration.run(call, budget)


SECOND_CALL_PATHS = 1_000
"""Second calls without hidden state are run while the instance stays within so many paths."""

SEPARATE_HISTORY_PATHS = 3_000
"""The same where each history is followed for itself."""

THIRD_CALL_PATHS = 400
"""The same for third calls after the first."""

MAX_ROUNDING = 1e-12
"""Largest difference of two laws of one call that is rounding."""

_CALL_PATH_DIVISOR = 8
"""Where paths have no end, a call gets this part of them all."""

_MAX_CHECKED_PATHS = 64
"""Calls of up to so many paths are repeated after another history."""


class NotComposable(Exception):
    """Calls of this code cannot be composed; says why."""


def compose_generation(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    budget: Budget,
    *,
    merges: bool = True,
    beyond: ExtraCalls = ALL_EXTRA_CALLS,
) -> ComposedLaw:
    """Return the law of a generation by ``rule``, of ``generation.length`` tokens or more.

    ``merges``: calls that begin alike are enumerated once; otherwise each history separately.
    ``beyond``: the calls beyond the first tokens where no state is hidden. Raises as the exact tier
    does, and :class:`NotComposable` where hidden state differs at the start of paths, or where two
    histories with one image have two laws.
    """
    clock = Spending(budget)
    while True:
        spending = Spending(clock.remaining_time())
        run = _Composition(enumeration, rule, generation, spending, merges, beyond)
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
    spending: Spending
    merges: bool
    beyond: ExtraCalls
    nodes: dict[tuple[GenerationState, Hashable], CallNode] = field(default_factory=dict)
    dearest: int = 0
    complete: bool = True
    is_mixed: bool = False

    def law(self) -> ComposedLaw:
        self._interception = -1
        self._drifts = ""
        # Code that raises while it is built keeps nothing.
        self._start: Hashable = None
        self._image: Hashable = None
        first = self.generation.first()
        root = CallNode(first, None, [History(first)])
        self._run(root)
        root.image = self._start
        self.nodes[root.place, root.image] = root
        self._run_all(lambda node: self._is_first(node) and node.image != self._start)
        # Calls that can be left out stay within these paths.
        within = SECOND_CALL_PATHS if self.merges else SEPARATE_HISTORY_PATHS
        seconds = self._run_after(root, within, due=self.beyond.due, wanted=True)
        self._run_all(lambda node: self._is_first(node) and self._fits(within), anew=True)
        for second in seconds:
            self._run_after(second, THIRD_CALL_PATHS, due=False, wanted=self.beyond.every_way)
        self._check_history()
        law = compose_laws(self.nodes, self.generation, self._start)
        return replace(law, paths=self.spending.paths)

    def _run_all(self, wanted: Callable[[CallNode], bool], *, anew: bool = False) -> None:
        """Run all calls that are ``wanted``, and those that they lead to.

        ``anew``: a rule without hidden state is built for the call, as if the tokens before were
        its prompt: that spares the calls of a history.
        """
        while waiting := [
            node
            for node in self.nodes.values()
            if node.law is None and self._goes_on(node.place) and wanted(node)
        ]:
            node = min(waiting, key=lambda node: (node.order, node.place.tokens))
            alike = anew and node.image == self._start and node.place.tokens
            self._run(node, History(node.place) if alike else None)

    def _is_first(self, node: CallNode) -> bool:
        """Whether it begins within the first tokens."""
        return node.place.earlier is not None or len(node.place.tokens) < self.generation.length

    def _goes_on(self, place: GenerationState) -> bool:
        return self.complete and not self.is_mixed and not self.generation.has_ended(place)

    def _fits(self, within: int) -> bool:
        """Whether one more call like the dearest so far stays within so many paths."""
        return self.spending.paths + self.dearest <= within

    def _run_after(self, node: CallNode, within: int, *, due: bool, wanted: bool) -> list[CallNode]:
        """Run the likeliest call after each number of tokens that the call of ``node`` emits.

        The most tokens first, then the fewest. With hidden state all calls are run that emit the
        same tokens. ``due``: one is run in any case. ``wanted``: more are, if they fit. Returns
        those without hidden state.
        """
        plain: list[CallNode] = []
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
                plain.append(after)
        return plain

    def _continues(self, tokens: Tokens, within: int, node: CallNode) -> bool:
        """Whether a call emits what may follow ``tokens``, up to one full call and one more."""
        prefix = node.place.tokens
        common = min(len(prefix), len(tokens))
        near = len(prefix) <= len(tokens) + self.generation.gamma + 1
        alike = prefix[:common] == tokens[:common] and node.place.earlier is None
        return near and alike and node.image != self._start and self._fits(within)

    def _run(self, node: CallNode, way: History | None = None) -> None:
        """Enumerate the call of ``node`` after a history, and note where it leads to."""
        if node.law is not None:
            return
        node.run = way = way or node.ways[0]
        node.law = self._enumerate(node.place, way)
        self.dearest = max(self.dearest, node.law.paths)
        self.complete = self.complete and node.law.complete
        for end in node.law.ends:
            key = self.generation.next(node.place, end.tokens), end.mark
            after = self.nodes.setdefault(key, CallNode(*key, []))
            ways = [History(way.begin, way.calls + 1, choices) for choices in end.ways]
            after.ways = [*after.ways, *ways][:2]

    def _enumerate(self, at: GenerationState, way: History) -> ExactLaw:
        def run(left: Budget) -> ExactLaw:
            if left.enough is not None:
                most = self.spending.budget.paths // _CALL_PATH_DIVISOR
                left = replace(left, paths=min(left.paths, most))
            call = self._call(at, way)
            return self.enumeration.run(call, left, since=way.choices, mark=lambda: self._image)

        law = self.spending.take(run)
        if self._drifts:
            raise NotComposable(self._drifts)
        return law

    def _call(self, at: GenerationState, way: History) -> Callable[[], Tokens]:
        """Return what makes the calls of a history, and then the one ``at`` a place."""
        enumeration, source = self.enumeration, self.enumeration.source

        def call() -> Tokens:
            looks = enumeration.intercepting and source.plan is None
            given = self.generation, self.rule, enumeration.rng
            is_step, sequences = enumeration.is_step, source.sequences
            run = GenerationRun(*given, is_step=is_step, at=way.begin, sequences=sequences)
            if not enumeration.intercepting and source.plan is None:
                # With random numbers the history differs, so make the same number of calls.
                return run.run_calls(way.calls + 1)
            if looks:
                self._begin(run.instance)
            for _ in range(way.calls):
                run.call()
            if run.place != at:
                text = f"{UNTRACKED_RANDOMNESS}: a repeated path went elsewhere"
                source.refuse(text, UntrackedRandomness)
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
            self._kept = HiddenState(self.rule, self.enumeration.rng)
            self._start = self._kept.image(instance)
            self._drifts = self._kept.reason
        elif instance is not None and self._kept.image(instance) != self._start:
            self._drifts = "what the code keeps differs from path to path"

    def _end(self, instance: Any) -> None:
        if not self.merges:
            self._image = NeverEqual()
            return
        self._image = self._kept.image(instance, known=not self.enumeration.source.remembers())
        if instance is None and self._image != self._start:
            # The state would still be there when the next path begins.
            self._drifts = "a function keeps something from call to call"

    def _check_history(self) -> None:
        """Run one call again after another history; code that hides nothing has the same law."""
        checked = [
            (node, way)
            for node in self.nodes.values()
            for way in node.ways
            if node.law is not None and node.law.paths <= _MAX_CHECKED_PATHS and way != node.run
        ]
        if not checked or not self.beyond.within or self.is_mixed or not self.complete:
            return
        # The longest history is the likeliest to hide something.
        node, way = max(checked, key=lambda pair: (pair[1].calls, pair[0].place.tokens))
        again = self._enumerate(node.place, way)
        assert node.law is not None
        one, other = (
            {(end.tokens, end.mark): end.weight for end in law.ends} for law in (node.law, again)
        )
        if _differ(one, other):
            raise NotComposable("two histories that look the same lead to two distributions")


# The law of a generation: composed of calls, and checked against one that is not.


_CHECKED_LENGTH = 4
_CHECKED_PATHS = 100
"""On the smallest instances so many tokens are also enumerated without composing, until that has
taken so many paths."""


def enumerate_generation(
    enumeration: StepEnumeration,
    rule: Callable[..., Any],
    generation: Generation,
    budget: Budget,
    *,
    beyond: ExtraCalls = ALL_EXTRA_CALLS,
) -> ComposedLaw:
    """Return the law of a generation; calls that begin alike are enumerated once if that is safe.

    On the smallest instances the law is also enumerated without composing: hidden state makes the
    two differ, and then each history is enumerated separately. ``beyond``: see
    :func:`compose_generation`. Raises as the exact tier does.
    """
    clock = Spending(budget)
    if enumeration.composes:
        try:
            law = compose_generation(enumeration, rule, generation, budget, beyond=beyond)
            g = generation
            tiny = enumerated_length(g.vocab_size, g.gamma, g.earlier_calls, 0) > 0
            if budget.enough is None and tiny and enumeration.checked < _CHECKED_PATHS:
                # The law of a few calls made one after the other must be the composed one.
                longer, left = replace(g, length=_CHECKED_LENGTH), clock.remaining_time()
                composed = compose_generation(enumeration, rule, longer, left)
                plain = enumerate_tokens(enumeration, rule, longer, left)
                enumeration.checked += plain.paths
                if _differ(_truncate_law(composed), _truncate_law(plain)):
                    raise NotComposable(
                        "composed, the calls have another distribution than in a row"
                    )
        except NotComposable:
            enumeration.composes = False
        else:
            return law
    left = replace(clock.remaining_time(), enough=None)
    return compose_generation(enumeration, rule, generation, left, merges=False)


def enumerated_length(vocab_size: int, gamma: int, earlier_calls: int, length: int) -> int:
    """Return to how many tokens a generation may be followed for its law of ``length`` tokens."""
    tiny = vocab_size == 2 and gamma == 1 and not earlier_calls
    return max(length, _CHECKED_LENGTH) if tiny else length


def _differ(one: Mapping[Any, float], other: Mapping[Any, float]) -> bool:
    """Whether two laws of the same calls differ by more than rounding."""
    return any(abs(one.get(x, 0.0) - other.get(x, 0.0)) > MAX_ROUNDING for x in {*one, *other})


def _truncate_law(law: ComposedLaw | ExactLaw) -> dict[Tokens, float]:
    """Return the law of the first tokens."""
    cut: dict[Tokens, float] = {}
    for tokens, mass in (*law.probabilities.items(), *law.open.items()):
        first = tokens[:_CHECKED_LENGTH]
        cut[first] = cut.get(first, 0.0) + mass
    return cut
