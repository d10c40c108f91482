"""Whether a model decodes with a cache of keys and values as :class:`CachedModel` uses it.

Tokens are taken back and positions are a request's own, which only full causal attention bears:
models with windows, states or attention to later tokens give wrong rows without a word.
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
        with torch.no_grad():
            due = [
                model(torch.tensor([text], device=model.device)).logits[0].float().cpu().numpy()
                for text in texts
            ]
    except Exception as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UsageError(
            f"{name} does not decode with a cache of keys and values ({line}): expected a "
            f"causal model with full attention"
        ) from None
    for own, whole in zip(found, due, strict=True):
        off = np.sqrt(((own - whole[-len(own) :]) ** 2).mean()) / max(whole.std(), 1e-30)
        if not off <= _TOLERANCE.get(model.dtype, 0.1):
            raise UsageError(
                f"{name} gives other logits when tokens are fed piece by piece and taken back, off "
                f"by {off:.2g} of their spread: expected a causal model with full attention"
            )


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
