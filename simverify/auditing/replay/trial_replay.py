"""One trial of the sampled tier again, alone: what it was given, drew, decided and emitted."""

import math
import random
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from simverify.auditing.exact.generations.enumerate import takes_step_arguments
from simverify.auditing.process.quiet import global_generators
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.auditing.replay.trial_record import Event, RecordingGenerator, branches_noted, short
from simverify.auditing.sampled.emissions import Misuse, TimeUp
from simverify.auditing.sampled.run import Contract, Runner
from simverify.auditing.sampled.tables import SampledInstance
from simverify.results import FailingTrial

SECONDS = 60.0


def replay_trial(
    rule: Callable[..., Any],
    contract: Contract,
    found: FailingTrial,
    *,
    seed: int,
    batch: int | None,
    seconds: float = SECONDS,
) -> str:
    """Run a trial of the sampled tier by its address and tell what happens, as plain text.

    Parameters
    ----------
    rule, contract, seed, batch
        As in the run that ``found`` comes from: batched code is called with its whole batch.
    found
        The trial's address and rows, as the result file has them.
    seconds
        Limit of the call.
    """
    log: list[Event] = []
    instance = SampledInstance(
        InstanceRows(found.instance),
        found.instance.gamma,
        eos=found.instance.eos,
        earlier_calls=found.instance.earlier_calls,
    )
    row = found.trial % batch if batch else None
    runner = Runner(
        _recorded(rule, contract, log, row), contract, instance, seed=seed, number=found.number,
        pilot=found.pilot, rows=batch, ends=math.inf, seconds=seconds,
    )  # fmt: skip
    with global_generators(seed):
        before = _global_states()
        with branches_noted(rule, log):
            ending, emitted = _run(runner, found.trial)
        elsewhere = before != _global_states()
    lines = [
        f"{instance.name}: trial {found.trial}{' of the pilot' if found.pilot else ''}, "
        f"seed {seed}",
        found.why,
        *([f"row {row} of a batch of {batch}, which is run whole"] if batch else []),
        "",
        *(f"{event.text}{f' at {event.where}' if event.where else ''}" for event in log),
        ending,
    ]
    if elsewhere:
        lines.append(
            "it draws from the process's own generators too (random, numpy.random or torch), "
            "which went on from trial to trial in the run, and begin anew here"
        )
    if found.emitted is not None and emitted != found.emitted:
        lines.append(
            f"in the run it emitted {short(found.emitted)}: the code draws from elsewhere, or "
            "keeps something from earlier calls"
        )
    return "\n".join(lines) + "\n"


def _run(runner: Runner, trial: int) -> tuple[str, tuple[int, ...] | None]:
    try:
        emitted = runner.replay(trial)
    except Misuse as misuse:
        return f"ends: {misuse}", None
    except TimeUp:
        return "ends: the time limit passed", None
    return f"emits {short(emitted)}", emitted


def _recorded(
    rule: Callable[..., Any], contract: Contract, log: list[Event], row: int | None
) -> Callable[..., Any]:
    """Return ``rule`` with what it is handed noted in ``log``, and its generator noting draws.

    ``row``: of a batch, the one whose block is noted.
    """
    if contract == "verify":

        @wraps(rule)
        def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
            given = (target_probs, draft_probs, draft_tokens)
            p, q, x = given if row is None else (block[row] for block in given)
            log.append(Event(f"draft: {short(x)}"))
            for name, block in (("p", p), ("q", q)):
                log.extend(Event(f"{name}[{i}] = {short(law)}") for i, law in enumerate(block))
            return rule(target_probs, draft_probs, draft_tokens, _noting(rng, log))

        return verify

    def step_of(step: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> Any:
            def noted(name: str, row: Callable[[Any], Any]) -> Callable[[Any], Any]:
                def give(context: Any) -> Any:
                    law = row(context)
                    log.append(Event(f"{name} after {short(tuple(context))} = {short(law)}"))
                    return law

                return give

            log.append(Event(f"call after {short(tuple(prefix))}"))
            rows = noted("p", target), noted("q", draft)
            return step(prefix, *rows, gamma, _noting(rng, log))

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


def _noting(rng: np.random.Generator, log: list[Event]) -> RecordingGenerator:
    return RecordingGenerator(rng.bit_generator, log)


def _global_states() -> list[Any]:
    torch = sys.modules.get("torch")
    states = [random.getstate(), str(np.random.get_state())]  # noqa: NPY002
    return states + ([torch.get_rng_state().tolist()] if torch else [])
