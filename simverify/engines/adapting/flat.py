"""The drafts of all requests one after the other, as servers hand them to their verifiers."""

from dataclasses import dataclass
from typing import Any

from simverify.engines.loading.stubs import torch


@dataclass(frozen=True, eq=False)
class Flat:
    """The N drafted places of a batch, request by request.

    Attributes
    ----------
    tokens
        What was drafted, int64 (N,).
    target, draft
        Rows that they are judged by, (N, V); they sum to 1.
    lengths, ends
        Drafts of each request, and drafts up to the end of it, int64 (B,).
    bonus
        A token of the target's row behind each whole draft, int64 (B, 1): servers draw it before.
    """

    tokens: Any
    target: Any
    draft: Any
    lengths: Any
    ends: Any
    bonus: Any


def flat(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Flat:
    """Return the drafted places of torch tensors (B, G), (B, G+1, V), (B, G, V) and (B,).

    The bonus tokens are drawn by torch's global generator.
    """
    requests, slots = (torch.arange(count) for count in draft_tokens.shape)
    drafted = slots < draft_len[:, None]
    return Flat(
        tokens=draft_tokens[drafted],
        target=target[:, :-1][drafted],
        draft=draft[drafted],
        lengths=draft_len,
        ends=draft_len.cumsum(0),
        bonus=torch.multinomial(target[requests, draft_len], 1),
    )
