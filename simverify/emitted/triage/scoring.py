"""How far each emitted token is from the target's own choice, and how far rounding moves that.

A greedy token is the largest logit of its row. Rows are computed again by teacher forcing: among
other requests, alone, token after token as decoding does it, and in another precision. How far
these differ is what dtype and batch shape explain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.emitted.reading.requests import Request, first_tokens
from simverify.errors import SimverifyError
from simverify.models.real.transformer import TransformerPair

BATCH = 16
"""Texts scored together at most."""

STEP_TOKENS = 512
"""First tokens that are scored one after the other, which takes a call each."""

FACTOR = 2.0
"""How many times what rounding moved here an engine's own may come to."""

_ENTRIES = 1 << 26
"""Logits of a batch at most, 256 MB, one text excepted."""

Logits = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Path:
    """An answer's tokens beside the target's choices, each after the answer's own tokens.

    ``top``, ``second``: int64 (n,), the two largest logits of each row; ``lead``: float64 (n,), by
    how much the first is ahead. ``gap``: float64 (n,), by how much the emitted token is behind the
    largest logit, in that scoring in which it is least; 0: it is the target's choice. ``moved``:
    float64 (n,), by how much the scorings differ in how far the largest logit is ahead, of the
    second or of the emitted one. ``rank``: int64 (n,), tokens ahead of the emitted one.
    """

    top: Ints
    second: Ints
    lead: Floats
    gap: Floats
    moved: Floats
    rank: Ints

    def off(self, radius: float) -> Ints:
        """Return the places of tokens that are no choice of the target's within ``radius``."""
        return np.flatnonzero(self.gap > radius)


def scored(
    requests: Sequence[Request],
    pair: TransformerPair,
    other: TransformerPair | None = None,
) -> list[Path]:
    """Score each request; ``other`` is the target in another precision, None for none."""
    steps = _stepwise(first_tokens(requests, STEP_TOKENS), pair)
    found: list[Path] = []
    for together in batches([_text(request) for request in requests]):
        own = [requests[i] for i in together]
        for i, request, base in zip(together, own, forced(pair, own), strict=True):
            views = [forced(pair, [request])[0]]
            if other is not None:
                views.append(forced(other, [request])[0])
            if i < len(steps):
                views.append(steps[i])
            found.append(_path(np.array(request.tokens), base, views))
    return found


def forced(pair: TransformerPair, requests: Sequence[Request]) -> list[Logits]:
    """Logits before each emitted token, float32 (n, V) for each request, scored in one batch."""
    fed = [_text(request) for request in requests]
    rows = pair.cached(pair.target_model, len(fed)).feed(fed)
    return [own[-len(r.tokens) :] for own, r in zip(rows, requests, strict=True)]


def batches(texts: Sequence[Sequence[int]], rows: int = BATCH, size: int = 0) -> Iterator[range]:
    """Yield ranges of ``texts`` that are computed together: ``rows`` at most, and as memory has.

    ``size``: tokens of the vocabulary; 0 for no limit by it.
    """
    start, longest = 0, 0
    for i, text in enumerate(texts):
        longest = max(longest, len(text))
        if i > start and (i - start == rows or longest * (i - start + 1) * size > _ENTRIES):
            yield range(start, i)
            start, longest = i, len(text)
    if len(texts) > start:
        yield range(start, len(texts))


def _text(request: Request) -> tuple[int, ...]:
    return (*request.prompt, *request.tokens[:-1])


def _stepwise(requests: Sequence[Request], pair: TransformerPair) -> list[Logits]:
    """Logits as :func:`forced`, one token at a call, as an engine without drafts decodes."""
    found: list[Logits] = []
    for together in batches([r.prompt for r in requests]):
        own = [requests[i] for i in together]
        model = pair.cached(pair.target_model, len(own))
        rows = [[last[-1]] for last in model.feed([request.prompt for request in own])]
        for step in range(max(len(request.tokens) for request in own) - 1):
            # A request that has ended is fed its last token again, which nobody reads.
            fed = [[request.tokens[min(step, len(request.tokens) - 1)]] for request in own]
            for kept, last in zip(rows, model.feed(fed), strict=True):
                kept.append(last[-1])
        found += [np.stack(kept[: len(r.tokens)]) for kept, r in zip(rows, own, strict=True)]
    return found


def _path(tokens: Ints, base: Logits, views: Sequence[Logits]) -> Path:
    n = np.arange(len(tokens))
    x = base.astype(np.float64)
    if not np.isfinite(x.max(axis=1)).all():
        raise SimverifyError(
            "the target's logits hold NaN or infinity: nothing can be judged by it"
        )
    top = x.argmax(axis=1)
    rest = x.copy()
    rest[n, top] = -np.inf
    second = rest.argmax(axis=1)
    behind = np.stack([second, tokens], axis=1)
    gap, moved = x[n, top] - x[n, tokens], np.zeros(len(tokens))
    for view in views:
        k = len(view)  # the last request of those scored step by step may be cut
        other = view.astype(np.float64)
        off = other - x[:k]
        apart = off[n[:k], top[:k]][:, None] - np.take_along_axis(off, behind[:k], axis=1)
        moved[:k] = np.maximum(moved[:k], np.abs(apart).max(axis=1))
        gap[:k] = np.minimum(gap[:k], other.max(axis=1) - other[n[:k], tokens[:k]])
    rank = (x > x[n, tokens][:, None]).sum(axis=1)
    return Path(top, second, x[n, top] - x[n, second], gap, moved, rank)
