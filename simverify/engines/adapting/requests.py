"""The batch of an engine's call: requests of other lengths, temperatures and seeds side by side."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.arrays import Ints
from simverify.engines.adapting.batch import Batch
from simverify.errors import UsageError


@dataclass(frozen=True, eq=False)
class Requests(Batch):
    """A :class:`~simverify.engines.adapting.batch.Batch` of requests that differ.

    Attributes
    ----------
    draft_tokens
        int64 (B, G). From ``draft_len`` of the row on -1, or ids of an earlier call, which are
        none of this one; a -1 before that is a placeholder, and ends the draft.
    target_probs, draft_probs
        float64 (B, G+1, C) and (B, G, C) or None, with C = ``vocab`` or more columns. Rows sum
        to 1 over the first ``vocab``; what stands in the columns behind them is no probability.
        Rows behind the end of the draft are not this call's either.
    greedy
        bool (B,): the request is decoded at temperature 0, by the argmax of its target rows.
    seeds
        int64 (B,), or None: a request's tokens depend on its rows and its seed alone.
    vocab
        Ids below it are tokens. 0: all columns.
    """

    greedy: Any = None
    seeds: Ints | None = None
    vocab: int = 0

    def __post_init__(self) -> None:
        size, gamma = self.draft_tokens.shape
        columns = self.target_probs.shape[-1]
        if self.target_probs.shape != (size, gamma + 1, columns):
            raise UsageError(
                f"target_probs has shape {self.target_probs.shape}: pass (B, G+1, C) = "
                f"({size}, {gamma + 1}, C)"
            )
        greedy = np.zeros(size, dtype=bool) if self.greedy is None else self.greedy
        object.__setattr__(self, "greedy", greedy)
        object.__setattr__(self, "vocab", self.vocab or columns)

    @property
    def ends(self) -> Ints:
        """Tokens drafted, int64 (B,): up to ``draft_len``, or to the first placeholder."""
        slots = np.arange(self.gamma)
        drafted = (slots < self.draft_len[:, None]) & (self.draft_tokens >= 0)
        return np.asarray(np.cumprod(drafted, axis=1).sum(axis=1), dtype=np.int64)
