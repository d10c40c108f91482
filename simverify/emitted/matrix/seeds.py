"""Whether a seed is honoured: the same answers to the same seed, others to another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simverify.arrays import Floats
from simverify.emitted.reading.requests import Request
from simverify.emitted.rescoring import logits_before
from simverify.models.real.transformer import TransformerPair
from simverify.results import CellOutcome

ENOUGH = 0.25
"""Share of an answer that two requests of a seed have in common where rounding parts them."""


@dataclass(frozen=True)
class SeedFound:
    """What became of seeds, in words too; ``log_evalue``: against the answers being independent."""

    outcome: CellOutcome
    words: str
    log_evalue: float


def judge_seeds(
    first: Sequence[Request], again: Sequence[Request], other: Sequence[Request],
    pair: TransformerPair, alpha: float,
) -> SeedFound:  # fmt: skip
    """Compare answers to a seed, to the same once more, and to another, prompt by prompt.

    What two independent answers have in common at their beginning has a chance that the first one's
    rows give; what beats ``alpha`` is not chance.
    """
    same = [_common(a, b) for a, b in zip(first, again, strict=True)]
    stray = [_common(a, b) for a, b in zip(first, other, strict=True)]
    whole = [
        n == len(a.tokens) == len(b.tokens) for n, a, b in zip(same, first, again, strict=True)
    ]
    shared, shared_other = (_log_chance(first, found, pair) for found in (same, stray))
    limit = np.log(1.0 / alpha)
    if shared_other >= limit:
        return SeedFound("other", "another seed gives the same answers", shared_other)
    if shared < limit:
        whole_answers = _log_chance(first, [len(r.tokens) for r in first], pair)
        if whole_answers < limit:
            return SeedFound("inconclusive", "answers are too certain to tell seeds by", shared)
        return SeedFound("dropped", "the same seed gives other answers", shared)
    if all(whole):
        return SeedFound("honoured", f"{len(same)} answers repeat", shared)
    share = float(np.mean([n / len(a.tokens) for n, a in zip(same, first, strict=True)]))
    words = f"{sum(whole)} of {len(whole)} answers repeat whole, {share:.0%} of them on average"
    return SeedFound("honoured" if share >= ENOUGH else "other", words, shared)


def _common(a: Request, b: Request) -> int:
    """How many tokens two answers begin with alike."""
    pairs = zip(a.tokens, b.tokens, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a.tokens), len(b.tokens)))


def _log_chance(requests: Sequence[Request], common: Sequence[int], pair: TransformerPair) -> float:
    """Minus the log chance that answers drawn anew begin with as much of these."""
    total = 0.0
    for request, n in zip(requests, common, strict=True):
        if n:
            total -= float(np.log(np.maximum(_own(request, pair)[:n], 1e-300)).sum())
    return total


def _own(request: Request, pair: TransformerPair) -> Floats:
    (logits,) = logits_before(pair, pair.target_model, [request])
    rows = request.rows(logits, pair)
    found: Floats = rows[np.arange(len(rows)), np.array(request.tokens)]
    return found
