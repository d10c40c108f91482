"""Which catalogued faults counted tokens refute, and which one they fit best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.battery.fault_rows import MAX_TESTED, FaultCounts

BETA = 1e-3
"""Rate at which a fault that is there, at the strength named, is refuted."""

_EXPLAINED = 0.75
"""Part of the deviation from which on a fault explains it."""

_FOUND = math.log(1e4)
"""Log e-value from which on a best fit is more than the best of many."""


@dataclass(frozen=True)
class Named:
    """What the tokens say of the catalogue.

    ``refuted``: faults, each at the smallest strength from which on its mixtures with the
    target are refuted at ``BETA``; ``not_refuted``: the other faults, but for those that emit
    nothing but the target in these contexts. ``best``: the mixture with the largest
    likelihood, None where nothing was asked or found; ``explains``: the part of the excess of
    the target's G2 that its own G2 lacks; where contexts do not repeat, of the PITs' excess
    over uniform. Both are a diagnosis, without an error rate.
    """

    refuted: tuple[stats.FaultAtStrength, ...]
    not_refuted: tuple[str, ...]
    best: stats.FaultAtStrength | None
    explains: float

    @property
    def fits(self) -> bool:
        """Whether the best fault is there, as far as one can see, and explains the deviation."""
        best = self.best
        return best is not None and best.log_evalue >= _FOUND and self.explains >= _EXPLAINED


def name_faults(tables: Sequence[FaultCounts], *, diagnose: bool) -> Named:
    """Pool ``tables`` of the same faults, slot by slot of single calls.

    ``diagnose``: name the best fit. It says nothing where no test rejected, nor of a rule with
    state, whose slots need not follow the target; there a fault can be refuted all the same,
    since its own slots have a law.
    """
    sums = reduce(add, (_sums(table) for table in tables))
    result = stats.ratio_gate(sums, alpha=0.5, beta=BETA)
    told = {table.names[m] for table in tables for m in table.telling}
    standing = tuple(fault for fault in result.not_refuted if fault in told)
    best = _likeliest(tables, sums) if diagnose else None
    explains = 0.0 if best is None else _explained(tables, best)
    return Named(result.refuted, standing, best, explains)


def _likeliest(
    tables: Sequence[FaultCounts], sums: stats.RatioSums
) -> stats.FaultAtStrength | None:
    """Mixture with the largest likelihood; ratios to a target that excludes a token are inf."""
    logs = np.array(
        [
            [sum(_log_likelihood(table, m, d) for table in tables) for d in stats.STRENGTHS]
            for m in range(len(sums.names))
        ]
    )
    m, s = np.unravel_index(int(logs.argmax()), logs.shape)
    log_evalue = float(sums.log_evalues[m, s])
    if not log_evalue > 0.0:
        return None
    return stats.FaultAtStrength(
        fault=sums.names[m], strength=stats.STRENGTHS[s], log_evalue=log_evalue
    )


def _mixed(table: FaultCounts, fault: int, strength: float) -> Floats:
    mixed: Floats = (1.0 - strength) * table.target + strength * table.rows[fault]
    return mixed


def _log_likelihood(table: FaultCounts, fault: int, strength: float) -> float:
    seen = table.counts > 0
    with np.errstate(divide="ignore"):
        return float(table.counts[seen] @ np.log(_mixed(table, fault, strength)[seen]))


def _explained(tables: Sequence[FaultCounts], best: stats.FaultAtStrength) -> float:
    """Part of the excess of the target's G2 over its mean that the mixture's does not have."""

    def excess(rows: Sequence[Floats], noise: float) -> float:
        parts = (stats.transition_g2(t.counts, r) for t, r in zip(tables, rows, strict=True))
        g2 = reduce(add, parts)
        return max(g2.statistic - g2.df - noise * math.sqrt(2.0 * g2.df), 0.0)

    whole = excess([table.target for table in tables], 0.0)
    mixed = [_mixed(t, t.names.index(best.fault), best.strength) for t in tables]
    # What two standard deviations of chance make is not left unexplained.
    left = excess(mixed, 2.0)
    return max(0.0, 1.0 - left / whole) if whole > 0.0 else 0.0


def ratio_tests(
    table: FaultCounts, shares: dict[str, float], *, last: bool
) -> list[stats.TestResult]:
    """Test the target against the first faults of ``table``.

    ``shares`` holds "gate" where the run has several looks: an e-process, whose share is spent
    once for all looks; and "ratios": the test of fixed size, asked at the ``last`` look alone.
    """
    # Of a row with one possible token the support test sees all there is to see.
    table = table.within((table.target > 0.0).sum(axis=1) > 1)
    tested = list(table.telling[:MAX_TESTED])
    if not tested:
        return []
    names, rows = [table.names[m] for m in tested], table.rows[tested]
    tests = []
    large = table.target.size > _MAX_EXACT
    if "gate" in shares or (large and last):
        # Where the exact tail takes too long, the e-value stands for it: a tenth more tokens.
        alpha = shares.get("gate", 0.0) + (shares["ratios"] if large else 0.0)
        sums = stats.ratio_sums(table.counts, table.target, rows, names=names)
        tests.append(stats.ratio_gate(sums, alpha=alpha, name="named faults, at any time").test)
    if last and not large:
        tests.append(
            stats.ratio_test(
                table.counts, table.target, rows, names=names, alpha=shares["ratios"],
                name="named faults",
            ).test
        )  # fmt: skip
    return tests


_MAX_EXACT = 1 << 14
"""Most entries of the rows for which tails of likelihood ratios are exact."""


def _sums(table: FaultCounts) -> stats.RatioSums:
    return stats.ratio_sums(table.counts, table.target, table.rows, names=table.names)
