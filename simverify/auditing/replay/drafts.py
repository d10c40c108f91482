"""Every path on which a drafter answers a call in the same way, shown draw by draw."""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.auditing.exact.generations.drafts import (
    Reports,
    answers,
    built_drafter,
    grow,
    written,
)
from simverify.auditing.exact.generations.enumerate import MAX_PATHS, SECONDS
from simverify.auditing.exact.judging.drafts import siblings_due
from simverify.auditing.probes.calls import Outcome, attempt
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.auditing.replay.paths import Explanation, Trail
from simverify.results import Breach, Counterexample
from simverify.symbolic import Enumeration
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.enumeration.recorder import Recorder


def explain_draft(
    rule: Callable[..., Any],
    found: Counterexample,
    *,
    max_paths: int = MAX_PATHS,
    seconds: float | None = SECONDS,
) -> Explanation:
    """Run a drafter's calls up to that of ``found`` again; keep the paths that answer like it.

    Raises ``CannotEnumerate``, ``TooManyPaths`` or ``OutOfTime`` as the exact tier does.
    """
    call, model, reports = found.call, InstanceRows(found.instance), Reports()
    assert call is not None, "the counterexample of a drafter has a call"
    drafting = model.drafting
    assert drafting is not None, "and an instance that says how it drafts"
    asked_for = reports.number(np.array(call.reported))
    enumeration = Enumeration(rule, seed_once=True)
    source = Recorder(enumeration.source.prune, seed_once=True)
    enumeration.source = source

    def run() -> Tokens:
        source.handing(enumeration.rng)
        drafter = built_drafter(rule)
        source.sequences.is_built()
        grown = grow(
            drafter, drafting.shape, model.draft, enumeration.rng, model.prompt,
            most=len(call.before) + 1,
        )  # fmt: skip
        numbers = written(grown.calls, reports)
        source.end(numbers)
        return numbers

    with enumeration:
        enumeration.run(run, max_paths=max_paths, seconds=seconds)
    like: list[Trail] = []
    for leaf in source.take():
        told = list(answers(leaf.tokens, drafting.shape, model.prompt))
        before = tuple(answer.tokens for answer in told[:-1])
        last = told[-1]
        alike = (before, last.report) == (call.before, asked_for)
        if alike and len(last.tokens) == len(found.sequence):
            like.append(Trail(None, 1.0, last.tokens, leaf.weight, 1.0, leaf.draws, leaf.branches))
    share = sum(trail.weight for trail in like)
    emitted: dict[Tokens, float] = {}
    for trail in like:
        emitted[trail.emitted] = emitted.get(trail.emitted, 0.0) + trail.weight / share
    sequence = tuple(found.sequence)
    row = np.array(call.reported)
    due = siblings_due(drafting.scheme, row, call.asked, len(sequence), emitted)
    there = [trail for trail in like if trail.emitted == sequence]
    return Explanation(
        found.instance.name,
        sequence,
        emitted.get(sequence, 0.0),
        due.get(sequence, 0.0),
        (),
        tuple(sorted(there, key=lambda trail: trail.weight, reverse=True)),
        _head(found, model, share),
    )


def _head(found: Counterexample, model: InstanceRows, share: float) -> tuple[str, ...]:
    call = found.call
    assert call is not None, "the counterexample of a drafter has a call"
    lines = [
        f"after {', '.join(map(str, call.prefix)) or 'no token'}, asked for {call.asked}, "
        f"scheme {found.instance.scheme}",
        f"  draft row: {_row(model.draft(call.prefix).tolist())}",
        f"  reported:  {_row(call.reported)}",
    ]
    if share < 1 - 1e-9:
        lines.append(f"  this report, and so many tokens, have probability {share:.6g}")
    return tuple(lines)


def _row(row: Any) -> str:
    return "  ".join(f"{x:.6g}" for x in row)


def broken_draft(rule: Callable[..., Any], found: Breach) -> Callable[[Any], Outcome]:
    """Return what drafts on the instance of ``found`` with a generator, and says how it ends."""
    model = InstanceRows(found.instance)
    drafting = model.drafting
    assert drafting is not None, "a breach of the draft contract says how is drafted"

    def run(rng: Any) -> tuple[Tokens, str]:
        grown = grow(built_drafter(rule), drafting.shape, model.draft, rng, model.prompt)
        return written(grown.calls, Reports()), ""

    return lambda rng: attempt(lambda: run(rng))
