"""Drafting token by token with a draft model: what the others are compared with."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from simverify.drafting.drafter import Logits
from simverify.models.real.kv_cache import CachedModel
from simverify.models.real.whole_model import WholeModel


class Plain:
    """Drafts of a causal model, which is fed every token once.

    Parameters
    ----------
    model
        As :class:`~simverify.models.real.kv_cache.CachedModel` takes it.
    requests
        Size of the batch.
    whole
        Whether nothing can be taken back from the model's memory, so that it is to have none.
    """

    def __init__(self, model: Any, requests: int, *, whole: bool = False) -> None:
        self.cached = (WholeModel if whole else CachedModel)(model, requests)
        self.drafted = 0
        """Drafts of this phase that were fed to each request's chain."""

    def read(self, request: int, tokens: Sequence[int]) -> None:
        """Begin a request with its prompt, but for the prompt's last token."""
        self.cached.read(request, tokens)

    def begin(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """Begin a phase; return float32 (requests, V), the logits for the first drafts."""
        return last(self.cached.feed(tokens))

    def extend(self, tokens: Sequence[int]) -> Logits:
        """Append one draft to each request's; return float32 (requests, V), for the next ones."""
        self.drafted += 1
        return last(self.cached.feed([[token] for token in tokens]))

    def grow(
        self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]
    ) -> list[Logits]:
        """Append nodes to the requests' draft trees; return (n_r, V), the logits after each."""
        return self.cached.grow(tokens, parents)

    def accept(self, kept: Sequence[Sequence[int]]) -> None:
        """End the phase: of each request the drafts that have come into the text, by number."""
        if self.drafted:
            self.cached.take_back([self.drafted - len(way) for way in kept])
        else:
            self.cached.keep(kept)
        self.drafted = 0

    def end(self, requests: Sequence[bool]) -> None:
        """Forget the texts of the requests that have ended."""
        self.cached.take_back(np.where(requests, self.cached.lengths, 0).tolist())

    def select(self, requests: Sequence[int]) -> None:
        """Go on with these requests of the batch, in this order."""
        self.cached.select(requests)


def last(logits: Sequence[Logits]) -> Logits:
    """Stack the last row of each request: float32 (requests, V)."""
    return np.stack([own[-1] for own in logits])
