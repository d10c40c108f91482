"""Target rows of emitted tokens by teacher forcing, twice: the second says how far rounding goes.

The rows of the first scoring are the law that tokens are judged by. The second scores every
request alone; it sets the orders and scores, which must not be built from the row that carries
the noise, and its distance from the first is what the declared ball is measured by.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify.audit.outputs.requests import Request
from simverify.models.transformer import TransformerPair

Floats = npt.NDArray[np.float64]

BATCH = 16
"""Requests scored together at most."""

LOGIT_MARGIN = 0.1
"""How far below the least kept logit a token may lie and still count as support, at least."""

_ENTRIES = 1 << 26
"""Logits of a batch at most, 256 MB, one request excepted."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Tokens of a request with their rows.

    ``p``: float64 (n, V), law of each token; ``p_again``: that of the second scoring; ``q``:
    the proxy draft's, or None. ``gap``: float64 (n,), how far each token's logit lies below
    the least one that is kept, 0 for a token that is; ``shift``: float64 (n,), by how much the
    two scorings differ in the token's log-probability before anything is cut off.
    """

    number: int
    request: Request
    p: Floats
    p_again: Floats
    q: Floats | None
    gap: Floats
    shift: Floats


def rescore(requests: Sequence[Request], pair: TransformerPair, proxy: bool) -> Iterator[Scored]:
    """Yield each request with its rows, in order.

    Law and logits are those of ``pair``; with ``proxy`` its draft model gives the rows q.
    """
    for batch in _batches(requests, pair.vocab_size):
        together = _logits(pair, pair.target_model, [requests[i] for i in batch])
        drafts = _logits(pair, pair.draft_model, [requests[i] for i in batch]) if proxy else None
        for place, i in enumerate(batch):
            (alone,) = _logits(pair, pair.target_model, [requests[i]])
            tokens = np.array(requests[i].tokens)
            p = pair.sampling.rows(together[place])
            q = None if drafts is None else pair.sampling.rows(drafts[place])
            yield Scored(
                i, requests[i], p, pair.sampling.rows(alone), q,
                _gap(together[place], p, tokens),
                np.abs(_log_probability(together[place], tokens) - _log_probability(alone, tokens)),
            )  # fmt: skip


def other_precision(requests: Sequence[Request], pair: TransformerPair) -> list[Floats]:
    """Return the rows of a bfloat16 target in float32, (n, V) for each request; else none."""
    model = pair.target_model
    if str(model.dtype) != "torch.bfloat16":
        return []
    model.float()
    try:
        return [pair.sampling.rows(_logits(pair, model, [request])[0]) for request in requests]
    finally:
        model.bfloat16()  # the same weights: each is a float32 number


def distances(p: Floats, other: Floats) -> Floats:
    """TV distance of each pair of rows, float64 (n,)."""
    found: Floats = np.abs(p - other).sum(axis=1) / 2.0
    return found


def _batches(requests: Sequence[Request], vocab_size: int) -> Iterator[list[int]]:
    batch: list[int] = []
    longest = 0
    for i, request in enumerate(requests):
        width = max(longest, len(request.prompt) + len(request.tokens))
        if batch and (len(batch) == BATCH or width * (len(batch) + 1) * vocab_size > _ENTRIES):
            yield batch
            batch, width = [], len(request.prompt) + len(request.tokens)
        batch.append(i)
        longest = width
    if batch:
        yield batch


def _logits(
    pair: TransformerPair, model: object, requests: Sequence[Request]
) -> list[npt.NDArray[np.float32]]:
    """Logits before each emitted token, float32 (n, V) for each request."""
    fed = [(*request.prompt, *request.tokens[:-1]) for request in requests]
    found = pair.cached(model, len(requests)).feed(fed)
    return [rows[-len(r.tokens) :] for rows, r in zip(found, requests, strict=True)]


def _gap(logits: npt.NDArray[np.float32], p: Floats, tokens: npt.NDArray[np.int64]) -> Floats:
    least = np.where(p > 0.0, logits, np.inf).min(axis=1)
    own = logits[np.arange(len(tokens)), tokens]
    kept = p[np.arange(len(tokens)), tokens] > 0.0
    return np.where(kept, 0.0, np.maximum(least.astype(np.float64) - own, 0.0))


def _log_probability(logits: npt.NDArray[np.float32], tokens: npt.NDArray[np.int64]) -> Floats:
    x = logits.astype(np.float64)
    top = x.max(axis=1)
    total = np.log(np.exp(x - top[:, None]).sum(axis=1)) + top
    found: Floats = x[np.arange(len(tokens)), tokens] - total
    return found
