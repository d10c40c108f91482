"""Caches that are the tokens which a model has seen, and models that are called with them."""

from collections.abc import Sequence
from typing import Any

from simverify.engines.loading.rows_model import BOS, RowsModel


class PlacedCache:
    """A cache that is cut by its place: what stands behind it is written over.

    ``current_seq_len`` is how many tokens count, under ExLlamaV2's name.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens, self.current_seq_len = list(tokens), len(tokens)


class PlacedModel(RowsModel):
    """A model that writes new ids into a :class:`PlacedCache`, from its place on."""

    def forward(self, ids: Any, cache: PlacedCache, **_: Any) -> Any:
        """Return the logits (1, L, V) of new ids (1, L)."""
        first = cache.current_seq_len
        # A draft model's cache has a hole after a draft that was kept whole: its last token.
        cache.tokens += [BOS] * (first - len(cache.tokens))
        cache.current_seq_len += ids.shape[1]
        return self.continued(cache.tokens, ids, first)


class LayerCache(list[Any]):
    """The cache of one layer as MLX-LM has it: the tokens, and a state that is evaluated."""

    state = ()


class LayeredModel(RowsModel):
    """A model that appends new ids to a cache of one :class:`LayerCache`, and returns numpy's."""

    def __call__(self, ids: Any, cache: list[LayerCache]) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of the ids (1, L)."""
        return self.continued(cache[0], ids).numpy()


def trim(cache: list[LayerCache], count: int) -> None:
    """Forget the last ``count`` tokens."""
    del cache[0][len(cache[0]) - count :]
