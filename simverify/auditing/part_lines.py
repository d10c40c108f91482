"""The lines of the part of a call in which a sampled fault sits, read off calls that are traced."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from itertools import islice
from types import SimpleNamespace
from typing import Any, Literal

from simverify.auditing.coverage import unmonitored
from simverify.auditing.enumeration import read_tokens, takes_step_arguments
from simverify.auditing.rerun import LineStep, StepTracer
from simverify.auditing.sampled_runs import (
    Contract,
    ContractMisuse,
    SampledInstance,
    StaleDraw,
    TimeLimitReached,
    TrialRunner,
)
from simverify.symbolic.provenance import portable_path
from simverify.symbolic.watchdog import Stopwatch

TRACED_CALLS, TRACE_SECONDS = 64, 2.0
"""How long code is traced: calls of ``verify`` or generations of ``step``, and seconds."""

_MAX_PART_LINES = 4

TokenPart = Literal["accept", "residual", "bonus"]
"""What a call does: it judges drafts, then it draws a token after a rejection or after none."""


def lines_of_part(
    part: TokenPart,
    rule: Callable[..., Any],
    contract: Contract,
    instance: SampledInstance,
    seed: int,
) -> tuple[str, ...]:
    """Return the lines of ``part`` as ``file:line``, in the order in which they run.

    Those of "residual" run only in calls that reject a draft token, those of "bonus" only in calls
    that reject none; "accept" gets the lines at which such calls part. Empty where all calls run
    the same lines, as vectorised code does.
    """
    calls = _TracedCalls(instance.gamma)
    runner = TrialRunner(
        calls.follow(rule, contract),
        contract,
        instance,
        seed=seed,
        clock=Stopwatch(sleeps=True),
        seconds=TRACE_SECONDS,
    )
    with unmonitored(), suppress(ContractMisuse, StaleDraw, TimeLimitReached):
        runner.run(TRACED_CALLS)
    rejecting, accepting = (_code_lines(calls.steps[accepts]) for accepts in (False, True))
    if not (rejecting and accepting):
        return ()
    if part == "accept":
        places = _parting_lines(calls.steps[False], rejecting.keys() - accepting.keys())
    elif part == "residual":
        places = (line for line in rejecting if line not in accepting)
    else:
        places = (line for line in accepting if line not in rejecting)
    return tuple(map(portable_path, islice(places, _MAX_PART_LINES)))


class _TracedCalls:
    """The steps of each call, by whether it accepted all of its draft tokens."""

    def __init__(self, gamma: int) -> None:
        self.steps: dict[bool, list[list[LineStep]]] = {False: [], True: []}
        self._gamma, self._tracer = gamma, StepTracer()

    def follow(self, rule: Callable[..., Any], contract: Contract) -> Callable[..., Any]:
        """Return ``rule`` with every call of its contract traced."""
        if contract == "verify" or takes_step_arguments(rule):
            return self._traced(rule)

        def build() -> SimpleNamespace:
            stepper = rule()
            step = self._traced(stepper.step)
            return SimpleNamespace(step=step, reset=getattr(stepper, "reset", None))

        return build

    def _traced(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def traced(*arguments: Any) -> Any:
            self._tracer.begin()
            with self._tracer.following():
                tokens = call(*arguments)
            accepts_all = len(read_tokens(tokens)) > self._gamma
            self.steps[accepts_all].append(self._tracer.now)
            return tokens

        return traced


def _code_lines(calls: Sequence[Sequence[LineStep]]) -> dict[str, None]:
    """Return the lines of the code under audit that ran, in the order of their first run."""
    return dict.fromkeys(step.at for steps in calls for step in steps if step.own)


def _parting_lines(calls: Sequence[Sequence[LineStep]], apart: set[str]) -> Iterator[str]:
    """Yield the lines from which calls go on to those ``apart``, the most frequent first."""
    partings: Counter[str] = Counter()
    for steps in calls:
        first = next((i for i, step in enumerate(steps) if step.own and step.at in apart), None)
        if first is None:
            continue
        before = [x for x in steps[:first] if x.own and x.call == steps[first].call]
        caller = steps[first].caller
        if before:
            partings[before[-1].at] += 1
        elif caller is not None and steps[caller].own:
            partings[steps[caller].at] += 1
    return (line for line, _ in partings.most_common())
