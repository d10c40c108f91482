"""Target rows of emitted tokens by teacher forcing, twice: the second shows the rounding.

The rows of the first scoring are the law that tokens are judged by. The second scores every
request alone; it sets the orders and scores, which must not be built from the row that carries
the noise, and its distance from the first measures the row tolerance.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.models.rounding import WeightFormat, use_weight_format
from simverify.models.transformer import TransformerPair
from simverify.served.distribution import Law, RowContext, min_logit_error
from simverify.served.requests import Request

# Variants of a token's log probability that an engine may report, computed from our rows.


_LOG_FLOOR = -100.0
"""In the place of the logarithm of nothing."""


def logprob_variants(
    logits: npt.NDArray[np.float32],
    drafts: npt.NDArray[np.float32] | None,
    request: Request,
    law: Law,
) -> dict[str, Floats]:
    """Log probabilities float64 (n,) of a request's tokens, by the kind of row that they are of."""
    tokens = np.array(request.tokens)
    at = np.arange(len(tokens))
    tempered = Law(law.temperature if law.temperature > 0.0 else 1.0)
    with np.errstate(divide="ignore"):
        raw_rows = np.log(Law().rows(logits))
        raw = raw_rows[at, tokens]

        def of(own: Law) -> Floats:
            return np.asarray(np.log(own.after(logits, request.prompt, request.tokens)[at, tokens]))

        uncut = replace(law, top_k=None, top_p=None, min_p=None, typical_p=None)
        logprobs = {
            "processed": of(law),
            "raw": raw,
            "by temperature alone": np.log(tempered.rows(logits)[at, tokens]),
            "before temperature": of(replace(uncut, temperature=1.0)),
            "before truncation": of(uncut if law.temperature > 0.0 else law),
        }
        logprobs = {name: np.maximum(own, _LOG_FLOOR) for name, own in logprobs.items()}
        logprobs["row before"] = np.append(np.nan, raw_rows[at[:-1], tokens[1:]])
        logprobs["row after"] = np.append(raw_rows[at[1:], tokens[:-1]], np.nan)
        logprobs["token before"] = np.append(np.nan, raw[:-1])
        if drafts is not None:
            logprobs["draft"] = np.log(Law().rows(drafts)[at, tokens])
    return logprobs


MAX_BATCH = 16
"""Requests scored together at most."""

LOGIT_MARGIN = 0.1
"""How far two logits may be off from each other, so that a token counts as support, at least."""

_TINY = float(np.finfo(np.float64).tiny)

_MAX_BATCH_LOGITS = 1 << 26
"""Logits of a batch at most, 256 MB, one request excepted."""


@dataclass(frozen=True, eq=False)
class ScoredRequest:
    """Tokens of a request with their rows.

    ``p``: float64 (n, V), law of each token; ``p_again``: that of the second scoring; ``q``:
    the proxy draft's, or None. ``gap``: float64 (n,), by how much two logits have to be off from
    each other for a token to be kept that is cut off (:func:`min_logit_error`), 0 for one that is
    kept; ``shift``: float64 (n,), by how much the two scorings differ in the token's
    log-probability before anything is cut off. ``rounded``: logits float32 (n, V) with rounded
    weights, by the name of the rounding; empty where they were not asked for. ``stated``,
    ``stated_again``: of a request with log probabilities of the engine's own, ours by both scorings
    (:func:`logprob_variants`).
    """

    number: int
    request: Request
    p: Floats
    p_again: Floats
    q: Floats | None
    gap: Floats
    shift: Floats
    rounded: Mapping[str, npt.NDArray[np.float32]]
    stated: Mapping[str, Floats]
    stated_again: Mapping[str, Floats]


def rescore(
    requests: Sequence[Request],
    pair: TransformerPair,
    proxy: bool,
    roundings: Callable[[], Mapping[str, WeightFormat]] = dict,
    *,
    first: int = 0,
) -> Iterator[ScoredRequest]:
    """Yield each request with its rows, in order.

    Logits are those of ``pair``, and so is the law where a request has none of its own; with
    ``proxy`` its draft model gives the rows q. A batch gets those of rounded weights too, of the
    ``roundings`` that there are when it begins. ``first``: number of the first request among all.
    """
    for batch in _request_batches(requests, pair.vocab_size):
        group = [requests[i] for i in batch]
        together = logits_before(pair, pair.target_model, group)
        drafts = logits_before(pair, pair.draft_model, group) if proxy else None
        others = rounded_weight_logits(pair, group, roundings())
        for place, i in enumerate(batch):
            (alone,) = logits_before(pair, pair.target_model, [requests[i]])
            tokens = np.array(requests[i].tokens)
            p = requests[i].rows(together[place], pair)
            q = None if drafts is None else requests[i].rows(drafts[place], pair)
            yield ScoredRequest(
                first + i,
                requests[i],
                p,
                requests[i].rows(alone, pair),
                q,
                _support_gaps(together[place], p, requests[i], requests[i].judged_by(pair)),
                np.abs(_log_probability(together[place], tokens) - _log_probability(alone, tokens)),
                {name: logits[place] for name, logits in others.items()},
                *_predicted_logprobs(
                    requests[i],
                    pair,
                    together[place],
                    alone,
                    None if drafts is None else drafts[place],
                ),
            )


