"""Edge probes of drafters: rows and counts at their ends, inputs, and calls one after the other.

The probes of what emits run too, on the drafter and the rule that judges it; those that are about
the target's rows alone say nothing of a drafter.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.generations.drafts import asked, built_drafter
from simverify.auditing.probes.calls import Line, Outcome, Rule, attempt, probe
from simverify.auditing.probes.gpu import from_before
from simverify.auditing.probes.plain import seeded, states_kept
from simverify.results import Probe
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.guards.watchdog import doing
from simverify.trees import ROOT

SECONDS = 3.0
CALLS = 24
"""Calls a case."""

_OF_TARGETS = frozenset(
    {"p = q", "disjoint support", "one-hot targets", "p = q = 0 at a draft token", "zero rows",
     "NaN rows", "inputs"}
)  # fmt: skip
"""Probes of rows that a drafter is not handed, or that no draft model has."""

_LARGE = 1000

_Body = Callable[[Line], str]


def probe_drafter(
    rule: Rule, others: Sequence[Probe], lost: Sequence[Probe] = ()
) -> tuple[Probe, ...]:
    """Probe a drafter: ``others``, as far as they say something of one, and its own.

    ``lost``: what came of probes that ended the use of the GPU in another process.
    """
    kept = [found for found in others if found.name not in _OF_TARGETS]
    if any(found.hung for found in others):
        return tuple(kept)
    bodies: dict[str, _Body] = {
        "one-hot draft row": lambda line: _kept(line, rule, np.eye(5)[[0, 4]], 1),
        "more siblings than tokens": lambda line: _kept(line, rule, np.array([[0.5, 0.5]]), 5),
        "more siblings than likely tokens": lambda line: _kept(
            line, rule, np.array([[0.0, 1.0, 0.0, 0.0]]), 3
        ),
        "large draft row": lambda line: _kept(line, rule, _large(), 4),
        "prefixes": lambda line: _prefixes(line, rule),
        "drafts something": lambda line: _something(line, rule),
    }
    with warnings.catch_warnings(), np.errstate(all="ignore"), states_kept():
        warnings.simplefilter("ignore")
        for name, body in bodies.items():
            doing(f"the probe {name!r}")
            known = from_before(name, kept, lost)
            kept.append(known or probe(name, body, SECONDS, Line()))
    return tuple(kept)


def _large() -> Row:
    rng = np.random.Generator(np.random.PCG64(1000))
    row = rng.standard_exponential(_LARGE)
    return np.array([row / row.sum()])


def _kept(line: Line, rule: Rule, rows: Row, k: int) -> str:
    """The contract is kept, and no token comes that is said to be impossible."""
    for row in rows:
        for seed in range(CALLS):
            _draft(line, rule, (0, 1), row, k, seed)
    return f"{CALLS * len(rows)} calls kept the contract"


def _draft(
    line: Line, rule: Rule, prefix: Tokens, row: Row, k: int, seed: int
) -> tuple[Tokens, Row] | None:
    """Make one call; None where it broke the contract, which is noted."""
    made: list[tuple[Tokens, Row]] = []

    def call() -> tuple[Tokens, str]:
        rng = seeded(seed)
        found = asked(built_drafter(rule), ROOT, prefix, row, k, rng)
        made.append((found.tokens, found.reported))
        return found.tokens, ""

    outcome: Outcome = line.call(lambda: attempt(call))
    if outcome.tokens is None:
        line.add("violation", outcome.fault)
    return made[0] if made else None


def _prefixes(line: Line, rule: Rule) -> str:
    """An empty prefix, a long one, and ids 0 and V-1 at its end."""
    row = np.array([0.5, 0.2, 0.3])
    for prefix in ((), (0,), (2,), (0, 2) * 40):
        for seed in range(CALLS // 4):
            _draft(line, rule, prefix, row, 2, seed)
    return "none, one token and 80 were taken"


def _something(line: Line, rule: Rule) -> str:
    """A drafter that never drafts is right about everything, and no use."""
    row = np.array([0.6, 0.4])
    counts = [
        len(made[0]) for seed in range(CALLS) if (made := _draft(line, rule, (), row, 1, seed))
    ]
    if counts and not any(counts):
        line.add("warning", f"drafted no token in {len(counts)} calls: nothing was judged")
    return f"a token in {sum(map(bool, counts))} of {len(counts)} calls"
