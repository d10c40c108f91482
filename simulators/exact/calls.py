"""What one call emits and leaves behind, and what follows over many calls.

A call's law depends on the last token and on the state that the rule carries, no more: the
models here are Markov. It is known in two ways, by running the rule on every path and from
its tree law; everything below works on either.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from simverify.simulators.exact.rows import START, Array, Rows
from simverify.symbolic.enumeration.paths import Coins, Path, explore
from simverify.verifiers.base import Verifier, bounded
from simverify.verifiers.greedy import Stack, carry, target_levels

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

    def run_verify(path: Path, last: int) -> Emission:
        coins = Coins(path)
        tokens: list[int] = []
        for _ in range(gamma):
            tokens.append(coins.choice(rows.vocab_size, rows.draft[(last, *tokens)[-1]]))
        seen = [last, *tokens]
        emitted = verifier.rule(rows.target[seen], rows.draft[seen[:-1]], tokens, coins)
        return tuple(emitted), ()

    def run_step(path: Path, last: int, stack: Stack) -> Emission:
        rule = verifier.rule()
        rule.stack = stack

        def law(table: Array) -> Callable[[tuple[int, ...]], Array]:
            return lambda prefix: table[(last, *prefix)[-1]]

        emitted = tuple(rule.step((), law(rows.target), law(rows.draft), gamma, Coins(path)))
        return emitted, tuple((end - len(emitted), r) for end, r in rule.stack)

    @cache
    def law(last: int, stack: Stack) -> CallLaw:
        total: CallLaw = {}
        for emission, weight in explore(
            lambda path: (
                run_verify(path, last)
                if verifier.contract == "verify"
                else run_step(path, last, stack)
            )
        ):
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
                    after = (*after, (gamma, bounded(w * bounded(row[y] / q[y]))))
                ends = tuple((end - at - 1, r) for end, r in after)
                total[(*tokens, y), ends] = exits[y]
            for x in map(int, np.flatnonzero(children)):
                debt_after = carry(debt, levels, q, x, at)
                # b/m, but a quotient of joints that underflow would be no number.
                weight = bounded(w * bounded(row[x] / q[x]))
                descend((*tokens, x), m * q[x], b * row[x], children[x], weight, debt_after)

        descend((), 1, 1, 1, 1, stack)
        return total

    return law


def tokens_after_calls(
    laws: CallLaws, gamma: int, calls: int, *, eos: int | None = None, max_laws: int = 50
) -> list[Any]:
    """Expected tokens after 1..``calls`` calls from the empty prefix, exactly.

    A generation ends with token ``eos``. Fractions grow by a call's denominators with every
    call; beyond ``MAX_DENOMINATOR_BITS`` they go on as floats. Raises :class:`TooManyCalls`
    when more than ``max_laws`` distinct (last token, state) pairs begin a call.
    """
    transitions = _transitions(laws, gamma, calls, eos, max_laws)
    # expected[s]: tokens of the next n calls from s. What is not known yet is not reached.
    expected: dict[CallState, Any] = {}
    totals = []
    for _ in range(calls):
        expected = {
            state: shortened(
                tokens + sum(weight * expected.get(after, 0) for after, weight in step.items())
            )
            for state, (tokens, step) in transitions.items()
        }
        totals.append(expected[START, ()])
    return totals


def shortened(value: Any) -> Any:
    """Return a fraction too long to print as a float, and anything else as it is."""
    if isinstance(value, Fraction) and value.denominator.bit_length() > MAX_DENOMINATOR_BITS:
        return float(value)
    return value


def _transitions(
    laws: CallLaws, gamma: int, calls: int, eos: int | None, max_laws: int
) -> dict[CallState, tuple[Any, dict[CallState, Any]]]:
    """Return, for each state that begins one of the calls, its tokens and where they lead.

    The tokens are those expected of one call, cut after ``eos``; the states after it come
    with their probabilities, which leave out a generation that has ended.
    """
    found: dict[CallState, tuple[Any, dict[CallState, Any]]] = {}
    waiting: set[CallState] = {(START, ())}
    for _ in range(calls):
        if len(found) + len(waiting) > max_laws:
            raise TooManyCalls
        left: set[CallState] = set()
        for last, stack in waiting:
            expected: Any = 0
            step: dict[CallState, Any] = {}
            for (tokens, after), weight in laws(last, stack, gamma + 1).items():
                if eos is not None and eos in tokens:
                    expected += weight * (tokens.index(eos) + 1)
                else:
                    expected += weight * len(tokens)
                    state = (tokens[-1], after)
                    step[state] = step.get(state, 0) + weight
            found[last, stack] = expected, step
            left |= step.keys()
        waiting = left - found.keys()
        if not waiting:
            break
    return found


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
