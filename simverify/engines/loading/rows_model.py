"""A causal language model whose probabilities are an audit's rows, for whole decoding loops.

A loop that takes two models and a prompt is a step rule: it drafts by itself, calls the models and
returns the tokens of a call. Put before it, this model makes it one without a change.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.loading.stubs import torch

Rows = Callable[[tuple[int, ...]], Any]
"""``rows(prefix)``: the probabilities (V,) of the token after a prefix."""

BOS = 0
"""The prompt's one token, before the audit's prefix: loops want a prompt."""


_KNOWN: list[tuple[Rows, dict[Any, Any]]] = []
"""The logits of the last few rows, by the tokens: an audit asks for the same ones on every path.

Of doubles alone: others are doubles too while code is followed with its types lifted."""

_MOST_ROWS, _MOST_KNOWN = 4, 1_000


def _known_of(rows: Rows) -> dict[Any, Any]:
    for kept, known in _KNOWN:
        if kept is rows:
            return known
    del _KNOWN[: max(0, len(_KNOWN) + 1 - _MOST_ROWS)]
    _KNOWN.append((rows, {}))
    return _KNOWN[-1][1]


class RowsModel:
    """A model as Hugging Face's causal ones are called, for a batch of one, with a cache.

    Parameters
    ----------
    rows
        ``rows(prefix)`` gives the probabilities (V,) of the next token.
    prefix
        The audit's prefix. Rows before its end are zeros: no rule may ask what came before.
    dtype
        Torch dtype of the logits, by its name.
    temperature
        What the loop divides the logits by: they are so many times larger.
    """

    def __init__(
        self,
        rows: Rows,
        prefix: Sequence[int],
        dtype: str = "float64",
        *,
        temperature: float = 1.0,
    ) -> None:
        self.rows, self.start, self.temperature = rows, len(prefix), temperature
        self.dtype = getattr(torch, dtype)
        self.device = torch.device("cpu")
        self.vocab = len(rows(tuple(prefix)))
        self.config = SimpleNamespace(
            vocab_size=self.vocab, is_encoder_decoder=False, max_position_embeddings=64
        )

    def eval(self) -> "RowsModel":
        """Return the model itself: it has no dropout."""
        return self

    def to(self, *_: Any, **__: Any) -> "RowsModel":
        """Return the model itself: it stays on the CPU."""
        return self

    def logits(self, tokens: Sequence[int], first: int = 0) -> Any:
        """Return the logits (1, L - first, V) after ``tokens[:first + 1]``, ..., all L of them."""
        known = _known_of(self.rows)
        key = tuple(tokens), first, self.start, self.temperature, str(self.dtype)
        if key in known:
            return known[key].clone()
        unknown = [1.0] * self.vocab
        laws = [
            self.rows(tuple(tokens[1 : i + 1])).tolist() if i >= self.start else unknown
            for i in range(first, len(tokens))
        ]
        # All at once: where code is followed, every call of torch is looked at.
        whole = torch.tensor(laws, dtype=torch.float64).reshape(1, len(laws), self.vocab)
        logits = whole.log().to(self.dtype)
        if self.temperature != 1:
            logits = logits * self.temperature
        if self.dtype == whole.dtype and len(known) < _MOST_KNOWN:
            known[key] = logits.clone()
        return logits

    def continued(self, tokens: list[int], ids: Any, first: int | None = None) -> Any:
        """Return the logits (1, L, V) of new ids (1, L), for a cache that is a list of tokens.

        The ids are written into ``tokens`` from ``first`` on, which is its end if None.
        """
        first = len(tokens) if first is None else first
        tokens[first:] = ids[0].tolist()
        return self.logits(tokens, first)

    def __call__(
        self, input_ids: Any = None, past_key_values: Any = None, use_cache: bool = True, **_: Any
    ) -> Any:
        """Return ``.logits`` (1, L, V) of the ids, and a cache of the legacy form.

        The cache is one layer of keys and values (1, 1, length, 1), whose entries are the ids, so
        that a loop that cuts it cuts the tokens.
        """
        past = [] if past_key_values is None else past_key_values[0][0][0, 0, :, 0].tolist()
        ids = input_ids.tolist()
        new = ids[0] if ids and isinstance(ids[0], list) else ids
        tokens = [*map(int, past), *map(int, new)]
        logits = self.logits(tokens, len(past))
        if not use_cache:
            return SimpleNamespace(logits=logits, past_key_values=None)
        cache = torch.tensor(tokens, dtype=torch.float64)[None, None, :, None]
        return SimpleNamespace(logits=logits, past_key_values=((cache, cache),))


class PositionedModel(RowsModel):
    """A model that is told positions in the place of a cache: it keeps its tokens by position.

    Called as ``model(ids, input_pos, ...)``; returns the logits (1, L, V) by themselves.
    """

    def __init__(self, rows: Rows, prefix: Sequence[int], **options: Any) -> None:
        super().__init__(rows, prefix, **options)
        self.tokens = dict(enumerate((BOS, *prefix)))

    def __call__(self, ids: Any, input_pos: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of ``ids`` (1, L) at the positions (L,)."""
        first = int(input_pos[0])
        for position, token in zip(input_pos.tolist(), ids[0].tolist(), strict=True):
            self.tokens[position] = int(token)
        return self.logits([self.tokens[i] for i in range(first + ids.shape[1])], first)


def shifted(rows: Rows, shift: int) -> Rows:
    """Return the same rows over ids that are ``shift`` higher: those below never come."""
    return lambda prefix: np.pad(rows(tuple(t - shift for t in prefix)), (shift, 0))


class BlockMask:
    """Stands for a block mask of attention, which rows have no use for: any part of it is whole."""

    BLOCK_SIZE = (1, 1)
    mask_mod = None

    def __getitem__(self, _: Any) -> "BlockMask":
        return self


def prompt(prefix: Sequence[int]) -> Any:
    """Return the prompt of a :class:`RowsModel`, int64 (1, L): ``BOS`` and the prefix."""
    return torch.tensor([[BOS, *prefix]])
