"""From a model's logits to the law that is sampled: temperature, top-k, top-p."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.errors import UsageError


@dataclass(frozen=True)
class Sampling:
    """How logits become a row of probabilities, for target and draft alike.

    ``temperature`` 0 is one-hot at the largest logit, the lowest id of equals. ``top_k`` keeps
    the k largest logits and their equals; ``top_p`` the fewest tokens, likeliest first, whose
    probability after temperature and top-k reaches it. None: all tokens are kept.

    Raises
    ------
    UsageError
        If temperature is negative or not finite, top_k below 1 or top_p outside (0, 1].
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not (0.0 <= self.temperature < np.inf):
            raise UsageError(f"temperature is {self.temperature}, expected 0 or more")
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"top-k is {self.top_k}, expected 1 or more")
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top-p is {self.top_p}, expected more than 0 and at most 1")

    def rows(self, logits: npt.ArrayLike) -> Floats:
        """Return float64 rows (..., V) that sum to 1, from logits (..., V) of any float type.

        -inf is a token that cannot be drawn. Raises ``ValueError`` on NaN, +inf, or a row
        without a finite logit.
        """
        x = np.asarray(logits, dtype=np.float64)
        top = x.max(axis=-1, keepdims=True)
        if not np.isfinite(top).all():
            raise ValueError("logits hold NaN or +inf, or a row is -inf throughout")
        if self.temperature == 0.0:
            first: Floats = (np.arange(x.shape[-1]) == x.argmax(axis=-1)[..., None]).astype(float)
            return first
        if self.top_k is not None and self.top_k < x.shape[-1]:
            least = -np.partition(-x, self.top_k - 1, axis=-1)[..., self.top_k - 1, None]
            x = np.where(x < least, -np.inf, x)
        p: Floats = np.exp((x - top) / self.temperature)
        p /= p.sum(axis=-1, keepdims=True)
        if self.top_p is not None and self.top_p < 1.0:
            order = np.argsort(-p, axis=-1, kind="stable")
            ranked = np.take_along_axis(p, order, axis=-1)
            before = np.cumsum(ranked, axis=-1) - ranked
            keep = np.empty(p.shape, np.bool_)
            np.put_along_axis(keep, order, before < self.top_p, axis=-1)
            p = np.where(keep, p, 0.0)
            p /= p.sum(axis=-1, keepdims=True)
        return p
