"""What each parameter does to scores, row by row, as Transformers' processors and warpers do it.

A stage takes scores float64 (n, V), -inf for what is cut off already, and returns new ones. Row i
stands before the token ``first + i`` of a request.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats


@dataclass(frozen=True)
class Before:
    """What stands before the rows: ``prompt``, and of ``tokens`` those up to ``first + i``."""

    prompt: tuple[int, ...]
    tokens: Sequence[int]
    first: int = 0

    def counts(self, rows: int, vocab_size: int) -> npt.NDArray[np.int32]:
        """How often each token was emitted before each row, int32 (rows, V); no prompt counts."""
        earlier = np.asarray(self.tokens[: self.first], np.int64)
        found = np.tile(np.bincount(earlier, minlength=vocab_size).astype(np.int32), (rows, 1))
        for i, token in enumerate(self.tokens[self.first : self.first + rows - 1], 1):
            found[i:, token] += 1
        return found

    def ends_with(self, words: tuple[int, ...], row: int) -> bool:
        """Whether the prompt and the tokens before ``row`` end with ``words``."""
        whole = (*self.prompt[-len(words) :], *self.tokens[: self.first + row])
        return not words or tuple(whole[-len(words) :]) == words


def repeated(x: Floats, before: Before, penalty: float) -> Floats:
    """Divide positive scores, multiply negative ones, of all that stands before (Keskar 2019)."""
    seen = before.counts(*x.shape) > 0
    seen[:, list(before.prompt)] = True
    return np.where(seen, np.where(x < 0.0, x * penalty, x / penalty), x)


def counted(x: Floats, before: Before, presence: float, frequency: float) -> Floats:
    """Subtract from what was emitted, once and for each time; the prompt does not count."""
    counts = before.counts(*x.shape)
    found: Floats = x - frequency * counts - presence * (counts > 0)
    return found


def biased(x: Floats, bias: Sequence[tuple[int, float]]) -> Floats:
    """Add to single tokens."""
    found = x.copy()
    for token, value in bias:
        found[:, token] += value
    return found


def without_words(x: Floats, before: Before, words: Sequence[tuple[int, ...]]) -> Floats:
    """Ban the last token of each word where the others stand before it."""
    found = x.copy()
    for word in words:
        for row in range(len(x)):
            if before.ends_with(word[:-1], row):
                found[row, word[-1]] = -np.inf
    return found


def not_ending(x: Floats, before: Before, least: int, ends: Sequence[int]) -> Floats:
    """Ban what ends a request as long as fewer than ``least`` tokens are out."""
    found = x.copy()
    rows = max(least - before.first, 0)
    found[:rows, list(ends)] = -np.inf
    return found


def top_k(x: Floats, k: int) -> Floats:
    """Keep the k largest and their equals."""
    if k >= x.shape[-1]:
        return x
    least = -np.partition(-x, k - 1, axis=-1)[..., k - 1, None]
    return np.where(x < least, -np.inf, x)


def top_p(x: Floats, share: float) -> Floats:
    """Keep the fewest tokens, likeliest first, whose probability reaches ``share``."""
    p = softmax(x)
    order = np.argsort(-p, axis=-1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=-1)
    keep = np.empty(p.shape, np.bool_)
    np.put_along_axis(keep, order, np.cumsum(ranked, axis=-1) - ranked < share, axis=-1)
    return np.where(keep, x, -np.inf)


def min_p(x: Floats, share: float) -> Floats:
    """Keep what is at least ``share`` times as likely as the likeliest."""
    with np.errstate(divide="ignore"):
        return np.where(x < x.max(axis=-1, keepdims=True) + np.log(share), -np.inf, x)


def typical(x: Floats, share: float) -> Floats:
    """Keep the tokens whose surprise is nearest to the entropy (Meister 2022)."""
    p = softmax(x)
    far, order = surprises(p)
    ranked = np.take_along_axis(p, order, axis=-1)
    last = np.minimum((np.cumsum(ranked, axis=-1) < share).sum(axis=-1), x.shape[-1] - 1)
    limit = np.take_along_axis(far, np.take_along_axis(order, last[..., None], axis=-1), axis=-1)
    return np.where(far > limit, -np.inf, x)


def surprises(p: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """How far each token's surprise is from its row's entropy, and the order by that."""
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(p)
        entropy = np.where(p > 0.0, p * surprise, 0.0).sum(axis=-1, keepdims=True)
    far = np.abs(surprise - entropy)
    return far, np.argsort(far, axis=-1, kind="stable")


def softmax(x: Floats) -> Floats:
    """Rows that sum to 1."""
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    found: Floats = p / p.sum(axis=-1, keepdims=True)
    return found
