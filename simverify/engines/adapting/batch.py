"""The canonical batch that engines' functions are adapted from, and what they give back."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.arrays import Floats, Ints
from simverify.errors import UsageError

PAD = -1


@dataclass(frozen=True, eq=False)
class Batch:
    """Drafted blocks with their rows. Probabilities are canonical; adapters take logs.

    Attributes
    ----------
    draft_tokens
        int64 (B, G), ids in 0..V-1; -1 from ``draft_len`` of the row on.
    target_probs
        float64 (B, G+1, V); row i follows ``draft_tokens[:, :i]``.
    draft_probs
        float64 (B, G, V), or None: every draft is one-hot.
    draft_len
        int64 (B,), in 0..G.

    Shapes and ids are checked (``UsageError``); the rows' values are not, because probes put
    zero and NaN rows through the same door.
    """

    draft_tokens: Ints
    target_probs: Floats
    draft_probs: Floats | None
    draft_len: Ints

    def __post_init__(self) -> None:
        _batch_iv(self)

    @classmethod
    def of_block(cls, target_probs: Any, draft_probs: Any, draft_tokens: Any) -> "Batch":
        """Return a batch of one from a ``verify`` call's arguments."""
        tokens = np.array(draft_tokens, dtype=np.int64)[None]
        return cls(
            tokens,
            np.array(target_probs, dtype=np.float64)[None],
            None if draft_probs is None else np.array(draft_probs, dtype=np.float64)[None],
            np.array([tokens.shape[1]], dtype=np.int64),
        )

    @property
    def size(self) -> int:
        """Number of blocks B."""
        return int(self.draft_tokens.shape[0])

    @property
    def gamma(self) -> int:
        """Longest draft G."""
        return int(self.draft_tokens.shape[1])

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.target_probs.shape[2])


@dataclass(frozen=True, eq=False)
class Emitted:
    """What an engine emitted: ``tokens`` int64 (B, G+1), -1 from ``num_emitted`` (B,) on.

    Ids are not checked: a wrong one is the audit's to find. Raises ``UsageError`` on shapes
    and on a padding that ``num_emitted`` contradicts.
    """

    tokens: Ints
    num_emitted: Ints

    def __post_init__(self) -> None:
        _emitted_iv(self)

    def row(self, b: int) -> list[int]:
        """Return the tokens of block ``b``, without padding."""
        return [int(token) for token in self.tokens[b, : self.num_emitted[b]]]


def _batch_iv(batch: Batch) -> None:
    tokens, target, draft = batch.draft_tokens, batch.target_probs, batch.draft_probs
    if tokens.ndim != 2 or tokens.dtype != np.int64:
        raise UsageError(f"draft_tokens is {tokens.dtype} {tokens.shape}: pass int64 (B, G)")
    size, gamma = tokens.shape
    if target.ndim != 3 or target.shape[:2] != (size, gamma + 1):
        raise UsageError(
            f"target_probs has shape {target.shape}, draft_tokens {tokens.shape}: "
            f"pass (B, G+1, V) = ({size}, {gamma + 1}, V)"
        )
    vocab = target.shape[2]
    if draft is not None and draft.shape != (size, gamma, vocab):
        raise UsageError(
            f"draft_probs has shape {draft.shape}: pass (B, G, V) = {(size, gamma, vocab)}, "
            "or None for one-hot drafts"
        )
    for name, rows in (("target_probs", target), ("draft_probs", draft)):
        if rows is not None and rows.dtype != np.float64:
            raise UsageError(f"{name} is {rows.dtype}: pass float64, adapters round it themselves")
    lengths = batch.draft_len
    if lengths.shape != (size,) or lengths.dtype != np.int64:
        raise UsageError(f"draft_len is {lengths.dtype} {lengths.shape}: pass int64 ({size},)")
    if size and not (lengths.min() >= 0 and lengths.max() <= gamma):
        raise UsageError(f"draft_len {lengths.tolist()}: every length is in 0..{gamma}")
    drafted = np.arange(gamma) < lengths[:, None]
    bad = np.where(drafted, (tokens < 0) | (tokens >= vocab), tokens != PAD)
    if bad.any():
        b, i = (int(k) for k in np.argwhere(bad)[0])
        due = f"an id in 0..{vocab - 1}" if drafted[b, i] else "-1 beyond draft_len"
        raise UsageError(f"draft_tokens[{b}, {i}] = {tokens[b, i]}: pass {due}")


def _emitted_iv(emitted: Emitted) -> None:
    tokens, count = emitted.tokens, emitted.num_emitted
    if tokens.ndim != 2 or tokens.dtype != np.int64:
        raise UsageError(f"tokens is {tokens.dtype} {tokens.shape}: return int64 (B, G+1)")
    if count.shape != tokens.shape[:1] or count.dtype != np.int64:
        raise UsageError(
            f"num_emitted is {count.dtype} {count.shape}: return int64 ({len(tokens)},)"
        )
    if len(count) and not (count.min() >= 0 and count.max() <= tokens.shape[1]):
        raise UsageError(f"num_emitted {count.tolist()}: every count is in 0..{tokens.shape[1]}")
    beyond = np.arange(tokens.shape[1]) >= count[:, None]
    if (tokens[beyond] != PAD).any():
        raise UsageError("tokens beyond num_emitted: pad with -1")
