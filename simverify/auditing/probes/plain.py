"""The probes on ordinary random numbers: unusual rows, types, inputs, batches."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.auditing.probes import cases
from simverify.auditing.probes.calls import Caller, Contract, Line, Outcome, Rule
from simverify.auditing.probes.cases import Case
from simverify.symbolic.enumeration.endings import Tokens, what_was_raised

CALLS = 48
"""Calls a case; both ids of a fair first token miss with probability 2^-47."""

_WRITES = ("destination is read-only", "output array is read-only")


@dataclass(frozen=True)
class Plain:
    """Calls of the code on ordinary, seeded random numbers."""

    call: Caller
    contract: Contract

    def run(
        self, line: Line, case: Case, seed: int, drafted: Tokens | None = None, **how: bool
    ) -> Outcome:
        """Run it once; drafts are sampled from the draft rows unless given."""
        rng = seeded(seed)
        if drafted is None and self.contract == "verify":
            drafted = tuple(int(rng.choice(len(q), p=q)) for q in case.block()[1])
        return line.call(lambda: self.call(case, rng, drafted, **how))


def honest(line: Line, plain: Plain, case: Case, calls: int = CALLS) -> str:
    """Valid inputs: the contract is kept and no token of probability zero comes out."""
    for seed in range(calls):
        outcome = plain.run(line, case, seed)
        problem = outcome.fault or outcome.impossible
        if problem:
            line.add("violation", problem)
    return f"{calls} calls kept the contract and emitted no token with p = 0"


def ends(line: Line, plain: Plain) -> str:
    """All mass of the target on the first and the last id."""
    first: set[int] = set()
    for seed in range(CALLS):
        outcome = plain.run(line, cases.ENDS, seed)
        if outcome.fault or outcome.impossible:
            line.add("violation", outcome.fault or outcome.impossible)
        first.update((outcome.tokens or ())[:1])
    for token in (0, cases.ENDS.vocab_size - 1):
        if first and token not in first:
            line.add("violation", f"never emitted token {token} first, of p = 1/2: {CALLS} calls")
    return "both are emitted"


def malformed(line: Line, plain: Plain, rows: tuple[Case, ...]) -> str:
    """Rows that are no distributions: an exception or a valid token.

    Leaving the vocabulary is a warning: such rows break the contract first, and a correct
    inverse CDF finds no token in them. Ending the process is a violation on any input.
    """
    raised = returned = 0
    for case in rows:
        for seed in range(8):
            drafted = (0, 1, 2) if plain.contract == "verify" else None
            outcome = plain.run(line, case, seed, drafted)
            raised += outcome.raised
            returned += outcome.tokens is not None
            if outcome.exits:
                line.add("violation", f"{outcome.fault} ({case.name})")
            elif outcome.fault and not outcome.raised:
                line.add("warning", f"{outcome.fault} ({case.name})")
    ways = [f"raises in {raised} calls"] * (raised > 0)
    return " and ".join([*ways, *[f"emits valid tokens in {returned} calls"] * (returned > 0)])


def undrafted(line: Line, plain: Plain) -> str:
    """Draft tokens that neither model can emit: 0/0 must not accept them."""
    for seed in range(CALLS):
        outcome = plain.run(line, cases.UNDRAFTED, seed, (2, 0))
        if outcome.impossible:
            line.add("warning", f"{outcome.impossible} and q = 0: 0/0 accepts")
        elif outcome.fault:
            line.add("warning", outcome.fault)
    return "0/0 accepts nothing"


def unmodified(line: Line, plain: Plain) -> str:
    """Inputs are compared byte for byte, then handed over read-only."""
    names: dict[str, None] = {}
    asked = ""
    for case in (cases.PLAIN, cases.MIXED, cases.EQUAL):
        for seed in range(CALLS // 2):
            outcome = plain.run(line, case, seed)
            names |= dict.fromkeys(outcome.changed)
            guarded = plain.run(line, case, seed, writable=False)
            if guarded.raised and not outcome.fault:
                asked = asked or guarded.fault
    if names:
        line.add("violation", f"changes its inputs: {', '.join(names)}")
    elif any(text in asked for text in _WRITES):
        line.add("violation", f"changes its inputs, read-only arrays: {asked}")
    elif asked:
        line.add("warning", f"fails on read-only arrays: {asked}")
    return "bytes compared, and read-only arrays accepted"


def output_type(line: Line, plain: Plain) -> str:
    """What comes back is a row of integers, 1 to gamma+1 of them."""
    kinds: dict[str, None] = {}
    for case in (cases.PLAIN, cases.SINGLE):
        for seed in range(CALLS):
            outcome = plain.run(line, case, seed)
            if outcome.fault:
                line.add("violation", outcome.fault)
            kinds |= dict.fromkeys([outcome.returned] if outcome.returned else [])
    return f"integers, as {', '.join(kinds)}" if kinds else "integers"


@contextmanager
def states_kept() -> Iterator[None]:
    """Put the process's own generators back on leaving."""
    legacy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    torch = sys.modules.get("torch")
    state = torch.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        np.random.set_state(legacy)  # noqa: NPY002
        random.setstate(python)
        if torch is not None:
            torch.set_rng_state(state)


def seeded(seed: int) -> np.random.Generator:
    """Seed the process's generators and return one to hand over."""
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed)
    return np.random.Generator(np.random.PCG64([20253, seed]))


BATCHES = 24
BATCH_VOCAB, BATCH_GAMMA = 5, 3


def batch_rows(line: Line, rule: Rule, rows: int, seeded: Callable[[int], Any]) -> str:
    """Rows whose targets are one-hot: each has one output, whatever stands beside it.

    Row and position have a token of their own, and a row's drafts agree with it up to a
    length of its own, so that a row that is swapped, shifted or padded wrongly shows.
    """
    for seed in range(BATCHES):
        rng = seeded(seed)
        due = rng.integers(BATCH_VOCAB, size=(rows, BATCH_GAMMA + 1))
        drafted = np.where(
            rng.random((rows, BATCH_GAMMA)) < 0.7, due[:, :-1], rng.integers(BATCH_VOCAB)
        )
        target = np.eye(BATCH_VOCAB)[due]
        draft = np.full((rows, BATCH_GAMMA, BATCH_VOCAB), 1 / BATCH_VOCAB)
        problem = _problem(line, rule, (target, draft, drafted, rng), due)
        if problem:
            line.add("violation", problem)
            break
    return f"{BATCHES} calls of {rows} rows of one possible output each gave each row its own"


def _problem(line: Line, rule: Rule, batch: tuple[Any, ...], due: Any) -> str:
    try:
        results = list(rule(*batch))
    except Exception as error:
        return f"raised {what_was_raised(error)}"
    line.calls += 1
    if len(results) != len(due):
        return f"returned {len(results)} rows for {len(due)}"
    for b, row in enumerate(results):
        tokens = [int(x) for x in (row.tolist() if hasattr(row, "tolist") else row)]
        tokens = tokens[: tokens.index(-1)] if -1 in tokens else tokens
        if not tokens or tokens != due[b, : len(tokens)].tolist():
            return (
                f"row {b} of {len(due)} emitted {tokens} where its target allows only "
                f"{due[b].tolist()}"
            )
    return ""