def _predicted_logprobs(
    request: Request,
    pair: TransformerPair,
    logits: npt.NDArray[np.float32],
    again: npt.NDArray[np.float32],
    drafts: npt.NDArray[np.float32] | None,
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    if request.logprobs is None:
        return {}, {}
    law = request.judged_by(pair)
    return logprob_variants(logits, drafts, request, law), logprob_variants(
        again, None, request, law
    )


def rounded_weight_logits(
    pair: TransformerPair, requests: Sequence[Request], roundings: Mapping[str, WeightFormat]
) -> dict[str, list[npt.NDArray[np.float32]]]:
    """Return the logits before each token of requests, by the name of a rounding."""
    logits = {}
    for name, rounding in roundings.items():
        with use_weight_format(pair.target_model, rounding):
            logits[name] = logits_before(pair, pair.target_model, requests)
    return logits


def rescore_in_other_precision(
    requests: Sequence[Request], pair: TransformerPair, proxy: bool
) -> Iterator[tuple[ScoredRequest, Floats, Floats]]:
    """Yield requests with their rows in bfloat16 too, or in float32 of a target that is not.

    Last comes by how much the token's log-probability moves, float64 (n,).
    """
    import torch

    model = pair.target_model
    coarse = model.dtype == torch.float32
    fine = [] if coarse else _float32_logits(requests, pair)
    for scored in rescore(requests, pair, proxy):
        (logits,) = logits_before(pair, model, [scored.request])
        if coarse:
            with torch.autocast(model.device.type, torch.bfloat16):
                (other,) = logits_before(pair, model, [scored.request])
        else:
            other = fine[scored.number]
        tokens = np.array(scored.request.tokens)
        shift = np.abs(_log_probability(logits, tokens) - _log_probability(other, tokens))
        yield scored, scored.request.rows(other, pair), shift


def _float32_logits(
    requests: Sequence[Request], pair: TransformerPair
) -> list[npt.NDArray[np.float32]]:
    """Logits of a coarser target in float32; it is left as it was, to the bit."""
    model = pair.target_model
    # Not all of it need be coarse: a rotary embedding's frequencies stay in float32.
    dtypes = [(weight, weight.dtype) for weight in model.parameters()]
    buffers = [(module, dict(module._buffers)) for module in model.modules()]
    model.float()
    try:
        return [logits_before(pair, model, [request])[0] for request in requests]
    finally:
        for weight, dtype in dtypes:
            weight.data = weight.data.to(dtype)
        for module, tensors in buffers:
            module._buffers.update(tensors)


def tv_distances(p: Floats, other: Floats) -> Floats:
    """TV distance of each pair of rows, float64 (n,)."""
    tv: Floats = np.abs(p - other).sum(axis=1) / 2.0
    return tv


def complete_batches(requests: Sequence[Request], vocab_size: int) -> int:
    """Return how many of the first requests are in batches that no later request will join."""
    batches = list(_request_batches(requests, vocab_size))
    full = bool(batches) and len(batches[-1]) == MAX_BATCH
    return sum(map(len, batches if full else batches[:-1]))


def _request_batches(requests: Sequence[Request], vocab_size: int) -> Iterator[list[int]]:
    batch: list[int] = []
    longest = 0
    for i, request in enumerate(requests):
        width = max(longest, len(request.prompt) + len(request.tokens))
        if batch and (
            len(batch) == MAX_BATCH or width * (len(batch) + 1) * vocab_size > _MAX_BATCH_LOGITS
        ):
            yield batch
            batch, width = [], len(request.prompt) + len(request.tokens)
        batch.append(i)
        longest = width
    if batch:
        yield batch


def logits_before(
    pair: TransformerPair, model: object, requests: Sequence[Request]
) -> list[npt.NDArray[np.float32]]:
    """Logits before each emitted token, float32 (n, V) for each request."""
    fed = [(*request.prompt, *request.tokens[:-1]) for request in requests]
    logits = pair.cached(model, len(requests)).feed(fed)
    return [rows[-len(r.tokens) :] for rows, r in zip(logits, requests, strict=True)]


def _support_gaps(logits: npt.NDArray[np.float32], p: Floats, request: Request, law: Law) -> Floats:
    tokens = np.array(request.tokens)
    gaps = np.zeros(len(tokens))
    for i in np.flatnonzero(p[np.arange(len(tokens)), tokens] == 0.0):
        before = RowContext(request.prompt, request.tokens, int(i))
        gaps[i] = max(
            min_logit_error(logits[i].astype(np.float64), int(tokens[i]), law, before), _TINY
        )
    return gaps


def _log_probability(logits: npt.NDArray[np.float32], tokens: npt.NDArray[np.int64]) -> Floats:
    x = logits.astype(np.float64)
    top = x.max(axis=1)
    total = np.log(np.exp(x - top[:, None]).sum(axis=1)) + top
    values: Floats = x[np.arange(len(tokens)), tokens] - total
    return values
