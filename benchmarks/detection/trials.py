"""Simulated runs of one fault: every test's p-value at growing sample sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from battery import Floats, LinearTest, Setting, oracle_pvalues, pit_keys
from calls import CallLaw
from instances import Rows

from simverify import stats

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tokens:
    """Emitted tokens: how often (n,) each token (n,) came in each context (n,)."""

    context: Ints
    token: Ints
    count: Ints


class Source(Protocol):
    """What tokens are drawn from; ``per_unit`` of them on average for a unit of sample size."""

    per_unit: float
    fixed_totals: bool

    def draw(self, first: int, last: int, rng: np.random.Generator) -> Tokens:
        """Tokens of the units ``first`` to ``last`` - 1 of a run."""


class Calls:
    """Calls of a faulty verifier, from their exact law."""

    fixed_totals = False

    def __init__(self, law: CallLaw) -> None:
        self.law, self.per_unit = law, law.tokens_per_call

    def draw(self, first: int, last: int, rng: np.random.Generator) -> Tokens:
        counts = self.law.counts(self.law.sample(last - first, rng))
        context, token = np.nonzero(counts)
        return Tokens(context, token, counts[context, token].astype(np.int64))


class Slots:
    """Judged slots: token t of a run is emitted in context t mod C, from its own law."""

    per_unit, fixed_totals = 1.0, True

    def __init__(self, emitted: Rows) -> None:
        self.emitted = emitted
        self.cdf = np.cumsum(emitted, axis=1)

    def draw(self, first: int, last: int, rng: np.random.Generator) -> Tokens:
        contexts, vocab = self.emitted.shape
        parts = []
        due = np.bincount(np.arange(first, last) % contexts, minlength=contexts)
        for c in np.flatnonzero(due):
            if due[c] < vocab // 8:
                at = rng.random(due[c]) * self.cdf[c, -1]
                token = np.minimum(np.searchsorted(self.cdf[c], at, side="right"), vocab - 1)
                count = np.ones_like(token)
            else:
                drawn = rng.multinomial(due[c], self.emitted[c])
                token = np.flatnonzero(drawn)
                count = drawn[token]
            parts.append((np.full(len(token), c), token, count))
        return Tokens(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class Trials:
    """Log p-values (runs, sizes) of each test, by name, and the level each has in the battery."""

    sizes: tuple[float, ...]
    log_pvalues: dict[str, Floats]
    levels: dict[str, float]


def simulate(
    setting: Setting,
    source: Source,
    linear: Sequence[LinearTest],
    orders: dict[str, float],
    g2: float | None,
    units: Sequence[int],
    runs: int,
    seed: Any,
) -> Trials:
    """Run the tests; ``orders`` of PITs and ``g2`` come with their levels in the battery.

    A run grows through ``units``, so that its sizes share their first samples.
    """
    rng = np.random.default_rng(seed)
    sums = np.zeros((runs, len(units), len(linear)))
    totals = np.zeros((runs, len(units), len(setting.target)), np.int64)
    rest = {f"PIT-KS, {order}": np.zeros((runs, len(units))) for order in orders}
    below = {order: pit_keys(setting, order) for order in orders}
    if g2 is not None:
        rest["G2"] = np.zeros((runs, len(units)))
    for run in range(runs):
        done = 0
        table = np.zeros(setting.target.shape, np.int64) if g2 is not None else None
        pits = {order: np.zeros(stats.PIT_BINS, np.int64) for order in orders}
        for k, size in enumerate(units):
            new = source.draw(done, size, rng)
            done = size
            if k:
                sums[run, k], totals[run, k] = sums[run, k - 1], totals[run, k - 1]
            totals[run, k] += np.bincount(new.context, new.count, len(setting.target)).astype(int)
            for i, test in enumerate(linear):
                sums[run, k, i] += new.count @ test.values[new.context, new.token]
            for order in orders:
                _add_pits(pits[order], below[order], setting.target, new, rng)
                rest[f"PIT-KS, {order}"][run, k] = stats.pit_ks(pits[order], alpha=0.5).log_pvalue
            if table is not None:
                np.add.at(table, (new.context, new.token), new.count)
                found = stats.transition_g2(table, setting.target)
                if found.df:
                    rest["G2"][run, k] = stats.g2_test(found, alpha=0.5).log_pvalue
    logs = {
        test.name: _linear_pvalues(test, setting.target, totals, sums[..., i], source.fixed_totals)
        for i, test in enumerate(linear)
    }
    levels = {test.name: test.level for test in linear}
    levels |= {f"PIT-KS, {order}": level for order, level in orders.items()}
    if g2 is not None:
        levels["G2"] = g2
    return Trials(tuple(n * source.per_unit for n in units), logs | rest, levels)


def _linear_pvalues(
    test: LinearTest, target: Rows, totals: Ints, sums: Floats, fixed: bool
) -> Floats:
    if test.kind == "oracle":
        return np.stack([oracle_pvalues(column) for column in sums.T], axis=1)
    if fixed:
        columns = [
            test.log_pvalues(target, totals[0, k].astype(np.float64), sums[:, k])
            for k in range(sums.shape[1])
        ]
        return np.stack(columns, axis=1)
    found = np.zeros_like(sums)
    for run, k in np.ndindex(*sums.shape):
        found[run, k] = test.log_pvalue(target, totals[run, k], float(sums[run, k]))
    return found


def _add_pits(pits: Ints, below: Rows, target: Rows, new: Tokens, rng: np.random.Generator) -> None:
    at = np.repeat(np.stack([below[new.context, new.token], target[new.context, new.token]]),
                   new.count, axis=1)  # fmt: skip
    u = at[0] + rng.random(at.shape[1]) * at[1]
    bins = np.minimum((u * len(pits)).astype(np.int64), len(pits) - 1)
    pits += np.bincount(bins, minlength=len(pits))
