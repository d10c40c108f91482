"""The batch that a request under test stands in: its neighbours' rows hold one token each.

So their tokens are certain and they add no paths; all that is random is the request's own.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from simverify.arrays import Floats, Ints
from simverify.auditing.exact.company.places import SIZE, Place
from simverify.auditing.subject import Subject
from simverify.engines.adapting.requests import Requests

Due = list[list[int] | None]

_PAD = 2
"""Columns behind the vocabulary."""

_NOISE = 0.25
"""What stands in them where they are not masked."""


class WrongNeighbour(Exception):
    """A request whose rows hold one token each emitted something else."""


def placed(subject: Subject, place: Place) -> Subject:
    """Return batched code as a ``verify`` rule on the request at ``place``.

    The code is ``verify(batch, rng)`` with a :class:`~simverify.engines.adapting.requests.Requests`
    and returns an ``Emitted``, (tokens, num_emitted), or B rows of tokens padded with -1.
    """
    batched = subject.rule

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        batch, due = batch_at(place, target_probs, draft_probs, draft_tokens)
        rows = rows_of(batched(batch, rng), SIZE)
        for b, (row, right) in enumerate(zip(rows, due, strict=True)):
            if right is not None and row != right:
                raise WrongNeighbour(
                    f"request {b + 1} of {SIZE} emits {row}: its rows hold one token each, and "
                    f"{right} is due"
                )
        return rows[place.request]

    # Errors name the code's own module, and its globals are where its generators are found.
    verify.__wrapped__ = batched  # type: ignore[attr-defined]
    return replace(subject, rule=verify)


def batch_at(place: Place, target: Any, draft: Any, tokens: Any) -> tuple[Requests, Due]:
    """Return the batch with the block (rows (gamma+1, V), (gamma, V), ids) at ``place``.

    And what each neighbour must emit; None for the block itself.
    """
    gamma, vocab = len(tokens), np.shape(target)[1]
    maker = _Maker(place, gamma + place.longer, vocab)
    blocks = maker.neighbours()
    blocks.insert(place.request, maker.own(target, draft, tokens))
    tokens_, rows, drafts, lengths, greedy, due = zip(*blocks, strict=True)
    length = np.array(lengths, dtype=np.int64)
    if place.kind == "placeholder":
        length[:] = maker.gamma
    batch = Requests(
        np.stack(tokens_),
        maker.columns(np.stack(rows)),
        None if place.kind == "one-hot" else maker.columns(np.stack(drafts)),
        length,
        greedy=np.array(greedy),
        vocab=vocab,
    )
    return batch, list(due)


class _Maker:
    """Makes the blocks of one batch: (ids, target rows, draft rows, length, greedy, due)."""

    def __init__(self, place: Place, gamma: int, vocab: int) -> None:
        self.place, self.gamma, self.vocab = place, gamma, vocab

    def columns(self, rows: Floats) -> Floats:
        """Return the rows with what stands behind the vocabulary in this kind."""
        if self.place.kind not in ("padded", "unmasked", "mixed"):
            return rows
        fill = _NOISE if self.place.kind == "unmasked" else 0.0
        behind = np.full((*rows.shape[:-1], _PAD), fill)
        return np.concatenate([rows, behind], axis=-1)

    def own(self, target: Any, draft: Any, tokens: Any) -> tuple[Any, ...]:
        """Return the block under test, with what is none of its own behind its end."""
        n, certain = len(tokens), np.eye(self.vocab)
        ids = self._behind(n)
        ids[:n] = tokens
        fill = certain[np.arange(self.gamma + 1) % self.vocab]
        rows, drafts = fill.copy(), fill[: self.gamma].copy()
        rows[: n + 1] = np.asarray(target, dtype=np.float64)
        drafts[:n] = np.asarray(draft, dtype=np.float64)
        if self.place.greedy:
            # The law that is due holds the likeliest token alone; the code is given softer rows.
            rows[: n + 1] = (rows[: n + 1] + 1 / self.vocab) / 2
        return ids, rows, drafts, n, self.place.greedy, None

    def neighbours(self) -> list[tuple[Any, ...]]:
        """Return the others: all accepted, the first rejected, the last rejected."""
        gamma = self.gamma
        lengths = [gamma] * 3
        if self.place.kind in ("ragged", "stale", "placeholder", "mixed"):
            lengths = [gamma, 0, gamma - 1]
        refused = [None, 0, lengths[2] - 1]
        return [
            self._neighbour(k, n, r) for k, (n, r) in enumerate(zip(lengths, refused, strict=True))
        ]

    def _neighbour(self, k: int, length: int, refused: int | None) -> tuple[Any, ...]:
        vocab, certain = self.vocab, np.eye(self.vocab)
        own = (np.arange(self.gamma + 1) + k + 1) % vocab
        drafted = own[:length].copy()
        end = length
        if refused is not None and 0 <= refused < length:
            drafted[refused] = (own[refused] + 1) % vocab
            end = refused
        shown = own.copy()
        shown[length + 1 :] = (own[length + 1 :] + 1) % vocab
        ids = self._behind(length)
        ids[:length] = drafted
        rows, drafts = certain[shown], certain[np.where(ids < 0, 0, ids)]
        greedy = self.place.kind in ("greedy", "mixed") and not self.place.greedy and k != 1
        if greedy:
            rows = (rows + 1 / vocab) / 2
        return ids, rows, drafts, length, greedy, own[: end + 1].tolist()

    def _behind(self, length: int) -> Ints:
        """Return ids (G,): -1, or those that an earlier call left."""
        if self.place.kind == "stale":
            return (np.arange(self.gamma) % self.vocab).astype(np.int64)
        return np.full(self.gamma, -1, dtype=np.int64)


def rows_of(result: Any, size: int) -> list[list[int]]:
    """Return the tokens of each request, without padding.

    Raises ``ValueError`` where they are not ``size`` rows, or counted in another way.
    """
    count = None
    if hasattr(result, "num_emitted"):
        result, count = result.tokens, result.num_emitted
    elif isinstance(result, tuple) and len(result) == 2 and hasattr(result[1], "tolist"):
        result, count = result
    rows = [_plain(row, "tokens of a request") for row in _plain(result, "rows of tokens")]
    if len(rows) != size:
        raise ValueError(f"returned {len(rows)} rows of tokens for {size} requests")
    if count is None:
        return [_unpadded(row) for row in rows]
    counts = _plain(count, "numbers of tokens")
    if len(counts) != size:
        raise ValueError(f"returned {len(counts)} numbers of tokens for {size} requests")
    return [_counted(row, number) for row, number in zip(rows, counts, strict=True)]


def _counted(row: list[int], number: Any) -> list[int]:
    if int(number) != number or not 0 <= number <= len(row):
        raise ValueError(f"returned {number} for the number of tokens in a row of {len(row)}")
    return row[: int(number)]


def _unpadded(row: list[int]) -> list[int]:
    last = len(row)
    while last and row[last - 1] == -1:
        last -= 1
    return row[:last]


def _plain(values: Any, what: str) -> list[Any]:
    found = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(found, str | bytes | dict) or not hasattr(found, "__iter__"):
        raise ValueError(
            f"returned {type(values).__name__} where {what} are due: return a row for each "
            "request, padded with -1, or (tokens, number of tokens)"
        )
    return list(found)
