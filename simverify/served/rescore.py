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
from simverify.models.distribution import Law, RowContext, min_logit_error
from simverify.models.rounding import WeightFormat, use_weight_format
from simverify.models.transformer import TransformerPair
from simverify.served.requests import Request

# A token's log probability in each of the variants that an engine may report.


_LOG_FLOOR = -100.0  # in the place of log 0


def logprob_variants(
    logits: npt.NDArray[np.float32],
    drafts: npt.NDArray[np.float32] | None,
    request: Request,
    law: Law,
) -> dict[str, Floats]:
    """Return log probabilities float64 (n,) of a request's tokens, by the kind of their row."""
    tokens = np.array(request.tokens)
    at = np.arange(len(tokens))
    tempered = Law(law.temperature if law.temperature > 0.0 else 1.0)
    with np.errstate(divide="ignore"):
        raw_rows = np.log(Law().rows(logits))
        raw = raw_rows[at, tokens]

        def of(variant: Law) -> Floats:
            return np.asarray(
                np.log(variant.after(logits, request.prompt, request.tokens)[at, tokens])
            )

        uncut = replace(law, top_k=None, top_p=None, min_p=None, typical_p=None)
        logprobs = {
            "processed": of(law),
            "raw": raw,
            "by temperature alone": np.log(tempered.rows(logits)[at, tokens]),
            "before temperature": of(replace(uncut, temperature=1.0)),
            "before truncation": of(uncut if law.temperature > 0.0 else law),
            "after top-k": of(replace(uncut, top_k=law.top_k)),
            "after top-p": of(replace(uncut, top_p=law.top_p)),
            "after top-k at temperature 1": of(replace(uncut, temperature=1.0, top_k=law.top_k)),
        }
        logprobs = {name: np.maximum(values, _LOG_FLOOR) for name, values in logprobs.items()}
        logprobs["row before"] = np.append(np.nan, raw_rows[at[:-1], tokens[1:]])
        logprobs["row after"] = np.append(raw_rows[at[1:], tokens[:-1]], np.nan)
        logprobs["token before"] = np.append(np.nan, raw[:-1])
        if drafts is not None:
            logprobs["draft"] = np.log(Law().rows(drafts)[at, tokens])
    return logprobs


MAX_BATCH = 16  # requests scored together at most
LOGIT_MARGIN = 0.1  # a token within this of the kept logits counts as support, at least
_MAX_BATCH_LOGITS = 1 << 26  # 256 MB; a single request may exceed it


@dataclass(frozen=True, eq=False)
class ScoredRequest:
    """The tokens of a request with their rows.

    ``law``: by which it is judged. ``logits``: float32 (n, V). ``p``: float64 (n, V), the
    distribution of each token; ``p_again``: that of the second scoring; ``q``: that of the proxy
    draft, or None. ``gap``: float64 (n,), the error of logits at which a token that is cut off
    would be kept (:func:`min_logit_error`), 0 for one that is kept. ``shift``: float64 (n,), the
    difference of the two scorings in the token's log probability before truncation. ``rounded``:
    logits float32 (n, V) with rounded weights, by the name of the rounding, if any. ``stated``,
    ``stated_again``: for a request with log probabilities of the engine, ours by both scorings
    (:func:`logprob_variants`).
    """

    number: int
    request: Request
    law: Law
    logits: npt.NDArray[np.float32]
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
    """Yield each request with its rows, in order; ``first`` is the number of the first request.

    Logits are those of ``pair``, and so is the distribution of a request that declares none. With
    ``proxy`` its draft model gives the rows q. Each batch is also scored with the ``roundings``
    that are returned when it begins.
    """
    for batch in request_batches(requests, pair.vocab_size):
        group = requests[batch.start : batch.stop]
        together = logits_before(pair, pair.target_model, group)
        drafts = logits_before(pair, pair.draft_model, group) if proxy else [None] * len(group)
        others = rounded_weight_logits(pair, group, roundings())
        for place, (request, logits, draft) in enumerate(zip(group, together, drafts, strict=True)):
            (alone,) = logits_before(pair, pair.target_model, [request])
            p, law = request.rows(logits, pair), request.judged_by(pair)
            stated = request.logprobs is not None
            yield ScoredRequest(
                number=first + batch.start + place,
                request=request,
                law=law,
                logits=logits,
                p=p,
                p_again=request.rows(alone, pair),
                q=None if draft is None else request.rows(draft, pair),
                gap=_support_gaps(logits, p, request, law),
                shift=_logprob_shift(logits, alone, request),
                rounded={name: rows[place] for name, rows in others.items()},
                stated=logprob_variants(logits, draft, request, law) if stated else {},
                stated_again=logprob_variants(alone, None, request, law) if stated else {},
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

    Last comes by how much the token's log probability moves, float64 (n,).
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
        shift = _logprob_shift(logits, other, scored.request)
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
    return np.asarray(np.abs(p - other).sum(axis=1) / 2.0)


def dtype_name(pair: TransformerPair) -> str:
    """Return the precision that the target computes in, such as float32."""
    return str(pair.target_model.dtype).removeprefix("torch.")


def request_batches(requests: Sequence[Request], vocab_size: int) -> Iterator[range]:
    """Yield ranges of requests that are scored together."""
    return length_batches([len(r.prompt) + len(r.tokens) for r in requests], vocab_size)


def length_batches(lengths: Sequence[int], vocab_size: int = 0) -> Iterator[range]:
    """Yield ranges of texts with ``lengths`` that are scored together; vocabulary 0: no limit."""
    start, longest = 0, 0
    for i, length in enumerate(lengths):
        longest = max(longest, length)
        count = i - start
        if count == MAX_BATCH or (count and longest * (count + 1) * vocab_size > _MAX_BATCH_LOGITS):
            yield range(start, i)
            start, longest = i, length
    if lengths:
        yield range(start, len(lengths))


def complete_batches(requests: Sequence[Request], vocab_size: int) -> int:
    """Return how many of the first requests are in batches that no later request will join."""
    batches = list(request_batches(requests, vocab_size))
    full = bool(batches) and len(batches[-1]) == MAX_BATCH
    return sum(map(len, batches if full else batches[:-1]))


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
        error = min_logit_error(logits[i].astype(np.float64), int(tokens[i]), law, before)
        gaps[i] = max(error, float(np.finfo(np.float64).tiny))
    return gaps


def _logprob_shift(
    logits: npt.NDArray[np.float32], other: npt.NDArray[np.float32], request: Request
) -> Floats:
    """How far each token's log probability moves between two scorings, float64 (n,)."""

    def logprobs(rows: npt.NDArray[np.float32]) -> Floats:
        x = rows.astype(np.float64)
        top = x.max(axis=1)
        total = np.log(np.exp(x - top[:, None]).sum(axis=1)) + top
        return np.asarray(x[np.arange(len(x)), np.array(request.tokens)] - total)

    return np.abs(logprobs(logits) - logprobs(other))
