"""What of a model's rows can be relied on, and how: found by trying, when it is loaded.

Tokens are taken back from a cache, and positions are a request's own, which only full causal
attention bears: models with windows or states give wrong rows without a word, and are scored
whole instead. Attention to later tokens has no rows at all. Nodes of draft trees see their own way
alone, by a mask that a model may not take.
"""

from typing import Any

import numpy as np
import torch

from simverify.errors import SimverifyError, UsageError
from simverify.models.real.kv_cache import CachedModel
from simverify.models.real.text_config import (
    changing_at,
    has_experts,
    text_config,
    window_words,
)
from simverify.models.real.whole_model import WholeModel

_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.005, torch.bfloat16: 0.03}
"""Of the logits' spread. Right models of two to eight layers are off by 2e-7, 6e-4 and .005, wrong
ones by .04 (positions of another text's length) to one or so."""

_SEEN = {torch.float32: 1e-5, torch.float16: 1e-4, torch.bfloat16: 1e-4}
_SEEN_BY_EXPERTS = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""Of the logits' spread: how far rows may move by later tokens. It is nothing at all, but for the
rounding where experts are given other batches; small encoders drawn at random move by .001."""

_SEED = 20250808


def causal_iv(model: Any, name: str) -> None:
    """Raise ``UsageError`` unless each row of ``model`` is that of the tokens before it alone.

    Later tokens are changed, and taken away; another text stands beside.
    """
    text, other = _texts(model, 24, 24)
    changed = text[:16] + other[16:]
    try:
        found = WholeModel(model, 2).feed([changed, text[:9]])
        whole, short = (_whole(model, own) for own in (text, text[:9]))
    except SimverifyError:
        raise
    except Exception as error:
        raise UsageError(
            f"{name} gives no logits of a text alone ({_line(error)}): expected a causal model"
        ) from None
    (again,) = WholeModel(model, 1).feed([changed])
    moved = np.sqrt(((again[:16] - whole[:16]) ** 2).mean(axis=1)) / max(whole.std(), 1e-30)
    # The middle row: a choice among experts that rounding tips moves single ones.
    if not np.isfinite(whole).all():
        raise UsageError(
            f"{name} gives logits that are no numbers in {str(model.dtype).removeprefix('torch.')}:"
            f" take --dtype bfloat16, or float32"
        )
    limits = _SEEN_BY_EXPERTS if has_experts(model) else _SEEN
    if not float(np.median(moved)) <= limits.get(model.dtype, 1e-4):
        raise UsageError(
            f"{name} gives other logits for a token when later ones are others, off by "
            f"{float(np.median(moved)):.2g} of their spread: expected a causal model"
        )
    for own, due in ((found[0][:16], whole[:16]), (found[1], short), (whole[:9], short)):
        if (off := _off(model, own, due)) is not None:
            raise UsageError(
                f"{name} gives other logits when a text is longer, or another stands beside it, "
                f"off by {off:.2g} of their spread: expected a causal model"
            )


def takes_back(model: Any) -> bool:
    """Return whether tokens can be taken back from the cache of ``model``.

    The config is asked for windows, as they may be longer than what is tried here: two ragged
    requests of some twenty tokens, fed, taken back and fed again.
    """
    if window_words(model):
        return False
    texts = [*_texts(model, 24, 17)]
    (others,) = _texts(model, 6)
    try:
        cached = CachedModel(model, 2)
        cached.read(0, texts[0][:12])
        cached.feed([texts[0][12:20] + others, texts[1][:9] + others[:2]])
        cached.take_back([6, 2])
        found = cached.feed([texts[0][20:], texts[1][9:]])
    except Exception:
        return False  # whatever it is, it is no cache of keys and values
    due = [_whole(model, text)[-len(own) :] for text, own in zip(texts, found, strict=True)]
    return all(_off(model, own, rows) is None for own, rows in zip(found, due, strict=True))


def same_rows_up_to(model: Any) -> int | None:
    """Return the length beyond which rows depend on how tokens were fed; None: at any they do not.

    An engine feeds them piece by piece, and its keys stay as they were. Where the config says
    that angles change it is tried: a text that is fed at once, and in two pieces.
    """
    length = changing_at(model)
    if length is None:
        return None
    (text,) = _texts(model, length + 4)
    ids = torch.tensor([text], device=model.device)
    first = max(length - 2, 1)
    try:
        with torch.no_grad():
            cache = model(ids[:, :first], use_cache=True).past_key_values
            found = model(ids[:, first:], past_key_values=cache, use_cache=True).logits[0]
    except Exception:
        return length
    due = _whole(model, text)[first:]
    return None if _off(model, found.float().cpu().numpy(), due) is None else length


def _texts(model: Any, *lengths: int) -> list[list[int]]:
    rng = np.random.default_rng(_SEED)
    size = text_config(model).vocab_size
    return [rng.integers(size, size=n).tolist() for n in lengths]


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def trees_iv(model: Any, name: str) -> None:
    """Raise ``UsageError`` unless ``model`` gives each node of a tree the logits of its own way.

    Two ways of two nodes behind a few tokens, one of which is kept and gone on with.
    """
    text, one, other = _texts(model, 7, 2, 2)
    try:
        cached = CachedModel(model, 1)
        cached.feed([text])
        (nodes,) = cached.grow([[one[0], other[0], one[1], other[1]]], [[-1, -1, 0, 1]])
        cached.keep([[1, 3]])
        (after,) = cached.feed([one])
        found = [nodes[[0, 2]], np.concatenate([nodes[[1, 3]], after])]
        due = [_whole(model, text + way)[7:] for way in (one, other + one)]
    except Exception as error:
        raise UsageError(
            f"{name} takes no mask that shows a node its own way of a draft tree alone "
            f"({_line(error)}): take a single draft, or a model whose attention takes masks of "
            "four axes"
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
    found = model(torch.tensor([text], device=model.device), use_cache=False).logits[0]
    return found.float().cpu().numpy()


def _off(model: Any, own: Any, due: Any) -> float | None:
    """Return how far logits are from those that are due, over their spread; None: near enough."""
    off = float(np.sqrt(((own - due) ** 2).mean()) / max(due.std(), 1e-30))
    return None if off <= _TOLERANCE.get(model.dtype, 0.03) else off
