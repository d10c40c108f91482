"""Runs code on an instance of a result file again, and records every path with its lines."""

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType
from typing import Any

from simverify.auditing.comparison import sequence_probability
from simverify.auditing.enumeration import (
    block_arguments,
    check_token_ids,
    cut_at_eos,
    decode_generation,
    enumerate_block,
)
from simverify.auditing.instances import InstanceRows
from simverify.auditing.invocation import Rule, build_step_rule, read_result
from simverify.auditing.trees import enumerate_tree
from simverify.errors import SimverifyError
from simverify.symbolic import Enumeration
from simverify.symbolic.engine import Budget, PathRecorder, RecordedPath, Spending
from simverify.symbolic.outcomes import Tokens
from simverify.symbolic.paths import TooManyPaths
from simverify.symbolic.provenance import (
    CannotEnumerate,
    OutOfTime,
    is_adapter_file,
    is_library,
    is_machinery,
    is_user_file,
)
from simverify.trees import enumerate_trees

# The lines that a path runs, in order, each with the call of its function.


MAX_STEPS = 20_000
"""Steps of a path that are kept; what comes later is not."""


@dataclass(frozen=True)
class LineStep:
    """A line that ran. ``call`` numbers the function's call that it belongs to on the path.

    ``caller``: index of the step that made this call; None for the outermost one. ``own``: whether
    the line belongs to the code under audit, and not to the adapter around it. ``handed``: of the
    first line of a call from outside that code, the arguments that may hold rows or tokens.
    """

    file: str
    line: int
    call: int
    caller: int | None
    own: bool = True
    handed: tuple[str, ...] = ()

    @property
    def at(self) -> str:
        """The line as ``file:line``."""
        return f"{self.file}:{self.line}"


@contextmanager
def trace_calls(entered: Callable[[FrameType, str, Any], Any] | None) -> Iterator[None]:
    """Let Python tell ``entered`` of each call in this thread, unless a debugger listens."""
    if entered is None or sys.gettrace() is not None:
        yield
        return
    sys.settrace(entered)
    try:
        yield
    finally:
        sys.settrace(None)


class StepTracer:
    """Follows one path at a time; ``begin`` starts the next."""

    def __init__(self) -> None:
        self.now: list[LineStep] = []
        self._calls: dict[int, tuple[FrameType, int, int | None]] = {}
        self._whose: dict[CodeType, bool | None] = {}

    def begin(self) -> None:
        """Forget the path before."""
        self.now, self._calls = [], {}

    def following(self) -> AbstractContextManager[None]:
        """Follow what this thread runs inside."""
        return trace_calls(self._entered)

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        code = frame.f_code
        if code not in self._whose:
            self._whose[code] = _is_user_frame(frame)
        ownership = self._whose[code]
        if ownership is None or len(self.now) >= MAX_STEPS:
            return None

        def ran(frame: FrameType, event: str, _arg: Any) -> Any:
            if event == "line" and len(self.now) < MAX_STEPS:
                known, handed = self._calls.get(id(frame)), list[str]()
                if known is None or known[0] is not frame:
                    caller = self._caller(frame.f_back)
                    known = self._calls[id(frame)] = (frame, len(self._calls), caller)
                    if ownership and (caller is None or not self.now[caller].own):
                        handed = _data_arguments(frame)
                _, number, caller = known
                self.now.append(
                    LineStep(
                        code.co_filename, frame.f_lineno, number, caller, ownership, tuple(handed)
                    )
                )
            return ran

        return ran

    def _caller(self, frame: FrameType | None) -> int | None:
        """Return the step at which the nearest followed function out from ``frame`` is."""
        while frame is not None:
            known = self._calls.get(id(frame))
            if known is not None and known[0] is frame:
                places = range(len(self.now) - 1, -1, -1)
                return next(i for i in places if self.now[i].call == known[1])
            frame = frame.f_back
        return None


_SETTING_TYPES = (bool, int, float, str, bytes, type(None))
_TORCH_SETTING_TYPES = frozenset({"dtype", "device", "Generator"})


def _data_arguments(frame: FrameType) -> list[str]:
    """Return the arguments of a call that are no settings, as a size or a temperature is."""
    code = frame.f_code
    return [
        name
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if not isinstance(x := frame.f_locals.get(name), _SETTING_TYPES)
        and type(x).__name__ not in _TORCH_SETTING_TYPES
    ]


def _is_user_frame(frame: FrameType) -> bool | None:
    file, module = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
    if is_adapter_file(file):
        return False
    return True if is_user_file(file) and not (is_machinery(module) or is_library(module)) else None


