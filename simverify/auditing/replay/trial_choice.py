"""Which trial of a failing sampled run to look at, and its address."""

import itertools
from collections.abc import Sequence

import numpy as np

from simverify import results
from simverify.auditing.sampled.emissions import Misuse
from simverify.auditing.sampled.run import Contract, Runner
from simverify.auditing.sampled.tables import SampledInstance

_TELLING = 4.0
"""Standard deviations from which on an output is called too frequent."""


def misused(misuse: Misuse, runners: Sequence[Runner], contract: Contract) -> results.FailingTrial:
    """Return the trial in which the code broke its contract."""
    runner = runners[misuse.number]
    why = f"the first that breaks the contract: {misuse}"
    return _document(runner, contract, misuse.trial, why, pilot=misuse.pilot)


def chosen(
    runners: Sequence[Runner], failed: Sequence[int], contract: Contract
) -> results.FailingTrial:
    """Return the trial that shows best what the instances numbered ``failed`` show.

    The first that emits a token of probability zero; else the first that emits the beginning
    of an output that is most too frequent, by standard deviations; else, where no output is
    and what failed is a dependence, the very first.
    """
    for number in failed:
        if (found := _unsupported(runners[number])) is not None:
            trial, position, token = found
            why = f"the first with token {token} at position {position + 1}, where p = 0"
            return _document(runners[number], contract, trial, why)
    excess, number, trial, why = max(_most_frequent(runners[n], n) for n in failed)
    if excess < _TELLING:
        number, trial = failed[0], 0
        why = "the first: no output alone is too frequent, what failed is how trials hang together"
    return _document(runners[number], contract, trial, why)


def _unsupported(runner: Runner) -> tuple[int, int, int] | None:
    """Return (trial, position, token) of the first emitted token of probability zero."""
    tokens, tables = runner.emissions.tokens, runner.tables
    first = None
    for position, rows in enumerate(tables.target):
        here = rows[tables.codes(tokens, position), tokens[:, position]]
        (trials,) = np.nonzero((here == 0) & (runner.emissions.lengths > position))
        if len(trials) and (first is None or trials[0] < first[0]):
            first = int(trials[0]), position, int(tokens[trials[0], position])
    return first


def _most_frequent(runner: Runner, number: int) -> tuple[float, int, int, str]:
    """Return (standard deviations, instance, trial, why) of the most too frequent beginning."""
    tokens, tables, n = runner.emissions.tokens, runner.tables, len(runner.emissions)
    best = (-np.inf, number, 0, "")
    for length in range(1, tables.length + 1):
        law, codes = tables.joint(length), tables.codes(tokens, length)
        seen, due = np.bincount(codes, minlength=law.size), n * law
        excess = (seen - due) / np.sqrt(np.maximum(due, 1.0))
        cell = int(excess.argmax())
        if excess[cell] > best[0]:
            # One that emitted all of it, rather than one that was completed to it.
            own = (codes == cell) & (runner.emissions.lengths >= length)
            trial = int((own if own.any() else codes == cell).argmax())
            begins = ", ".join(map(str, tokens[trial, :length]))
            why = (
                f"the first that emits {begins}, the beginning of a completed output that is most "
                f"too frequent: {seen[cell]:,} of {n:,} trials, {due[cell]:,.1f} due"
            )
            best = (float(excess[cell]), number, trial, why)
    return best


def _document(
    runner: Runner, contract: Contract, trial: int, why: str, *, pilot: bool = False
) -> results.FailingTrial:
    emitted = None
    if not pilot and trial < len(runner.emissions):
        length = runner.emissions.lengths[trial]
        emitted = tuple(runner.emissions.tokens[trial, :length].tolist())
    return results.FailingTrial(
        instance=_rows(runner.instance, contract),
        number=runner.number,
        pilot=pilot,
        trial=trial,
        emitted=emitted,
        why=why,
    )


def _rows(instance: SampledInstance, contract: Contract) -> results.Instance:
    gamma = instance.gamma
    depth = gamma
    if contract == "step":
        # The last call of an earlier generation may begin deeper than that of the output.
        depth += max(gamma, (instance.earlier_calls - 1) * (gamma + 1))
    prefixes = [
        prefix
        for length in range(depth + 1)
        for prefix in itertools.product(range(instance.model.vocab_size), repeat=length)
    ]
    keys = [",".join(map(str, prefix)) for prefix in prefixes]
    return results.Instance(
        name=instance.model.name,
        vocab_size=instance.model.vocab_size,
        gamma=gamma,
        target_probs={
            k: tuple(instance.model.target(x).tolist()) for k, x in zip(keys, prefixes, strict=True)
        },
        draft_probs={
            k: tuple(instance.model.draft(x).tolist()) for k, x in zip(keys, prefixes, strict=True)
        },
        earlier_calls=instance.earlier_calls,
        eos=instance.eos,
    )
