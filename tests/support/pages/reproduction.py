"""The counts of a compiled run, and the same counts made by the oracle."""

import numpy as np
from support.oracles import naive

from simverify.models.base import MarkovModel
from simverify.simulators.run import PIT_BINS, Counts, model_tables, simulate

SEED = 2**63 + 17
FIRST = 2**32 - 100  # so that runs cross 32 bits of trial


def reproduce(
    model: MarkovModel,
    rule: str,
    gamma: int,
    trials: int,
    *,
    calls: int = 1,
    eos: int | None = None,
    positions: int = 0,
    pit_positions: int = 0,
    debts: type[naive.Debts] = naive.Debts,
) -> Counts:
    """What ``simulate`` counts, by the oracle."""
    pair = naive.Pair.of(model, model_tables(model))
    accepted = np.zeros(gamma + 1, np.int64)
    lengths = np.zeros((2, calls), np.int64)
    transitions = np.zeros((positions, len(pair.p), pair.vocab_size), np.int64)
    pits = np.zeros((2, pit_positions, PIT_BINS), np.int64)
    for trial in range(FIRST, FIRST + trials):
        out = naive.generate(
            pair, rule, gamma, seed=SEED, trial=trial, calls=calls, eos=eos,
            positions=max(positions, pit_positions), debts=debts,
        )  # fmt: skip
        accepted[out.first_tau] += 1
        lengths += [out.lengths, np.square(out.lengths)]
        for n, token in enumerate(out.tokens[:positions]):
            transitions[n, pair.context(out.tokens[:n]), token] += 1
        for n, token in enumerate(out.tokens[:pit_positions]):
            v = naive.uniform(SEED, trial, naive.PIT, n)
            for order in range(2):
                u = naive.pit(pair, out.tokens[:n], token, v, order == 0)
                pits[order, n, min(int(u * PIT_BINS), PIT_BINS - 1)] += 1
    return Counts(trials, accepted, lengths, transitions, pits, 0)


def compiled(
    model: MarkovModel,
    rule: str,
    gamma: int,
    trials: int,
    *,
    calls: int = 1,
    eos: int | None = None,
    positions: int = 0,
    pit_positions: int = 0,
) -> Counts:
    tables = model_tables(model)
    return simulate(
        tables, rule, gamma, trials, seed=SEED, threads=1, calls=calls, eos=eos,
        transition_shape=(positions, *tables.target.shape),
        pit_positions=pit_positions, first_trial=FIRST,
    )  # fmt: skip


def agree(a: Counts, b: Counts) -> bool:
    names = ("accepted", "lengths", "transitions", "pits")
    return (a.trials, a.unsupported) == (b.trials, b.unsupported) and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in names
    )


def assert_reproduced(model: MarkovModel, rule: str, gamma: int, trials: int, **options) -> None:
    got = compiled(model, rule, gamma, trials, **options)
    assert agree(got, reproduce(model, rule, gamma, trials, **options))
