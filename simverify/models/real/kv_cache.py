"""A causal model with its key/value cache, for a batch of requests of different lengths."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from simverify.errors import SimverifyError

Floats = npt.NDArray[np.float32]


class CachedModel:
    """Feeds tokens to a causal model and takes them back, request by request.

    Every request has slots of its own in the cache; those of rejected tokens are masked, and
    once they outnumber the others the cache is packed. Positions count a request's own
    tokens, so that its logits do not depend on the batch but for rounding.

    Parameters
    ----------
    model
        A Transformers model with a head over the vocabulary, in ``eval`` mode.
    requests
        Size of the batch.
    """

    def __init__(self, model: Any, requests: int) -> None:
        self._model, self._device = model, model.device
        self._cache = self._empty()
        self._used = torch.zeros((requests, 0), dtype=torch.bool, device=self._device)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens fed and kept so far, int64 (requests,)."""
        lengths: npt.NDArray[np.int64] = self._used.sum(dim=1).cpu().numpy()
        return lengths

    @torch.no_grad()
    def feed(self, tokens: Sequence[Sequence[int]]) -> list[Floats]:
        """Append ``tokens``, one or more a request; return the logits after each.

        float32 (n_r, V) for request r, which appended n_r tokens.
        """
        counts = torch.tensor([len(own) for own in tokens])
        width = int(counts.max())
        padded = torch.zeros((len(tokens), width), dtype=torch.long)
        for r, own in enumerate(tokens):
            padded[r, : len(own)] = torch.as_tensor(own)
        # Padding stands on the right: its queries see the request's own tokens, so that no row
        # of attention is empty, and nobody sees its keys.
        fresh = (torch.arange(width) < counts[:, None]).to(self._device)
        self._used = torch.cat([self._used, fresh], dim=1)
        positions = (self._used.cumsum(dim=1) - 1)[:, -width:]
        with self._memory():
            logits = self._model(
                padded.to(self._device),
                attention_mask=self._used.long(),
                position_ids=positions,
                past_key_values=self._cache,
                use_cache=True,
            ).logits
            found = logits.float().cpu().numpy()
        return [found[r, :n] for r, n in enumerate(counts.tolist())]

    @torch.no_grad()
    def read(self, request: int, tokens: Sequence[int]) -> None:
        """Append ``tokens`` to a request that holds none, without logits.

        It is done alone: a prompt in :meth:`feed` would pad all others to its own length.
        """
        if not len(tokens):
            return
        assert not self._used[request].any()
        ids = torch.as_tensor(tokens, device=self._device)[None]
        alone, end = self._empty(), len(tokens)
        missing = max(end - self._used.shape[1], 0)
        with self._memory():
            self._model.base_model(ids, past_key_values=alone, use_cache=True)
            for layer, own in zip(self._cache.layers, alone.layers, strict=True):
                if missing:
                    room = [
                        x.new_zeros((len(self._used), x.shape[1], missing, x.shape[3]))
                        for x in (own.keys, own.values)
                    ]
                    layer.update(*room)
                layer.keys[request, :, :end] = own.keys[0]
                layer.values[request, :, :end] = own.values[0]
        self._used = torch.nn.functional.pad(self._used, (0, missing))
        self._used[request, :end] = True

    def take_back(self, counts: Sequence[int]) -> None:
        """Forget the last ``counts[r]`` tokens of each request r."""
        back = torch.as_tensor(np.asarray(counts), device=self._device)[:, None]
        from_end = self._used.flip(1).cumsum(dim=1).flip(1)
        self._used &= from_end > back
        if self._used.shape[1] > 2 * int(self._used.sum(dim=1).max()):
            self._pack()

    def select(self, requests: Sequence[int]) -> None:
        """Keep these requests of the batch, in this order."""
        index = torch.as_tensor(np.asarray(requests), device=self._device)
        self._used = self._used[index]
        self._cache.batch_select_indices(index)

    @contextmanager
    def _memory(self) -> Iterator[None]:
        """Say in one line that memory is short; torch has no one error for it."""
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            short = isinstance(error, MemoryError | torch.OutOfMemoryError)
            if not (short or "allocate memory" in str(error)):
                raise
            requests, width = self._used.shape
            raise SimverifyError(
                f"out of memory on {self._device} with {requests} requests of up to {width} tokens "
                f"side by side: take shorter prompts, a smaller model, or in compare fewer --lanes"
            ) from None

    def _empty(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._model.config)

    def _pack(self) -> None:
        """Move the used slots of each request to the front, and drop the rest."""
        lengths = self._used.sum(dim=1)
        width = max(int(lengths.max()), 1)  # an empty cache would lose count of its requests
        order = torch.argsort((~self._used).int(), dim=1, stable=True)[:, :width]
        layers: Any = self._cache.layers
        for layer in layers:
            index = order[:, None, :, None]
            layer.keys = layer.keys.take_along_dim(index, dim=2)
            layer.values = layer.values.take_along_dim(index, dim=2)
        self._used = torch.arange(width, device=self._device) < lengths[:, None]
