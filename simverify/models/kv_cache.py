"""Rows of a causal language model for a batch of requests, with a key/value cache or without.

What a model supports is found by trying, when it is loaded.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from simverify.errors import SimverifyError, UsageError

Float32Array = npt.NDArray[np.float32]


# A causal model with its key/value cache, for a batch of requests of different lengths.


@contextmanager
def check_memory(device: Any, requests: int, width: int) -> Iterator[None]:
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
    same weights in another way. ``model``: of Transformers, with a head over the vocabulary, in
    ``eval`` mode.
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
    def feed(
        self, tokens: Sequence[Sequence[int]], *, through: Any | None = None
    ) -> list[Float32Array]:
        """Append ``tokens``, one or more a request; return the logits after each.

        float32 (n_r, V) for request r, which appended n_r tokens.
        """
        counts = torch.tensor([len(own) for own in tokens])
        width = int(counts.max())
        padded = torch.zeros((len(tokens), width), dtype=torch.long)
        for r, sequence in enumerate(tokens):
            padded[r, : len(sequence)] = torch.as_tensor(sequence)
        # Padding stands on the right: its queries see the request's own tokens, so that no row
        # of attention is empty, and nobody sees its keys.
        fresh = (torch.arange(width) < counts[:, None]).to(self._device)
        self._used = torch.cat([self._used, fresh], dim=1)
        positions = (self._used.cumsum(dim=1) - 1)[:, -width:]
        rows = self._rows(padded, self._used.long(), positions, through)
        return [rows[r, :n] for r, n in enumerate(counts.tolist())]

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
            base = self._model.base_model
            base(ids, use_cache=True, **cache_argument(base, alone))
            for layer, source in zip(self._cache.layers, alone.layers, strict=True):
                if missing:
                    room = [
                        x.new_zeros((len(self._used), x.shape[1], missing, x.shape[3]))
                        for x in (source.keys, source.values)
                    ]
                    layer.update(*room)
                layer.keys[request, :, :end] = source.keys[0]
                layer.values[request, :, :end] = source.values[0]
        self._used = torch.nn.functional.pad(self._used, (0, missing))
        self._used[request, :end] = True

    @torch.no_grad()
    def grow(
        self,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        *,
        through: Any | None = None,
    ) -> list[Float32Array]:
        """Append nodes to the trees of the requests; return the logits after each.

        ``parents``: of each new node its parent, a node that was appended before it, by its
        number in the request's tree, or -1, the request's last token. float32 (n_r, V) for
        request r, which appended n_r nodes, of which there may be none.
        """
        start, width = self._used.shape[1], max(map(len, tokens))
        padded = torch.zeros((len(tokens), width), dtype=torch.long)
        depths = torch.ones((len(tokens), width), dtype=torch.long)
        # What is no node sees the request's own tokens, so that no row of attention is empty.
        seen = torch.nn.functional.pad(self._used, (0, width))[:, None].repeat(1, width, 1)
        for r, ways in enumerate(self._ways):
            for i, parent in enumerate(parents[r]):
                ways.append([*(ways[parent] if parent >= 0 else ()), start + i])
                padded[r, i], depths[r, i] = tokens[r][i], len(ways[-1])
                seen[r, i, ways[-1]] = True
        seen[:, :, start:] |= (~seen.any(dim=2, keepdim=True)) & torch.eye(
            width, dtype=torch.bool, device=self._device
        )
        hidden = torch.zeros(seen.shape, dtype=self._model.dtype, device=self._device)
        hidden.masked_fill_(~seen, torch.finfo(self._model.dtype).min)
        positions = self._used.sum(dim=1)[:, None] + depths.to(self._device) - 1
        self._used = torch.nn.functional.pad(self._used, (0, width))
        rows = self._rows(padded, hidden[:, None], positions, through)
        return [rows[r, : len(own)] for r, own in enumerate(tokens)]

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
                local_index = index.to(layer.keys.device)
                layer.keys, layer.values = layer.keys[local_index], layer.values[local_index]

    def _rows(self, ids: Any, mask: Any, positions: Any, through: Any | None) -> Float32Array:
        """Feed padded ids (requests, n); return the logits (requests, n, V) after each."""
        with self._memory():
            model = through or self._model
            logits = model(
                ids.to(self._device),
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                **cache_argument(model, self._cache),
            ).logits
            rows: Float32Array = logits.float().cpu().numpy()
        return rows

    def _memory(self) -> AbstractContextManager[None]:
        return check_memory(self._device, *self._used.shape)

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


# What a model's config says of the length of texts.


def cache_argument(model: Any, cache: Any) -> dict[str, Any]:
    """Return the argument that hands ``cache`` to ``model``; Transformers 5.24 renamed it."""
    parameters = inspect.signature(model.forward).parameters
    return {"cache" if "cache" in parameters else "past_key_values": cache}


def text_config(model: Any) -> Any:
    """Return the part of a config that speaks of texts, where others stand beside it."""
    return model.config.get_text_config(decoder=True)


def has_experts(model: Any) -> bool:
    """Return whether tokens go to some of several experts."""
    given = text_config(model).to_dict()
    return any("experts" in key and isinstance(n, int) and n > 1 for key, n in given.items())


def window_words(model: Any) -> str | None:
    """Return what the config says of attention that is not full, in words; None if nothing."""
    config = text_config(model)
    kinds = getattr(config, "layer_types", None)
    if kinds:
        others = sorted(set(kinds) - {"full_attention"})
        return f"layers of {', '.join(others)}" if others else None
    if getattr(config, "use_sliding_window", True):
        for key in ("sliding_window", "attention_window"):
            if value := getattr(config, key, None):
                return f"a {key.replace('_', ' ')} of {value}"
    local = "local" in str(getattr(config, "attention_types", ""))
    return f"local attention of {getattr(config, 'window_size', '')} tokens" if local else None


def rotary_change_length(model: Any) -> int | None:
    """Return the length from which rotary angles are others for all tokens; None if they stay.

    Such are the scalings of Transformers whose names say "longrope" or "dynamic": keys that were
    cached before keep the angles of the shorter text.
    """
    config = text_config(model)
    given = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    lengths = []
    # One for all layers, or one for each kind of them.
    for scaling in [own for own in given.values() if isinstance(own, dict)] or [given]:
        kind = str(scaling.get("rope_type") or scaling.get("type"))
        if kind == "longrope" or "dynamic" in kind:
            lengths.append(
                scaling.get("original_max_position_embeddings")
                or getattr(config, "original_max_position_embeddings", None)
                or config.max_position_embeddings
            )
    return min(lengths, default=None)


# A causal model without a cache: every row is computed from all of its tokens.


_MAX_CALL_LOGITS = 1 << 26
"""Logits of a call at most, 256 MB in float32, one text excepted."""


class UncachedModel:
    """Feeds tokens to a causal model and takes them back, request by request, with no memory.

    For models whose memory cannot be taken back: attention windows, states, chunks. It gives what
    :class:`CachedModel` gives, of the same calls, at the price of all tokens at each call.
    """

    def __init__(self, model: Any, requests: int) -> None:
        self._model, self._device = model, model.device
        self._together = _MAX_CALL_LOGITS // text_config(model).vocab_size
        self._tokens: list[list[int]] = [[] for _ in range(requests)]
        # Of each node of a request's tree the tokens of its way from the root, its own the last.
        self._ways: list[list[list[int]]] = [[] for _ in range(requests)]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens fed and kept so far, int64 (requests,)."""
        return np.array([len(own) for own in self._tokens], np.int64)

    def feed(
        self, tokens: Sequence[Sequence[int]], *, through: Any | None = None
    ) -> list[Float32Array]:
        """As :meth:`CachedModel.feed`."""
        for history, sequence in zip(self._tokens, tokens, strict=True):
            history += [int(token) for token in sequence]
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
    ) -> list[Float32Array]:
        """As :meth:`CachedModel.grow`."""
        texts = []
        for ways, history, sequence, above in zip(
            self._ways, self._tokens, tokens, parents, strict=True
        ):
            for token, parent in zip(sequence, above, strict=True):
                ways.append([*(ways[parent] if parent >= 0 else ()), int(token)])
                texts.append(history + ways[-1])
        rows = iter(self._last(texts, [1] * len(texts), through))
        none = np.zeros((0, text_config(self._model).vocab_size), np.float32)
        return [np.concatenate([none, *(next(rows) for _ in own)]) for own in tokens]

    def keep(self, ways: Sequence[Sequence[int]]) -> None:
        """Make of each request's tree the nodes ``ways[r]`` its next tokens; drop the others."""
        for r, way in enumerate(ways):
            self._tokens[r] += [self._ways[r][node][-1] for node in way]
            self._ways[r] = []

    def take_back(self, counts: Sequence[int]) -> None:
        """Forget the last ``counts[r]`` tokens of each request r."""
        for history, count in zip(self._tokens, counts, strict=True):
            del history[len(history) - int(count) :]

    def select(self, requests: Sequence[int]) -> None:
        """Keep these requests of the batch, in this order."""
        self._tokens = [self._tokens[r] for r in requests]
        self._ways = [self._ways[r] for r in requests]

    @torch.no_grad()
    def _last(
        self, texts: Sequence[Sequence[int]], counts: Sequence[int], through: Any | None
    ) -> list[Float32Array]:
        """Logits after the last tokens of each text, as many as ``counts`` says."""
        outputs: list[Float32Array] = []
        while len(outputs) < len(texts):
            width = max(map(len, texts))
            part = slice(len(outputs), len(outputs) + max(self._together // width, 1))
            # Padding stands on the right, where no token that counts sees it.
            padded = torch.zeros((len(texts[part]), width), dtype=torch.long)
            for row, text in zip(padded, texts[part], strict=True):
                row[: len(text)] = torch.as_tensor(text)
            with check_memory(self._device, len(padded), width):
                logits = (through or self._model)(padded.to(self._device), use_cache=False).logits
                outputs += [
                    logits[r, len(text) - n : len(text)].float().cpu().numpy()
                    for r, (text, n) in enumerate(zip(texts[part], counts[part], strict=True))
                ]
        return outputs


# What a model supports: found by trying, when it is loaded.
#
# Taking tokens back from a cache, and positions of each request's own, need full causal attention:
# models with windows or states silently give wrong rows, and are scored whole instead. A model that
# attends to later tokens has no rows at all. Nodes of draft trees see their own path alone, by a
# mask that a model may not take.


_LOGIT_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.005, torch.bfloat16: 0.03}
"""Of the logits' spread. Right models of two to eight layers are off by 2e-7, 6e-4 and .005, wrong
ones by .04 (positions of another text's length) to one or so."""

_LOOKAHEAD_LIMIT = {torch.float32: 1e-5, torch.float16: 1e-4, torch.bfloat16: 1e-4}
_EXPERT_LOOKAHEAD_LIMIT = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""Of the logits' spread: how far rows may move by later tokens. It is nothing at all, but for the
rounding where experts are given other batches; small encoders drawn at random move by .001."""

_SEED = 20250808


def check_causal(model: Any, name: str) -> None:
    """Raise ``UsageError`` unless each row of ``model`` is that of the tokens before it alone.

    Later tokens are changed, and taken away; another text stands beside.
    """
    text, other = _random_texts(model, 24, 24)
    changed = text[:16] + other[16:]
    try:
        actual = UncachedModel(model, 2).feed([changed, text[:9]])
        whole, short = (_uncached_logits(model, own) for own in (text, text[:9]))
    except SimverifyError:
        raise
    except Exception as error:
        raise UsageError(
            f"{name} gives no logits of a text alone ({_error_line(error)}): expected a causal "
            "model"
        ) from None
    (again,) = UncachedModel(model, 1).feed([changed])
    deviation = np.sqrt(((again[:16] - whole[:16]) ** 2).mean(axis=1)) / max(whole.std(), 1e-30)
    if not np.isfinite(whole).all():
        raise UsageError(
            f"{name} gives logits that are no numbers in {str(model.dtype).removeprefix('torch.')}:"
            f" take --dtype bfloat16, or float32"
        )
    limits = _EXPERT_LOOKAHEAD_LIMIT if has_experts(model) else _LOOKAHEAD_LIMIT
    # The middle row: a choice among experts that rounding tips moves single ones.
    middle = float(np.median(deviation))
    if not middle <= limits.get(model.dtype, 1e-4):
        raise UsageError(
            f"{name} gives other logits for a token when later ones are others, off by "
            f"{middle:.2g} of their spread: expected a causal model"
        )
    for part, expected in ((actual[0][:16], whole[:16]), (actual[1], short), (whole[:9], short)):
        if (off := _logit_deviation(model, part, expected)) is not None:
            raise UsageError(
                f"{name} gives other logits when a text is longer, or another stands beside it, "
                f"off by {off:.2g} of their spread: expected a causal model"
            )


def supports_rollback(model: Any) -> bool:
    """Return whether tokens can be taken back from the cache of ``model``.

    The config is asked for windows, as they may be longer than what is tried here: two ragged
    requests of some twenty tokens, fed, taken back and fed again.
    """
    if window_words(model):
        return False
    texts = [*_random_texts(model, 24, 17)]
    (others,) = _random_texts(model, 6)
    try:
        cached = CachedModel(model, 2)
        cached.read(0, texts[0][:12])
        cached.feed([texts[0][12:20] + others, texts[1][:9] + others[:2]])
        cached.take_back([6, 2])
        actual = cached.feed([texts[0][20:], texts[1][9:]])
    except Exception:
        return False  # whatever it is, it is no cache of keys and values
    return all(
        _logit_deviation(model, rows, _uncached_logits(model, text)[-len(rows) :]) is None
        for text, rows in zip(texts, actual, strict=True)
    )


def consistent_length(model: Any) -> int | None:
    """Return the length beyond which rows depend on how tokens were fed; None: at any they do not.

    An engine feeds them piece by piece, and its keys stay as they were. Where the config says
    that angles change it is tried: a text that is fed at once, and in two pieces.
    """
    if (length := rotary_change_length(model)) is None:
        return None
    (text,) = _random_texts(model, length + 4)
    ids = torch.tensor([text], device=model.device)
    first = max(length - 2, 1)
    try:
        with torch.no_grad():
            head = model(ids[:, :first], use_cache=True)
            cached = cache_argument(model, head[1])  # whatever its name is, behind the logits
            actual = model(ids[:, first:], use_cache=True, **cached).logits[0]
    except Exception:
        return length
    rows, expected = actual.float().cpu().numpy(), _uncached_logits(model, text)[first:]
    return None if _logit_deviation(model, rows, expected) is None else length


def _random_texts(model: Any, *lengths: int) -> list[list[int]]:
    rng = np.random.default_rng(_SEED)
    size = text_config(model).vocab_size
    return [rng.integers(size, size=n).tolist() for n in lengths]


def _error_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def check_tree_attention(model: Any, name: str) -> None:
    """Raise ``UsageError`` unless ``model`` gives each node of a tree the logits of its own way.

    Two ways of two nodes behind a few tokens, one of which is kept and gone on with.
    """
    text, one, other = _random_texts(model, 7, 2, 2)
    try:
        cached = CachedModel(model, 1)
        cached.feed([text])
        (nodes,) = cached.grow([[one[0], other[0], one[1], other[1]]], [[-1, -1, 0, 1]])
        cached.keep([[1, 3]])
        (after,) = cached.feed([one])
        actual = [nodes[[0, 2]], np.concatenate([nodes[[1, 3]], after])]
        expected = [_uncached_logits(model, text + way)[7:] for way in (one, other + one)]
    except Exception as error:
        raise UsageError(
            f"{name} takes no mask that shows a node its own way of a draft tree alone "
            f"({_error_line(error)}): take a single draft, or a model whose attention takes masks "
            "of four axes"
        ) from None
    for logits, whole in zip(actual, expected, strict=True):
        if (off := _logit_deviation(model, logits, whole)) is not None:
            raise UsageError(
                f"{name} gives the nodes of a draft tree other logits than their ways alone, off "
                f"by {off:.2g} of their spread: take a single draft, or a model whose attention "
                "takes masks of four axes"
            )


@torch.no_grad()
def _uncached_logits(model: Any, text: list[int]) -> Any:
    """Return the logits (n, V) after each token of ``text``, fed at once without a cache."""
    logits = model(torch.tensor([text], device=model.device), use_cache=False).logits[0]
    return logits.float().cpu().numpy()


def _logit_deviation(model: Any, actual: Any, expected: Any) -> float | None:
    """Return how far logits are from the expected ones, over their spread; None: near enough."""
    off = float(np.sqrt(((actual - expected) ** 2).mean()) / max(expected.std(), 1e-30))
    return None if off <= _LOGIT_TOLERANCE.get(model.dtype, 0.03) else off