Steps = StepTracer | None

PATH_RUN_ERRORS = (CannotEnumerate, TooManyPaths, OutOfTime, SimverifyError, ValueError)
"""What ends a run of all paths before its end."""


@dataclass(frozen=True)
class CallPaths:
    """A call's paths. ``drafted``: the block that it was given, of probability ``mass``.

    ``drafted`` is None and ``mass`` 1 under the step contract; ``tree`` draws it where it is one.
    """

    drafted: Tokens | None
    mass: float
    leaves: list[RecordedPath]
    tree: str = ""


def _drafted_calls(
    rule: Rule,
    model: InstanceRows,
    sequence: Tokens,
    budget: Budget,
    steps: Steps = None,
    *,
    trees: bool = False,
) -> Iterator[CallPaths]:
    spending = Spending(budget)
    enumeration, source = record_paths(rule, seed_once=False, steps=steps)

    def recorded(*call: Any) -> Any:
        source.handing(call[-1])
        result = rule(*call)
        source.end(read_result(result))
        return result

    with enumeration:
        if not trees:
            for drafted in itertools.product(range(model.vocab_size), repeat=model.gamma):
                mass = sequence_probability(model.draft, drafted)
                if mass > 0:
                    block = block_arguments(model, drafted)
                    spending.take(partial(enumerate_block, enumeration, recorded, *block))
                    yield CallPaths(drafted, mass, source.take())
            return
        drafting = model.drafting
        assert drafting is not None, "an instance of the tree contract says how trees are drafted"
        for tree, mass in enumerate_trees(drafting, model.draft, max_trees=budget.paths):
            rows = model.target, model.draft
            spending.take(partial(enumerate_tree, enumeration, recorded, tree, *rows))
            yield CallPaths(tree.tokens, float(mass), source.take(), tree.drawn())


def _step_calls(
    rule: Rule, model: InstanceRows, sequence: Tokens, budget: Budget, steps: Steps = None
) -> Iterator[CallPaths]:
    length = len(sequence)
    enumeration, source = record_paths(rule, seed_once=True, steps=steps)

    def counted(emitted: Tokens, new: Tokens) -> Tokens:
        so_far = emitted[len(model.prompt) :] + cut_at_eos(new, model.eos)
        if not model.earlier_calls and so_far[:length] != sequence[: len(so_far)]:
            return (*new, *(0,) * length)  # elsewhere: where to does not matter
        return new

    def call() -> Tokens:
        source.handing(enumeration.rng)
        tokens = run_generation(rule, model, enumeration.rng, length, counted)[:length]
        source.end(tokens)
        return tokens

    with enumeration:
        enumeration.run(call, budget)
    if model.missing:
        raise ValueError(model.missing)  # the code's own handling may have hidden it
    yield CallPaths(None, 1.0, source.take())


def run_generation(
    rule: Rule,
    model: InstanceRows,
    rng: Any,
    length: int,
    counted: Callable[[Tokens, Tokens], Tokens] = lambda _, new: new,
    before: list[Tokens] | None = None,
) -> Tokens:
    """Return the tokens of a generation on ``model``, ``length`` or more, by ``rule`` built anew.

    ``counted(emitted, new)``: what a call after ``emitted`` counts as. ``before`` receives what was
    emitted before each call.
    """
    step, reset = build_step_rule(rule)

    def more(emitted: Tokens) -> Tokens:
        if before is not None:
            before.append(emitted)
        new = read_result(step(emitted, model.target, model.draft, model.gamma, rng))
        check_token_ids(new, model.vocab_size)
        return counted(emitted, new)

    ends: dict[str, Any] = {"eos": model.eos, "earlier_calls": model.earlier_calls}
    return decode_generation(more, reset, length=length, prefix=model.prompt, **ends)


def record_paths(
    rule: Rule, *, seed_once: bool, steps: Steps = None
) -> tuple[Enumeration, PathRecorder]:
    """Return an enumeration of ``rule`` and its source, which keeps every path."""
    enumeration = Enumeration(rule, seed_once=seed_once)
    source = PathRecorder(enumeration.source.prune, seed_once=seed_once, steps=steps)
    enumeration.source = source
    return enumeration, source


CALLS_BY_CONTRACT: dict[str, Callable[..., Iterator[CallPaths]]] = {
    "verify": _drafted_calls,
    "tree": partial(_drafted_calls, trees=True),
    "step": _step_calls,
}
"""By contract: yields the calls of a rule on an instance, all paths of each.

Under the step contract paths that leave ``sequence`` are cut short.
"""
