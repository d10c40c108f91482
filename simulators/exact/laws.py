"""Exact laws of rules on Markov models: one call, many calls, acceptance curves.

A call's law depends on the last token and on the state that the rule carries, no more. It is known
in two ways: by running the rule on every path, and from its tree law.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.models.base import MarkovModel
from simverify.symbolic.paths import ForkedGenerator, Path, explore
from simverify.verifiers.base import Verifier, cap_ratio
from simverify.verifiers.greedy import Stack, carry, target_levels

# The rows of a Markov pair as arrays indexed by the last token, rounded or rational.


Array = npt.NDArray[Any]  # float64, or object arrays of :class:`fractions.Fraction`
START = -1  # the "last token" of the empty prefix: it indexes the start row, which stands last


@dataclass(frozen=True, eq=False)
class Rows:
    """``target`` and ``draft``: (V+1, V), the row after each token, the start row last."""

    target: Array
    draft: Array

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.target.shape[1])


@lru_cache(maxsize=8)
def markov_rows(model: MarkovModel) -> Rows:
    """Rows of ``model``: object arrays of Fractions where it is defined by fractions."""
    source: Any = model.rational or model
    after = np.arange(model.vocab_size) % model.states
    kind = object if model.rational else np.float64

    def stack(rows: Any, start: Any) -> Array:
        return np.vstack([np.array(rows, dtype=kind)[after], np.array(start, dtype=kind)])

    return Rows(
        stack(source.target_rows, source.target_start),
        stack(source.draft_rows, source.draft_start),
    )


Emission = tuple[tuple[int, ...], Stack]
"""The emitted tokens, and the state carried on, its ends counted from the call's end."""

CallState = tuple[int, Stack]
"""What a call's law depends on: the last token (START: none) and the carried state."""

CallLaw = dict[Emission, Any]
CallLaws = Callable[[int, Stack, int], CallLaw]
"""The law of a call after a last token (START: none), with a carried state, with room for so
many tokens. Tokens beyond the room may be cut off, and the state after a cut call is void."""


MAX_DENOMINATOR_BITS = 10_000
"""Some 3,000 digits: Python prints no more than 4,300, and nobody reads them."""


class TooManyCalls(Exception):
    """The generation has more distinct calls than the budget allows."""


def laws_by_paths(verifier: Verifier, rows: Rows, gamma: int) -> CallLaws:
    """Call laws found by running the readable rule on every path of its own choices."""

    def run_verify(path: Path, last: int, _stack: Stack) -> Emission:
        coins = ForkedGenerator(path)
        seen = [last]
        for _ in range(gamma):
            seen.append(coins.choice(rows.vocab_size, rows.draft[seen[-1]]))
        emitted = verifier.rule(rows.target[seen], rows.draft[seen[:-1]], seen[1:], coins)
        return tuple(emitted), ()

    def run_step(path: Path, last: int, stack: Stack) -> Emission:
        rule = verifier.rule()
        rule.stack = stack
        target, draft = (
            lambda prefix, table=table: table[(last, *prefix)[-1]]
            for table in (rows.target, rows.draft)
        )
        emitted = tuple(rule.step((), target, draft, gamma, ForkedGenerator(path)))
        return emitted, tuple((end - len(emitted), r) for end, r in rule.stack)

    run = run_verify if verifier.contract == "verify" else run_step

    @cache
    def law(last: int, stack: Stack) -> CallLaw:
        total: CallLaw = {}
        for emission, weight in explore(lambda path: run(path, last, stack)):
            total[emission] = total.get(emission, 0) + weight
        return total

    return lambda last, stack, _room: law(last, stack)


