"""Built-in rules without state on recorded blocks: what ``compare`` judges of each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simverify.simulators.decoding.emitted import Decoded, Emitted
from simverify.simulators.decoding.expected import RULES
from simverify.simulators.decoding.judges import judges
from simverify.simulators.decoding.lanes import Block, Job
from simverify.simulators.decoding.replayed import Judge, Replayed
from simverify.verifiers import VERIFIERS, Verifier

STATELESS = tuple(name for name in RULES if VERIFIERS[name].contract == "verify")
"""Rules that a recorded block is all of: one with state lives on tokens of its own. Of one that is
not among ``RULES``, such as temperature-0, nothing is known to expect of a block."""


@dataclass(frozen=True, eq=False)
class Run:
    """A rule's calls on the blocks so far, and what is kept of them."""

    replayed: Replayed
    kept: Emitted


def replays(
    rules: Sequence[Verifier], *, gamma: int, lanes: int, tokens: int, seed: int
) -> dict[str, Run]:
    """Return a run of each of ``rules``, to be called with every block of a recording."""
    job = Job((), gamma=gamma, lanes=lanes, lane_tokens=0, request_tokens=0, seed=seed)
    found = {}
    for rule in rules:
        kept = Emitted(job, rule)
        replayed = Replayed(
            _judge(rule), kept, kept.complete, lanes=lanes, tokens=tokens, seed=seed
        )
        found[rule.name] = Run(replayed, kept)
    return found


def finish(runs: dict[str, Run]) -> dict[str, Decoded]:
    """Return what is judged of each run; raises ``UsageError`` where there is too little."""
    for run in runs.values():
        run.replayed.finish()
    return {name: run.kept.decoded for name, run in runs.items()}


def _judge(rule: Verifier) -> Judge:
    judge = judges(rule)()

    def call(block: Block, rng: np.random.Generator) -> list[int]:
        return judge.judge(0, block.p, block.q[:-1], np.array(block.drafts), rng)

    return call
