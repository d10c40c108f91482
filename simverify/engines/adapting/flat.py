"""The drafts of all requests one after the other, as servers hand them to their verifiers."""

from dataclasses import dataclass
from typing import Any

from simverify.engines.adapting.requests import Requests
from simverify.engines.loading.stubs import torch


@dataclass(frozen=True, eq=False)
class Flat:
    """The N drafted places of a batch, request by request.

    Attributes
    ----------
    tokens
        What was drafted, int64 (N,).
    target, draft
        Rows that they are judged by, (N, V); they sum to 1. ``draft`` may be None.
    lengths, ends
        Drafts of each request, and drafts up to the end of it, int64 (B,).
    bonus
        A token of the target's row behind each whole draft, int64 (B, 1): servers draw it before.
    greedy
        bool (B,): decoded by the likeliest token.
    generators
        torch's generators of the requests that have a seed, by their numbers.
    """

    tokens: Any
    target: Any
    draft: Any
    lengths: Any
    ends: Any
    bonus: Any
    greedy: Any
    generators: dict[int, Any]


def flat(draft_tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Requests) -> Flat:
    """Return the drafted places of torch tensors (B, G), (B, G+1, V), (B, G, V) and (B,).

    The bonus tokens are drawn by a request's own generator, or by torch's global one.
    """
    seeds = [] if batch.seeds is None else batch.seeds.tolist()
    generators = {i: torch.Generator().manual_seed(seed) for i, seed in enumerate(seeds)}
    requests, slots = (torch.arange(count) for count in draft_tokens.shape)
    drafted = slots < draft_len[:, None]
    return Flat(
        tokens=draft_tokens[drafted],
        target=target[:, :-1][drafted],
        draft=None if draft is None else draft[drafted],
        lengths=draft_len,
        ends=draft_len.cumsum(0),
        bonus=bonus_of(target[requests, draft_len], batch, generators),
        greedy=torch.tensor(batch.greedy),
        generators=generators,
    )


def bonus_of(rows: Any, batch: Requests, generators: dict[int, Any] | None = None) -> Any:
    """Return a token of each row (B, V), as (B, 1): the likeliest of a greedy request's."""
    if batch.greedy.any():
        likeliest = torch.nn.functional.one_hot(rows.argmax(-1), rows.shape[-1]).to(rows.dtype)
        rows = torch.where(torch.tensor(batch.greedy)[:, None], likeliest, rows)
    drawn = torch.multinomial(rows, 1)
    for i, generator in (generators or {}).items():
        drawn[i] = torch.multinomial(rows[i], 1, generator=generator)
    return drawn