def laws_by_tree(verifier: Verifier, rows: Rows, gamma: int) -> CallLaws:
    """Call laws from the rule's tree law, against the target modified by the carried state."""

    @cache
    def law(last: int, stack: Stack, room: int) -> CallLaw:
        total: CallLaw = {}

        def descend(tokens: tuple[int, ...], m: Any, b: Any, f: Any, w: Any, debt: Stack) -> None:
            at = len(tokens)
            if at == room:
                total[tokens, ()] = total.get((tokens, ()), 0) + f
                return
            p, q = rows.target[(last, *tokens)[-1]], rows.draft[(last, *tokens)[-1]]
            if at == gamma:
                bonus = p if verifier.bonus is None else verifier.bonus(p[None])[0]
                for y in map(int, np.flatnonzero(bonus)):
                    total[(*tokens, y), ()] = f * bonus[y]
                return
            levels = target_levels(p, q, debt, at)
            row = levels[-1]
            joints = (np.array([[m]]), np.array([[b]]), np.array([[f]]))
            step = verifier.tree_step(*joints, row[None], q[None])
            children, exits = step[0][0], step[1][0]
            for y in map(int, np.flatnonzero(exits)):
                after = carry(debt, levels, q, y, at)
                if verifier.contract == "step" and at <= gamma - 2 and q[y] > 0:
                    after = (*after, (gamma, cap_ratio(w * cap_ratio(row[y] / q[y]))))
                ends = tuple((end - at - 1, r) for end, r in after)
                total[(*tokens, y), ends] = exits[y]
            for x in map(int, np.flatnonzero(children)):
                debt_after = carry(debt, levels, q, x, at)
                # b/m, but a quotient of joints that underflow would be no number.
                weight = cap_ratio(w * cap_ratio(row[x] / q[x]))
                descend((*tokens, x), m * q[x], b * row[x], children[x], weight, debt_after)

        descend((), 1, 1, 1, 1, stack)
        return total

    return law


def tokens_after_calls(
    laws: CallLaws, gamma: int, calls: int, *, eos: int | None = None, max_laws: int = 50
) -> list[Any]:
    """Expected tokens after 1..``calls`` calls from the empty prefix, exactly.

    A generation ends with token ``eos``. Fractions grow by a call's denominators with every
    call; beyond ``MAX_DENOMINATOR_BITS`` they become floats. Raises :class:`TooManyCalls`
    when more than ``max_laws`` distinct (last token, state) pairs begin a call.
    """
    transitions = _state_transitions(laws, gamma, calls, eos, max_laws)
    # expected[s]: tokens of the next n calls from s. States without an entry are not reached.
    expected: dict[CallState, Any] = {}
    totals = []
    for _ in range(calls):
        expected = {
            state: shorten_fraction(
                tokens + sum(weight * expected.get(after, 0) for after, weight in step.items())
            )
            for state, (tokens, step) in transitions.items()
        }
        totals.append(expected[START, ()])
    return totals


def shorten_fraction(value: Any) -> Any:
    """Return a fraction too long to print as a float, and anything else as it is."""
    if isinstance(value, Fraction) and value.denominator.bit_length() > MAX_DENOMINATOR_BITS:
        return float(value)
    return value


def _state_transitions(
    laws: CallLaws, gamma: int, calls: int, eos: int | None, max_laws: int
) -> dict[CallState, tuple[Any, dict[CallState, Any]]]:
    """Return, for each state that begins one of the calls, its tokens and the states after it.

    The tokens are those expected of one call, cut after ``eos``; the probabilities of the states
    leave out generations that have ended.
    """
    transitions: dict[CallState, tuple[Any, dict[CallState, Any]]] = {}
    waiting: set[CallState] = {(START, ())}
    for _ in range(calls):
        if len(transitions) + len(waiting) > max_laws:
            raise TooManyCalls
        left: set[CallState] = set()
        for last, stack in waiting:
            expected: Any = 0
            step: dict[CallState, Any] = {}
            for (tokens, after), weight in laws(last, stack, gamma + 1).items():
                if eos is not None and eos in tokens:
                    expected += weight * (tokens.index(eos) + 1)
                    continue
                expected += weight * len(tokens)
                state = (tokens[-1], after)
                step[state] = step.get(state, 0) + weight
            transitions[last, stack] = expected, step
            left |= step.keys()
        waiting = left - transitions.keys()
        if not waiting:
            break
    return transitions


def first_tokens(laws: CallLaws, length: int, *, max_laws: int = 50) -> dict[tuple[int, ...], Any]:
    """Law of the first ``length`` tokens of a generation: calls until they are out.

    Raises :class:`TooManyCalls` when more than ``max_laws`` distinct calls are needed.
    """
    waiting: dict[tuple[tuple[int, ...], Stack], Any] = {((), ()): 1}
    done: dict[tuple[int, ...], Any] = {}
    met: set[tuple[int, Stack]] = set()
    while waiting:
        (tokens, stack), weight = waiting.popitem()
        last = tokens[-1] if tokens else START
        met.add((last, stack))
        if len(met) > max_laws:
            raise TooManyCalls
        for (emitted, after), share in laws(last, stack, length - len(tokens)).items():
            out = tokens + emitted
            if len(out) >= length:
                key = out[:length]
                done[key] = done.get(key, 0) + weight * share
            else:
                waiting[out, after] = waiting.get((out, after), 0) + weight * share
    return done


