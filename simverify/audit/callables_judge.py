"""The tests of one instance's emissions at one look, and what they promise.

Output laws and independence judge losslessness, and so does a rule that accepts more than
the optimum. How far E[tau] is from the optimum is judged apart, with its own share of alpha.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from simverify import stats
from simverify.audit.callables_run import Contract, Emissions
from simverify.audit.callables_tables import Floats, Ints, Tables
from simverify.stats.correlation import MIN_PAIRS, pair_sums, pit_correlation
from simverify.stats.independence import disjoint_pairs, duplicates_test, pair_g2
from simverify.verifiers import VERIFIERS, Verifier

_SHARES = {"output": 6.0, "independence": 2.0, "acceptance": 1.0, "optimality": 1.0}

_KNOWN_LAWS = ("block", "token", "match")


@dataclass(frozen=True)
class Judgement:
    """``tests`` decide together with ``findings``; ``optimality`` never decides.

    ``detectable``: mean one-token TV, by position and rows, that the pooled transition test
    finds with the run's power.
    """

    tests: tuple[stats.TestResult, ...]
    findings: tuple[str, ...]
    detectable: float
    optimality: str


def judge(
    tables: Tables,
    emissions: Emissions,
    contract: Contract,
    *,
    alpha: float,
    power: float,
    uniforms: Floats,
    rows: int | None,
    declared: Verifier | None,
) -> Judgement:
    """Test the emissions of one instance at level ``alpha``.

    ``uniforms`` (n,) in [0, 1) randomise the PITs; ``rows`` and ``declared`` as in
    :func:`~simverify.audit.callables.sample_callable`.
    """
    shares = stats.split_alpha(alpha, _SHARES)
    counts = transitions(tables, emissions)
    findings = list(_support(tables, counts))
    tests = [
        *_output_tests(tables, emissions, counts, shares["output"]),
        *_independence_tests(tables, emissions, uniforms, rows, shares["independence"]),
    ]
    if contract == "verify":
        tests.append(_lossy_test(tables, emissions, shares["acceptance"]))
    prefix = f"{tables.instance.name}: "
    findings += [_finding(test) for test in tests if test.rejected]
    optimality = _optimality(tables, emissions, contract, declared, shares["optimality"])
    detectable = _detectable(tables, counts, shares["output"], power)
    return Judgement(
        tuple(replace(test, name=prefix + test.name) for test in tests),
        tuple(prefix + finding for finding in findings),
        detectable,
        prefix + optimality,
    )


def transitions(tables: Tables, emissions: Emissions) -> list[Ints]:
    """Emitted tokens per position, each (contexts, V): completion tokens are not counted."""
    result = []
    for position, (context, rows) in enumerate(tables.contexts):
        emitted = emissions.tokens[emissions.lengths > position]
        cell = context[tables.codes(emitted, position)] * tables.vocab_size + emitted[:, position]
        result.append(np.bincount(cell, minlength=rows.size).reshape(rows.shape))
    return result


def predict_detectable(
    tables: Tables, pilot: Emissions, trials: int, alpha: float, *, power: float
) -> float:
    """Return the ``detectable`` of a run of ``trials``, from the contexts a pilot met."""
    scale = trials / len(pilot)
    expected = [
        np.rint(table.sum(axis=1, keepdims=True) * scale * rows).astype(np.int64)
        for table, (_, rows) in zip(transitions(tables, pilot), tables.contexts, strict=True)
    ]
    return _detectable(tables, expected, stats.split_alpha(alpha, _SHARES)["output"], power)


def _detectable(tables: Tables, counts: list[Ints], alpha: float, power: float) -> float:
    """Mean one-token TV that the pooled transition test finds with this power.

    Rows with one token are left out: there the support test sees every deviation.
    """
    used = sum(bool(table.any()) for table in counts)
    open_rows = [rows.max(axis=1) < 1.0 for _, rows in tables.contexts]
    parts = [
        stats.transition_g2(table[keep], rows[keep])
        for table, keep, (_, rows) in zip(counts, open_rows, tables.contexts, strict=True)
        if table[keep].any()
    ]
    if not parts:
        return 0.0
    total = reduce(add, parts)
    if total.df == 0:
        return math.inf
    share = stats.split_alpha(alpha, _output_weights(used, tables.length))["transitions"]
    found = stats.g2_min_detectable(total.df, total.n, alpha=share, power=power)
    return found + total.unresolved / total.n


def certificate(tables: Tables, emissions: Emissions, *, delta: float) -> stats.Certificate:
    """Bound the mean one-token TV on this instance; see ``stats.plug_in_certificate``."""
    rows = np.vstack([rows for _, rows in tables.contexts])
    return stats.plug_in_certificate(np.vstack(transitions(tables, emissions)), rows, delta=delta)


def _finding(test: stats.TestResult) -> str:
    if test.name == "acceptance above the optimum":
        return (
            f"lossy: Pr(tau >= {test.level}) is {test.statistic:.4f} above block verification, "
            f"which no lossless rule without state exceeds ({_p(test)})"
        )
    return f"{test.name}: {_p(test)}"


def _p(test: stats.TestResult) -> str:
    log10 = test.log_pvalue / np.log(10)
    return "p = 0" if test.log_pvalue == -np.inf else f"p = 1e{log10:.0f}"


def _support(tables: Tables, counts: list[Ints]) -> Iterator[str]:
    for position, (table, (_, rows)) in enumerate(zip(counts, tables.contexts, strict=True)):
        support = stats.support_violations(table, rows)
        if support.first is not None:
            token, count = support.first[1:]
            yield (
                f"support: token {token} emitted {count} times at position {position + 1} "
                "where its probability is 0"
            )


def _output_weights(positions: int, length: int) -> dict[str, float]:
    # One test of all positions holds the promised power; one of each tells where, and the
    # joint laws see what depends on more of the past than the rows do.
    weights = {"transitions": 4.0}
    weights |= {f"transitions, position {i + 1}": 2.0 / positions for i in range(positions)}
    return weights | {f"first {k} tokens": 3.0 / (length - 1) for k in range(2, length + 1)}


def _output_tests(
    tables: Tables, emissions: Emissions, counts: list[Ints], alpha: float
) -> Iterator[stats.TestResult]:
    used = sum(bool(table.any()) for table in counts)
    shares = stats.split_alpha(alpha, _output_weights(used, tables.length))
    parts = {
        f"transitions, position {position + 1}": stats.transition_g2(table, rows)
        for position, (table, (_, rows)) in enumerate(zip(counts, tables.contexts, strict=True))
        if table.any()
    }
    laws = {"transitions": reduce(add, parts.values()), **parts}
    for k in range(2, tables.length + 1):
        law = tables.joint(k)
        seen = np.bincount(tables.codes(emissions.tokens, k), minlength=law.size)
        laws[f"first {k} tokens"] = stats.transition_g2(seen[None], law[None])
    for name, g2 in laws.items():
        if g2.df > 0:
            test = stats.g2_test(g2, alpha=shares[name], name=name)
            joint = name.startswith("first")
            yield replace(test, deviation="joint TV") if joint else test


def _independence_tests(
    tables: Tables, emissions: Emissions, uniforms: Floats, rows: int | None, alpha: float
) -> Iterator[stats.TestResult]:
    """Pairs of calls in a row, and of rows of a batch at lags 1, 2 and half of it."""
    tokens, n = emissions.tokens, len(emissions)
    size = rows or 1
    lags = {"consecutive calls": (size, n)}
    lags |= {
        f"batch rows {lag} apart": (lag, size)
        for lag in sorted({1, 2, size // 2})
        if 0 < lag < size
    }
    law = tables.joint(tables.length)
    codes = tables.codes(tokens, tables.length)
    above = np.cumsum(law)
    pits = np.clip(above[codes] - (1.0 - uniforms) * law[codes], 0.0, 1.0)
    alpha /= 5 * len(lags)
    for name, (lag, span) in lags.items():
        first = np.arange(n - lag)
        first = first[first % span + lag < span] if span < n else first
        if len(first) >= MIN_PAIRS:
            pairs = pair_sums(pits[first], pits[first + lag])
            yield pit_correlation(pairs, alpha=alpha, name=f"{name}: correlation")
        for phase in range(2):
            first = disjoint_pairs(n, lag, phase) if span == n else _inside(n, span, lag, phase)
            if not len(first):
                continue
            second, half = first + lag, f"{name}, phase {phase}"
            g2 = pair_g2(tokens[first, 0], tokens[second, 0], tables.target[0][0])
            if g2.df > 0:
                test = stats.g2_test(g2, alpha=alpha, name=f"{half}: pairs of first tokens")
                yield replace(test, deviation="TV of the pair's law")
            equal = int((codes[first] == codes[second]).sum())
            chance = float((law**2).sum())
            yield duplicates_test(
                equal, len(first), chance, alpha=alpha, name=f"{half}: equal outputs"
            )


def _inside(n: int, span: int, lag: int, phase: int) -> Ints:
    """Disjoint pairs at ``lag`` within each of the batches of ``span`` rows."""
    within = disjoint_pairs(span, lag, phase)
    return (np.arange(0, n, span)[:, None] + within).ravel()


def _tails(tables: Tables, emissions: Emissions) -> list[int]:
    levels = range(1, tables.instance.gamma + 1)
    return [int((emissions.accepted >= level).sum()) for level in levels]


def _lossy_test(tables: Tables, emissions: Emissions, alpha: float) -> stats.TestResult:
    """No lossless rule without state has a larger Pr(tau >= l), at any l, than block."""
    block = tables.curve(VERIFIERS["block"])
    return stats.acceptance_test(
        _tails(tables, emissions), len(emissions), np.zeros_like(block), block,
        alpha=alpha, name="acceptance above the optimum",
    )  # fmt: skip


def _optimality(
    tables: Tables,
    emissions: Emissions,
    contract: Contract,
    declared: Verifier | None,
    alpha: float,
) -> str:
    values = emissions.accepted.astype(np.float64)
    if len(values) < 2:
        return "too few calls"
    if contract == "step":
        # How many drafts a position has is not known, so neither is the optimum.
        return f"the first call emits {values.mean() + 1:.4f} tokens on average"
    low, high = stats.empirical_bernstein(
        float(values.mean()), float(values.var(ddof=1)), len(values),
        low=0.0, high=float(tables.instance.gamma), confidence=1 - alpha / 2,
    )  # fmt: skip
    curves = {name: float(tables.curve(VERIFIERS[name]).sum()) for name in _KNOWN_LAWS}
    best = curves["block"]
    alike = [name for name, value in curves.items() if low <= value <= high]
    place = "within error of" if high >= best else "below"
    text = (
        f"E[tau] = {values.mean():.4f} ({low:.4f} to {high:.4f}), {place} the optimum "
        f"{best:.4f} (block)"
    )
    text += f"; as {' and '.join(alike)}" if alike else ""
    if declared is not None:
        curve = tables.curve(declared)
        test = stats.acceptance_test(
            _tails(tables, emissions), len(emissions), curve, curve, alpha=alpha / 2
        )
        if test.rejected:
            text += (
                f"; not {declared.name}: Pr(tau >= {test.level}) is {test.direction} "
                f"its law ({_p(test)})"
            )
    return text
