"""Whether a deviation has the shape that rounding makes: another precision, tried on the tokens.

Rounding moves a logit up as often as down, the more the wider the logits lie apart, so that what
it does to a score mostly cancels in the mean. What it does is measured, by rows in the other
precision, in groups of tokens by the spread of their logits; the engine is held against that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.emitted.judging.evidence import OutputEvidence, logit_spread
from simverify.emitted.judging.features import centred, reached
from simverify.emitted.reading.requests import Request, first_tokens
from simverify.emitted.rescoring import distances, in_other_precision
from simverify.models.real.transformer import TransformerPair

TOKENS = 1024
"""First tokens that are scored in the other precision."""

ALPHA = 1e-3
"""Rate at which rounding is said to be none."""

_GROUPS = 4
_LEAST, _TERMS = 30, 5.0
"""Tokens of a group at least, in both samples, and its variance in units of its largest term: for
means that are nearly normal."""


@dataclass(frozen=True, eq=False)
class Rounding:
    """What another precision did to the tokens on which it was tried, ``tokens`` of them.

    ``tv``: mean TV distance of the rows. ``shift``: by how much a token's log-probability moved
    at most. ``moved``: float64 (n,) by name of a test, by how much the mean moved of what it
    sums up; ``reach``: by name, how far on average, whichever way. ``spreads``: float64 (n,),
    standard deviation of the rows' logits.
    """

    tokens: int
    tv: float
    shift: float
    moved: dict[str, Floats]
    reach: dict[str, float]
    spreads: Floats


def tried_rounding(kept: Sequence[Request], pair: TransformerPair, proxy: bool) -> Rounding:
    """Score the first tokens in float32 too, or in bfloat16 where the target is in float32."""
    moved: dict[str, list[Floats]] = {}
    reach: dict[str, list[Floats]] = {}
    off, spreads, shift = [], [], 0.0
    for scored, rows, moves in in_other_precision(first_tokens(kept, TOKENS), pair, proxy):
        for name, table in centred(scored.p_again, scored.p, scored.q).items():
            moved.setdefault(name, []).append((rows * table).sum(axis=1))
        for name, own in reached(scored.p_again, scored.p, scored.q, rows).items():
            reach.setdefault(name, []).append(own)
        off.append(distances(scored.p, rows))
        spreads.append(logit_spread(scored.p_again))
        shift = max(shift, float(moves.max()))
    every = {name: np.concatenate(own) for name, own in moved.items()}
    means = {name: float(np.abs(own).mean()) for name, own in every.items()}
    return Rounding(
        tokens=sum(map(len, off)),
        tv=float(np.concatenate(off).mean()),
        shift=shift,
        moved=every,
        reach=means | {name: float(np.concatenate(own).mean()) for name, own in reach.items()},
        spreads=np.concatenate(spreads),
    )


def shape_test(
    names: Sequence[str], found: OutputEvidence, rounding: Rounding
) -> stats.TestResult | None:
    """Test that rounding moved the means of the tests ``names``; None where too few tokens tell.

    Of several the worst is returned, each at its part of ``ALPHA``. Names of tests that are not
    of a mean tell nothing.
    """
    names = [name for name in names if name in found.deviations]
    spreads = np.concatenate(found.spreads)
    edges = np.quantile(rounding.spreads, np.arange(1, _GROUPS) / _GROUPS)
    groups, tried = np.searchsorted(edges, spreads), np.searchsorted(edges, rounding.spreads)
    results = []
    for name in names:
        off, variance = np.concatenate(found.deviations[name], axis=1)
        cells = [
            _cell(off[groups == g], variance[groups == g], rounding.moved[name][tried == g])
            for g in range(_GROUPS)
        ]
        whole = np.array([cell for cell in cells if cell is not None])
        if len(whole):
            results.append(
                stats.drift_test(
                    *whole.T, n=len(off), alpha=ALPHA / len(names), name=f"rounding, {name}"
                )
            )
    return min(results, key=lambda test: test.log_pvalue, default=None)


def _cell(off: Floats, variance: Floats, moved: Floats) -> tuple[float, ...] | None:
    """Mean and its variance of what was emitted, then of what rounding did."""
    if min(len(off), len(moved)) < _LEAST or variance.sum() < _TERMS * (off**2).max():
        return None
    return (
        float(off.mean()), float(variance.sum()) / len(off) ** 2,
        float(moved.mean()), float(moved.var()) / len(moved),
    )  # fmt: skip