# Acceptance curves of the rules whose tree law is linear: token, sample-and-match, argmax.
#
# For these rules Pr(X^l = x^l, tau >= l) is a product over positions of one "kept" mass per
# row, so the mass that reaches each state obeys a linear vector recursion. Rows are float64
# (..., V) and sum to 1; kept masses have their shape.


def token_accepted_mass(target: Floats, draft: Floats) -> Floats:
    """Kept mass min(p, q) of the token rule (Leviathan et al. 2022; Sun et al. 2025, alg. 1)."""
    return np.minimum(target, draft)


def match_accepted_mass(target: Floats, draft: Floats) -> Floats:
    """Kept mass p q of sample-and-match: the target's own sample equals the draft's."""
    return target * draft


def argmax_accepted_mass(target: Floats, draft: Floats) -> Floats:
    """Kept mass at temperature 0: q at the token of the largest p, the lowest id among equals."""
    best = np.argmax(target, axis=-1, keepdims=True)
    mass = np.zeros_like(draft)
    np.put_along_axis(mass, best, np.take_along_axis(draft, best, axis=-1), axis=-1)
    return mass


def linear_curve(kept_start: Floats, kept_rows: Floats, gamma: int) -> Floats:
    """Exact Pr(tau >= l), l = 1..gamma, of a rule with a linear tree law; E[tau] is its sum.

    ``kept_start`` (V,): kept mass of each token after the empty prefix; ``kept_rows`` (S, V): after
    each state, which after a token is ``token % S``. Returns float64 (gamma,) in O(S V + gamma
    S^2). Raises ``ValueError`` for shapes that do not fit, masses that are no sub-probabilities,
    gamma below 1.
    """
    kept_start, kept_rows, gamma = _check_linear_curve(kept_start, kept_rows, gamma)
    states = kept_rows.shape[0]
    mass = _sum_by_state(kept_start[np.newaxis], states)[0]
    step = _sum_by_state(kept_rows, states)
    curve = np.empty(gamma)
    for level in range(gamma):
        curve[level] = mass.sum()
        mass = mass @ step
    return curve


def certain_level_count(
    kept_start: Floats, kept_rows: Floats, draft_start: Floats, draft_rows: Floats, gamma: int
) -> int:
    """Return the last level at which every drafted token is kept: Pr(tau >= l) is 1 exactly.

    Arrays as in :func:`linear_curve`, with the draft's own masses.
    """
    states = draft_rows.shape[0]
    if not np.array_equal(kept_start, draft_start):
        return 0
    reached = np.unique(np.flatnonzero(draft_start) % states)
    for level in range(1, gamma):
        # Row by row: the rows of a large vocabulary are too long to be copied.
        if not all(np.array_equal(kept_rows[s], draft_rows[s]) for s in reached):
            return level
        after = [np.flatnonzero(draft_rows[s]) % states for s in reached]
        grown = np.unique(np.concatenate([reached, *after]))
        if grown.size == reached.size:
            break
        reached = grown
    return gamma


def _sum_by_state(rows: Floats, states: int) -> Floats:
    """Sum the columns of ``rows`` (n, V) over tokens of equal next state: (n, states)."""
    count, vocab_size = rows.shape
    whole = vocab_size - vocab_size % states
    sums: Floats = rows[:, :whole].reshape(count, -1, states).sum(axis=1)
    sums[:, : vocab_size - whole] += rows[:, whole:]
    return sums


def _check_linear_curve(start: Floats, rows: Floats, gamma: int) -> tuple[Floats, Floats, int]:
    start = np.asarray(start, np.float64)
    rows = np.asarray(rows, np.float64)
    if start.ndim != 1 or rows.ndim != 2 or rows.shape[1] != start.shape[0] or not rows.size:
        raise ValueError(
            f"kept_start {start.shape} and kept_rows {rows.shape} do not fit: "
            "pass shapes (V,) and (S, V)"
        )
    if rows.shape[0] > rows.shape[1]:
        raise ValueError(
            f"kept_rows has {rows.shape[0]} states for {rows.shape[1]} tokens: "
            "states are token % S, drop the unreachable rows"
        )
    for name, table in (("kept_start", start[np.newaxis]), ("kept_rows", rows)):
        # Written so that NaN fails too.
        bad = ~((table >= 0).all(axis=1) & (table.sum(axis=1) <= 1 + 1e-9))
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"{name} row {row} sums to {table[row].sum():.9g}, lowest entry "
                f"{table[row].min():.9g}: kept mass lies between 0 and the draft's"
            )
    if gamma < 1:
        raise ValueError(f"gamma is {gamma}: pass a draft length of 1 or more")
    return start, rows, int(gamma)


