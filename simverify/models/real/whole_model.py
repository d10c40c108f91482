"""A causal model without a cache: every row is computed from the whole of its tokens, anew."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from simverify.models.real.kv_cache import Floats, short_memory_iv
from simverify.models.real.text_config import text_config

_ENTRIES = 1 << 26
"""Logits of a call at most, 256 MB in float32, one text excepted."""


class WholeModel:
    """Feeds tokens to a causal model and takes them back, request by request, with no memory.

    For models whose memory cannot be taken back: attention windows, states, chunks. It gives what
    :class:`~simverify.models.real.kv_cache.CachedModel` gives, of the same calls, at the price of
    all tokens at each call.

    Parameters
    ----------
    model
        A Transformers model with a head over the vocabulary, in ``eval`` mode.
    requests
        Size of the batch.
    """

    def __init__(self, model: Any, requests: int) -> None:
        self._model, self._device = model, model.device
        self._together = _ENTRIES // text_config(model).vocab_size
        self._tokens: list[list[int]] = [[] for _ in range(requests)]
        # Of each node of a request's tree the tokens of its way from the root, its own the last.
        self._ways: list[list[list[int]]] = [[] for _ in range(requests)]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens fed and kept so far, int64 (requests,)."""
        return np.array([len(own) for own in self._tokens], np.int64)

    def feed(self, tokens: Sequence[Sequence[int]], *, through: Any | None = None) -> list[Floats]:
        """Append ``tokens``, one or more a request; return the logits after each.

        float32 (n_r, V) for request r, which appended n_r tokens.
        """
        for kept, own in zip(self._tokens, tokens, strict=True):
            kept += [int(token) for token in own]
        return self._last(self._tokens, [len(own) for own in tokens], through)

    def read(self, request: int, tokens: Sequence[int]) -> None:
        """Append ``tokens`` to a request that holds none, without logits."""
        if len(tokens):
            assert not self._tokens[request]
            self._tokens[request] = [int(token) for token in tokens]

    def grow(
        self,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        *,
        through: Any | None = None,
    ) -> list[Floats]:
        """Append nodes to the trees of the requests; return the logits after each.

        ``parents``: of each new node its parent's number in the request's tree, or -1, the
        request's last token. float32 (n_r, V) for request r, which appended n_r nodes.
        """
        texts = []
        for ways, kept, own, above in zip(self._ways, self._tokens, tokens, parents, strict=True):
            for token, parent in zip(own, above, strict=True):
                ways.append([*(ways[parent] if parent >= 0 else ()), int(token)])
                texts.append(kept + ways[-1])
        found = iter(self._last(texts, [1] * len(texts), through))
        none = np.zeros((0, text_config(self._model).vocab_size), np.float32)
        return [np.concatenate([none, *(next(found) for _ in own)]) for own in tokens]

    def keep(self, ways: Sequence[Sequence[int]]) -> None:
        """Make of each request's tree the nodes ``ways[r]`` its next tokens; drop the others."""
        for r, way in enumerate(ways):
            self._tokens[r] += [self._ways[r][node][-1] for node in way]
            self._ways[r] = []

    def take_back(self, counts: Sequence[int]) -> None:
        """Forget the last ``counts[r]`` tokens of each request r."""
        for kept, count in zip(self._tokens, counts, strict=True):
            del kept[len(kept) - int(count) :]

    def select(self, requests: Sequence[int]) -> None:
        """Keep these requests of the batch, in this order."""
        self._tokens = [self._tokens[r] for r in requests]
        self._ways = [self._ways[r] for r in requests]

    @torch.no_grad()
    def _last(
        self, texts: Sequence[Sequence[int]], counts: Sequence[int], through: Any | None
    ) -> list[Floats]:
        """Logits after the last tokens of each text, as many as ``counts`` says."""
        found: list[Floats] = []
        while len(found) < len(texts):
            width = max(map(len, texts))
            part = slice(len(found), len(found) + max(self._together // width, 1))
            # Padding stands on the right, where no token that counts sees it.
            padded = torch.zeros((len(texts[part]), width), dtype=torch.long)
            for row, text in zip(padded, texts[part], strict=True):
                row[: len(text)] = torch.as_tensor(text)
            with short_memory_iv(self._device, len(padded), width):
                logits = (through or self._model)(padded.to(self._device), use_cache=False).logits
                found += [
                    logits[r, len(text) - n : len(text)].float().cpu().numpy()
                    for r, (text, n) in enumerate(zip(texts[part], counts[part], strict=True))
                ]
        return found
