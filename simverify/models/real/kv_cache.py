"""A causal model with its key/value cache, for a batch of requests of different lengths."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from simverify.errors import SimverifyError

Floats = npt.NDArray[np.float32]


@contextmanager
def short_memory_iv(device: Any, requests: int, width: int) -> Iterator[None]:
    """Say in one line that memory is short; torch has no one error for it."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        short = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not (short or "allocate memory" in str(error)):
            raise
        raise SimverifyError(
            f"out of memory on {device} with {requests} requests of up to {width} tokens "
            f"side by side: take shorter prompts, a smaller model, or in compare fewer --lanes"
        ) from None


class CachedModel:
    """Feeds tokens to a causal model and takes them back, request by request.

    Every request has slots of its own in the cache; those of rejected tokens are masked, and
    once they outnumber the others the cache is packed. Positions count a request's own
    tokens, so that its logits do not depend on the batch but for rounding.

    A request may also grow a tree behind its tokens, node by node, each of which sees its own
    way from the root and no other; :meth:`keep` makes one way of it tokens of the request.

    Tokens may be fed ``through`` another model that fills the same cache: one that computes the
    same weights in another way.

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
        # Of each node of a request's tree the slots of its way from the root, its own the last.
        self._ways: list[list[list[int]]] = [[] for _ in range(requests)]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens fed and kept so far, int64 (requests,)."""
        lengths: npt.NDArray[np.int64] = self._used.sum(dim=1).cpu().numpy()
        return lengths

    @torch.no_grad()
    def feed(self, tokens: Sequence[Sequence[int]], *, through: Any | None = None) -> list[Floats]:
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
            logits = (through or self._model)(
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

    @torch.no_grad()
    def grow(
        self,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        *,
        through: Any | None = None,
    ) -> list[Floats]:
        """Append nodes to the trees of the requests; return the logits after each.

        ``parents``: of each new node its parent, a node that was appended before it, by its
        number in the request's tree, or -1, the request's last token. float32 (n_r, V) for
        request r, which appended n_r nodes, of which there may be none.
        """
        begun, requests = self._used.shape[1], range(len(tokens))
        width = max(map(len, tokens))
        padded = torch.zeros((len(tokens), width), dtype=torch.long)
        depths = torch.ones((len(tokens), width), dtype=torch.long)
        # What is no node sees the request's own tokens, so that no row of attention is empty.
        seen = torch.nn.functional.pad(self._used, (0, width))[:, None].repeat(1, width, 1)
        for r in requests:
            ways = self._ways[r]
            for i, parent in enumerate(parents[r]):
                ways.append([*(ways[parent] if parent >= 0 else ()), begun + i])
                padded[r, i], depths[r, i] = tokens[r][i], len(ways[-1])
                seen[r, i, ways[-1]] = True
        seen[:, :, begun:] |= (~seen.any(dim=2, keepdim=True)) & torch.eye(
            width, dtype=torch.bool, device=self._device
        )
        hidden = torch.zeros(seen.shape, dtype=self._model.dtype, device=self._device)
        hidden.masked_fill_(~seen, torch.finfo(self._model.dtype).min)
        positions = self._used.sum(dim=1)[:, None] + depths.to(self._device) - 1
        self._used = torch.nn.functional.pad(self._used, (0, width))
        with self._memory():
            logits = (through or self._model)(
                padded.to(self._device),
                attention_mask=hidden[:, None],
                position_ids=positions,
                past_key_values=self._cache,
                use_cache=True,
            ).logits
            found = logits.float().cpu().numpy()
        return [found[r, : len(tokens[r])] for r in requests]

    def keep(self, ways: Sequence[Sequence[int]]) -> None:
        """Make of each request's tree the nodes ``ways[r]`` its next tokens, and drop the others.

        They are a way down from the root, by their numbers.
        """
        for r, way in enumerate(ways):
            for node in way:
                self._used[r, self._ways[r][node][-1]] = True
            self._ways[r] = []
        self._pack_if_due()

    def take_back(self, counts: Sequence[int]) -> None:
        """Forget the last ``counts[r]`` tokens of each request r."""
        back = torch.as_tensor(np.asarray(counts), device=self._device)[:, None]
        from_end = self._used.flip(1).cumsum(dim=1).flip(1)
        self._used &= from_end > back
        self._pack_if_due()

    def select(self, requests: Sequence[int]) -> None:
        """Keep these requests of the batch, in this order."""
        index = torch.as_tensor(np.asarray(requests), device=self._device)
        self._used = self._used[index]
        self._ways = [self._ways[r] for r in requests]
        layers: Any = self._cache.layers
        for layer in layers:
            if layer.is_initialized:
                # A layer of a model that is spread over devices keeps its entries on its own.
                here = index.to(layer.keys.device)
                layer.keys, layer.values = layer.keys[here], layer.values[here]

    def _memory(self) -> AbstractContextManager[None]:
        return short_memory_iv(self._device, *self._used.shape)

    def _empty(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._model.config)

    def _pack_if_due(self) -> None:
        if self._used.shape[1] > 2 * int(self._used.sum(dim=1).max()):
            self._pack()

    def _pack(self) -> None:
        """Move the used slots of each request to the front, and drop the rest."""
        lengths = self._used.sum(dim=1)
        width = max(int(lengths.max()), 1)  # an empty cache would lose count of its requests
        order = torch.argsort((~self._used).int(), dim=1, stable=True)[:, :width]
        layers: Any = self._cache.layers
        for layer in layers:
            index = order[:, None, :, None].to(layer.keys.device)
            layer.keys = layer.keys.take_along_dim(index, dim=2)
            layer.values = layer.values.take_along_dim(index, dim=2)
        self._used = torch.arange(width, device=self._device) < lengths[:, None]