# A stateless rule's whole law, from its tree law, over every drafted prefix.
#
# For gamma up to 4 the tests find it equal to running the rule itself on every path.


MAX_LEAVES = 20_000  # most drafted blocks V^gamma whose tree is grown; a few seconds with Fractions


@dataclass(frozen=True, eq=False)
class TreeLaw:
    """One call's law. Level l holds V^l prefixes x^l in lexicographic order.

    ``accepted[l]``: (V^l,) Pr(X^l = x^l, tau >= l), l = 0..gamma. ``completed[l]``: (V^l,)
    probability that the call's tokens, completed by the plain target, begin with x^l, and
    ``target[l]``: (V^l,) the target's own joint law of x^l. These go up to l = gamma+1 only
    where the bonus is not drawn from the target; where it is, it adds no deviation.
    ``certain``: the number of levels up to which every drafted prefix is kept.
    """

    accepted: tuple[Array, ...]
    completed: tuple[Array, ...]
    target: tuple[Array, ...]
    certain: int

    @cached_property
    def curve(self) -> list[Any]:
        """Pr(tau >= l) for l = 1..gamma."""
        return [level.sum() for level in self.accepted[1:]]

    @property
    def expected_accepted(self) -> Any:
        """E[tau]."""
        return sum(self.curve)

    @property
    def max_abs_deviation(self) -> Any:
        """Largest |Pr(output begins with x^l) - Mb(x^l)| over all prefixes."""
        pairs = zip(self.completed, self.target, strict=True)
        # Comparing fractions takes a tenth of the time of subtracting them.
        return max(abs(a - b).max() if (a != b).any() else 0 for a, b in pairs)

    @property
    def total_variation(self) -> Any:
        """TV of the gamma+1 completed tokens from the target's joint law."""
        return abs(self.completed[-1] - self.target[-1]).sum() / 2


@lru_cache(maxsize=16)
def compute_tree_law(verifier: Verifier, rows: Rows, gamma: int) -> TreeLaw:
    """Law of one call from the empty prefix.

    For a rule with state only ``accepted`` counts: its output is completed by its debt, not
    by the plain target.
    """
    drafted = _draft_levels(rows, gamma)
    f = g = drafted[0][1]
    accepted, completed = [f], [g]
    certain = 0
    for depth, ((m, b), (next_m, _)) in enumerate(pairwise(drafted)):
        p, q = _rows_after(rows, depth)
        mass = _by_last_token(f, p)
        children, exits = verifier.tree_step(_by_last_token(m, p), _by_last_token(b, p), mass, p, q)
        # A call that ended earlier, at a prefix of x^l, continues with the plain target.
        g = (children + exits + (_by_last_token(g, p) - mass) * p).ravel()
        f = children.ravel()
        if certain == len(accepted) - 1 and (f == next_m).all():
            certain += 1
        accepted.append(f)
        completed.append(g)
    target = [b for _, b in drafted]
    if verifier.bonus is not None:
        p, _ = _rows_after(rows, gamma)
        mass = _by_last_token(f, p)
        completed.append((mass * verifier.bonus(p) + (_by_last_token(g, p) - mass) * p).ravel())
        target.append((_by_last_token(target[-1], p) * p).ravel())
    return TreeLaw(tuple(accepted), tuple(completed), tuple(target), certain)


def _rows_after(rows: Rows, depth: int) -> tuple[Array, Array]:
    """Target and draft rows (V, V) after each last token of a prefix; (1, V) at depth 0."""
    last = slice(0, -1) if depth else slice(-1, None)
    return rows.target[last], rows.draft[last]


def _by_last_token(level: Array, p: Array) -> Array:
    """Values of a level's prefixes (V^l,) as (..., last token, 1), to meet the rows ``p``."""
    return level.reshape(-1, len(p), 1)


@lru_cache(maxsize=4)
def _draft_levels(rows: Rows, gamma: int) -> list[tuple[Array, Array]]:
    """Return Ms(x^l) and Mb(x^l) of all prefixes x^l of levels 0..gamma, each (V^l,)."""
    one = np.ones(1, dtype=rows.target.dtype)
    levels = [(one, one)]
    for depth in range(gamma):
        m, b = levels[-1]
        p, q = _rows_after(rows, depth)
        levels.append(((_by_last_token(m, p) * q).ravel(), (_by_last_token(b, p) * p).ravel()))
    return levels
