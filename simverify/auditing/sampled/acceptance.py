"""How many tokens code accepts, and which: against the optimum, the rules, and the target."""

import numpy as np

from simverify import stats
from simverify.arrays import Floats, Ints
from simverify.auditing.sampled.emissions import Emissions
from simverify.auditing.sampled.run import Contract
from simverify.auditing.sampled.tables import Tables
from simverify.verifiers import VERIFIERS

_KNOWN_LAWS = ("block", "token", "match")
_LEVEL = 1e-4
"""Level at which accepted tokens are told apart, to say where a fault sits."""


def lossy_test(tables: Tables, emissions: Emissions, alpha: float) -> stats.TestResult:
    """No lossless rule without state has a larger Pr(tau >= l), at any l, than block."""
    block = tables.curve(VERIFIERS["block"])
    return stats.acceptance_test(
        _tails(tables, emissions), len(emissions), np.zeros_like(block), block,
        alpha=alpha, name="acceptance above the optimum",
    )  # fmt: skip


def accepted_too_much(tables: Tables, emissions: Emissions) -> bool:
    """Whether some token is accepted more often than the target lets it be emitted at all.

    Then no corrected token can make up for it: the acceptance is wrong.
    """
    from scipy import stats as laws  # half a second that few processes need

    log_p, cells = 0.0, 0
    for accepted, totals, target, _ in _accepted(tables, emissions):
        tail = laws.binom.logsf(accepted - 1, totals[:, None], target)
        log_p, cells = min(log_p, float(tail.min())), cells + target.size
    return bool(log_p + np.log(cells) < np.log(_LEVEL))


def accepts_as_token(tables: Tables, emissions: Emissions) -> bool:
    """Whether accepted tokens follow the token rule's min(p, q), rejections its rest."""
    parts = []
    for accepted, totals, target, draft in _accepted(tables, emissions):
        if totals.any():
            kept = np.minimum(target, draft)
            law = np.column_stack([kept, np.maximum(1.0 - kept.sum(axis=1), 0.0)])
            counts = np.column_stack([accepted, totals - accepted.sum(axis=1)])
            parts.append(stats.transition_g2(counts, law / law.sum(axis=1, keepdims=True)))
    g2 = sum(parts[1:], parts[0])
    return g2.df > 0 and stats.g2_test(g2, alpha=0.5).log_pvalue > np.log(_LEVEL)


def _accepted(tables: Tables, emissions: Emissions) -> list[tuple[Ints, Ints, Floats, Floats]]:
    """Per judged slot: accepted tokens (contexts, V), all tokens (contexts,), p, q rows."""
    result = []
    size = tables.vocab_size
    for slot, (context, target, draft) in enumerate(tables.contexts[: tables.instance.gamma]):
        there = emissions.lengths > slot
        contexts = context[tables.codes(emissions.tokens[there], slot)]
        kept = emissions.accepted[there] > slot
        cell = contexts[kept] * size + emissions.tokens[there, slot][kept]
        accepted = np.bincount(cell, minlength=target.size).reshape(target.shape)
        totals = np.bincount(contexts, minlength=len(target))
        result.append((accepted, totals, target, draft))
    return result


def optimality(
    tables: Tables,
    emissions: Emissions,
    contract: Contract,
    alpha: float,
) -> str:
    """Say how far E[tau] is from the optimum, and which rules it is like; it never decides."""
    values = emissions.accepted.astype(np.float64)
    if len(values) < 2:
        return "too few calls"
    if contract == "step":
        # How many drafts a position has is not known, so neither is the optimum.
        return f"the first call emits {values.mean() + 1:.4f} tokens on average"
    low, high = stats.empirical_bernstein(
        float(values.mean()), float(values.var(ddof=1)), len(values),
        low=0.0, high=float(tables.instance.gamma), error=alpha / 2,
    )  # fmt: skip
    curves = {name: float(tables.curve(VERIFIERS[name]).sum()) for name in _KNOWN_LAWS}
    best = curves["block"]
    alike = [name for name, value in curves.items() if low <= value <= high]
    place = "within error of" if high >= best else "below"
    text = (
        f"E[tau] = {values.mean():.4f} ({low:.4f} to {high:.4f}), {place} the optimum "
        f"{best:.4f} (block)"
    )
    return text + (f"; as {' and '.join(alike)}" if alike else "")


def _tails(tables: Tables, emissions: Emissions) -> list[int]:
    levels = range(1, tables.instance.gamma + 1)
    return [int((emissions.accepted >= level).sum()) for level in levels]
