"""Whether a model decodes with a cache of keys and values as :class:`CachedModel` uses it.

Tokens are taken back and positions are a request's own, which only full causal attention bears:
models with windows, states or attention to later tokens give wrong rows without a word. Nodes of
draft trees see their own way alone, by a mask that a model may not take.
"""

from typing import Any

import numpy as np
import torch

from simverify.errors import UsageError
from simverify.models.real.kv_cache import CachedModel

_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""Of the logits' spread. Right models of two to eight layers are off by 2e-7 and .005, wrong
ones by one or so."""

_SEED = 20250808


def cache_iv(model: Any, name: str) -> None:
    """Raise ``UsageError`` unless ``model`` gives the logits that it gives without a cache.

    The config is asked for windows, as they may be longer than what is tried here: two ragged
    requests of some twenty tokens, fed, taken back and fed again.
    """
    if window := _window(model.config):
        raise UsageError(
            f"{name} has {window}: rejected tokens can be taken back from full attention alone"
        )
    rng = np.random.default_rng(_SEED)
    texts = [rng.integers(model.config.vocab_size, size=n).tolist() for n in (24, 17)]
    others = rng.integers(model.config.vocab_size, size=6).tolist()
    try:
        cached = CachedModel(model, 2)
        cached.read(0, texts[0][:12])
        cached.feed([texts[0][12:20] + others, texts[1][:9] + others[:2]])
        cached.take_back([6, 2])
        found = cached.feed([texts[0][20:], texts[1][9:]])
        due = [_whole(model, text) for text in texts]
    except Exception as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UsageError(
            f"{name} does not decode with a cache of keys and values ({line}): expected a "
            f"causal model with full attention"
        ) from None
    for own, whole in zip(found, due, strict=True):
        if (off := _off(model, own, whole[-len(own) :])) is not None:
            raise UsageError(
                f"{name} gives other logits when tokens are fed piece by piece and taken back, off "
                f"by {off:.2g} of their spread: expected a causal model with full attention"
            )


def trees_iv(model: Any, name: str) -> None:
    """Raise ``UsageError`` unless ``model`` gives each node of a tree the logits of its own way.

    Two ways of two nodes behind a few tokens, one of which is kept and gone on with.
    """
    rng = np.random.default_rng(_SEED)
    text, one, other = (rng.integers(model.config.vocab_size, size=n).tolist() for n in (7, 2, 2))
    try:
        cached = CachedModel(model, 1)
        cached.feed([text])
        (nodes,) = cached.grow([[one[0], other[0], one[1], other[1]]], [[-1, -1, 0, 1]])
        cached.keep([[1, 3]])
        (after,) = cached.feed([one])
        found = [nodes[[0, 2]], np.concatenate([nodes[[1, 3]], after])]
        due = [_whole(model, text + way)[7:] for way in (one, other + one)]
    except Exception as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UsageError(
            f"{name} takes no mask that shows a node its own way of a draft tree alone ({line}): "
            "take a single draft, or a model whose attention takes masks of four axes"
        ) from None
    for own, whole in zip(found, due, strict=True):
        if (off := _off(model, own, whole)) is not None:
            raise UsageError(
                f"{name} gives the nodes of a draft tree other logits than their ways alone, off "
                f"by {off:.2g} of their spread: take a single draft, or a model whose attention "
                "takes masks of four axes"
            )


@torch.no_grad()
def _whole(model: Any, text: list[int]) -> Any:
    """Return the logits (n, V) after each token of ``text``, fed at once without a cache."""
    found = model(torch.tensor([text], device=model.device)).logits[0]
    return found.float().cpu().numpy()


def _off(model: Any, own: Any, due: Any) -> float | None:
    """Return how far logits are from those that are due, over their spread; None: near enough."""
    off = float(np.sqrt(((own - due) ** 2).mean()) / max(due.std(), 1e-30))
    return None if off <= _TOLERANCE.get(model.dtype, 0.1) else off


def _window(config: Any) -> str | None:
    """Return what the config says of attention that is not full, in words."""
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
