"""What a model's config says of its texts."""

from collections.abc import Iterator
from typing import Any


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


def changing_at(model: Any) -> int | None:
    """Return the length from which rotary angles are others for all tokens; None if they stay.

    Such are the scalings of Transformers whose names say "longrope" or "dynamic": keys that were
    cached before keep the angles of the shorter text.
    """
    config = text_config(model)
    given = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    lengths = []
    for own in _scalings(given):
        kind = str(own.get("rope_type") or own.get("type"))
        if kind == "longrope" or "dynamic" in kind:
            lengths.append(
                own.get("original_max_position_embeddings")
                or getattr(config, "original_max_position_embeddings", None)
                or config.max_position_embeddings
            )
    return min(lengths, default=None)


def _scalings(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One for all layers, or one for each kind of them."""
    nested = [own for own in given.values() if isinstance(own, dict)]
    yield from nested or [given]
