"""Calls of code under audit on the rows of real models, and what is kept of them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from simverify.auditing.coverage.watch import watched
from simverify.auditing.exact.generations.enumerate import check_ids
from simverify.auditing.exact.generations.trees import built_tree, reset_of
from simverify.auditing.probes.calls import built, read
from simverify.auditing.sampled.emissions import Misuse
from simverify.auditing.sampled.run import HANG_SECONDS
from simverify.simulators.decoding.emitted import TokenSums
from simverify.simulators.decoding.expected import RULES, Interval, LaneMeans, curves
from simverify.simulators.decoding.lanes import Block
from simverify.simulators.decoding.steps import BeyondContext, ModelFailed
from simverify.simulators.decoding.trees.loop import TreeBlock
from simverify.simulators.decoding.trees.worth import TreeWorth
from simverify.symbolic.enumeration.endings import BadTokens, Tokens, what_was_raised
from simverify.symbolic.guards.containment import from_user
from simverify.symbolic.guards.watchdog import Expired, deadline, doing
from simverify.trees import ROOT, Drafting, DraftTree, RowAfter

STEP_SECONDS = 600.0
"""As :data:`HANG_SECONDS`, of a call that asks models for rows, which may be slow ones."""

_CONFIDENCE = 0.999


class BlockCaller:
    """A ``verify`` rule as a judge of drafted blocks; a broken contract is a ``Misuse``.

    It is called on copies of the rows, which it may write into.
    """

    def __init__(self, rule: Callable[..., Any], vocab_size: int) -> None:
        self._rule, self._vocab_size = rule, vocab_size

    def reset(self) -> None:
        """Begin a new request, which a rule without state does not notice."""

    def judge(
        self, _position: int, p: Any, q: Any, drafts: Any, rng: np.random.Generator
    ) -> list[int]:
        """Return the tokens of a block."""
        doing("a block of real models")
        x = tuple(int(token) for token in drafts)
        given = p.copy(), q.copy(), np.array(x, np.int64)
        result = _called(self._rule, *given, rng, seconds=HANG_SECONDS)
        tokens = _checked(result, self._vocab_size)
        if tokens[:-1] != x[: len(tokens) - 1]:
            raise Misuse(
                f"not-a-prefix: returned {tokens} for the draft {x}: all but the last "
                f"token must be an accepted prefix of the draft"
            )
        return list(tokens)


class TreeCaller:
    """A rule for draft trees, called on one tree; a broken contract is a ``Misuse``.

    ``builds``: whether ``rule`` builds an object with one, which may keep state.
    """

    def __init__(self, rule: Callable[..., Any], vocab_size: int, *, builds: bool = False) -> None:
        self._built = _called(built_tree, rule, seconds=HANG_SECONDS) if builds else None
        self._rule = self._built.tree if self._built is not None else rule
        self._vocab_size = vocab_size

    def reset(self) -> None:
        """Begin a new request."""
        if self._built is not None:
            _called(reset_of, self._built, seconds=HANG_SECONDS)

    def judge(self, tree: DraftTree, given: Mapping[str, Any], rng: np.random.Generator) -> Tokens:
        """Return the tokens of a call on ``tree``; ``given``: its arguments by their names."""
        doing("a draft tree of a model")
        result = _called(self._rule, *given.values(), rng, seconds=HANG_SECONDS)
        tokens = _checked(result, self._vocab_size)
        ways = {tree.text(node) for node in range(ROOT, len(tree.tokens))}
        if tokens[:-1] not in ways:
            raise Misuse(
                f"not-a-prefix: returned {tokens} for the tree {tree.drawn()}: all but the last "
                f"token must be a way from its root"
            )
        return tokens


class StepCaller:
    """A ``step`` rule, built anew, as the loop calls it; a broken contract is a ``Misuse``."""

    def __init__(self, rule: Callable[..., Any], vocab_size: int) -> None:
        self._step, self._reset = _called(built, rule, seconds=HANG_SECONDS)
        self._vocab_size = vocab_size

    def reset(self) -> None:
        """Begin a new request."""
        if self._reset is not None:
            _called(self._reset, seconds=HANG_SECONDS)

    def step(
        self,
        prefix: Tokens,
        target: RowAfter,
        draft: RowAfter,
        gamma: int,
        rng: np.random.Generator,
    ) -> Tokens:
        """Return the tokens that follow ``prefix``."""
        doing("a call on real models")
        result = _called(self._step, prefix, target, draft, gamma, rng, seconds=STEP_SECONDS)
        return _checked(result, self._vocab_size)


class Kept:
    """Observer of calls: their tokens, judged, and of drafts what was accepted.

    ``drafted``: whether drafts are given to the rule; ``drafting``: how, if they are trees.
    ``state``: whether it may keep something from call to call.
    """

    def __init__(
        self,
        *,
        gamma: int,
        lanes: int,
        seed: int,
        drafted: bool,
        drafting: Drafting | None = None,
        state: bool = False,
    ) -> None:
        # Of a rule that may carry state, as one without drafts, absolute positions alone follow
        # the target.
        by_slot = drafted and not state
        self.tokens = TokenSums(
            gamma=gamma, lanes=lanes, seed=seed, by_slot=by_slot, one_draft=drafting is None
        )
        self.calls = 0
        self._accepted = LaneMeans(lanes, 2) if drafted else None
        self._trees, self._state = None if drafting is None else TreeWorth(drafting), state

    def __call__(self, block: Block) -> None:
        """Count a call on a drafted block, or of a rule that drafts for itself."""
        optimum = 0.0
        if self._accepted is not None:
            optimum = float(curves(block)[RULES.index("block")].sum())
        self._count(block, optimum)

    def tree(self, call: TreeBlock) -> None:
        """Count a call on a draft tree."""
        assert self._trees is not None
        memoryless, of_any = self._trees.levels(call.drawn)
        self._count(call.block, float((of_any if self._state else memoryless).sum()))

    def _count(self, block: Block, optimum: float) -> None:
        self.calls += 1
        if self._accepted is not None:
            self._accepted.add(block.lane, [block.tau, optimum])
        self.tokens.add(block)

    @property
    def optimality(self) -> str | None:
        """E[tau] beside the optimum's on the same drafts, in words; None without drafts."""
        if self._accepted is None:
            return None
        tau, best, less = map(self._interval, ((1.0, 0.0), (0.0, 1.0), (1.0, -1.0)))
        whose, where = "block's", "blocks"
        if self._trees is not None:
            counted = self._trees.by == "counting"
            whose, where = "no rule's above" if counted else "the best rule's", "trees"
        return (
            f"E[tau] = {tau.mean:.4f} ({tau.low:.4f} to {tau.high:.4f}), {whose} {best.mean:.4f} "
            f"on the same {where}: {less.mean:+.4f} ({less.low:+.4f} to {less.high:+.4f})"
        )

    def _interval(self, weights: tuple[float, float]) -> Interval:
        assert self._accepted is not None
        return self._accepted.interval(weights, _CONFIDENCE)


def _called(call: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    try:
        with deadline(seconds):
            return watched(call, *arguments)
    except Expired:
        raise Misuse(f"hangs: did not return within {seconds:g} s") from None
    except (BeyondContext, ModelFailed):
        raise  # no fault of the code
    except BadTokens as error:
        raise Misuse(f"{error.kind}: {error}") from None
    except BaseException as error:  # the code may raise anything, SystemExit too
        if from_user(error):
            raise
        message = f"raises: {what_was_raised(error)}"
        raise Misuse(message) from None


def _checked(result: Any, vocab_size: int) -> Tokens:
    try:
        tokens = read(result)
        check_ids(tokens, vocab_size)
    except BadTokens as error:
        raise Misuse(f"{error.kind}: {error}") from None
    return tokens
