"""Samplers in the place of those that are compiled code, which no path is followed through."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.loading.stubs import torch

GREEDY = SimpleNamespace()
SAMPLING = SimpleNamespace(greedy_clone=lambda: GREEDY)
"""Settings of :class:`CoinSampler`: tokens of the whole row at temperature 1, and the likeliest."""


class CoinSampler:
    """ExLlamaV2's sampler, which its C++ has: it is handed a coin, and inverts the row's sums."""

    @staticmethod
    def sample(logits: Any, settings: Any, ids: Any, u: float, *_: Any, **__: Any) -> Any:
        """Return a token (1, 1) of logits (1, 1, V), no top tokens, 1, and no end."""
        probs = logits.reshape(-1).exp().numpy()
        token = probs.argmax() if settings is GREEDY else np.cumsum(probs).searchsorted(u, "right")
        return torch.tensor([[int(token)]]), None, None, 1.0, False


def multinomial(logs: Any) -> Any:
    """Return a token of each row (L, V) of logarithms, numpy's as MLX's samplers have it."""
    return torch.multinomial(torch.from_numpy(np.exp(logs)), 1)[:, 0].numpy()
