"""How near a fuzzy pass comes to the exact one, layer by layer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from simverify.drafting.fuzzy import grouped, layers_of
from simverify.errors import UsageError
from simverify.results import LayerSimilarity

_WHAT = ("hidden", "attention", "q", "k", "v")


@torch.no_grad()
def layer_similarities(
    model: Any, input_ids: Any, layer_parallel: int, *, exact_tokens: int = 0
) -> list[LayerSimilarity]:
    """Compare a fuzzy pass over texts with the exact one.

    Every layer of the fuzzy pass works on what the fuzzy layers below it gave, so that deviations
    add up as they do in drafting.

    Parameters
    ----------
    model
        A causal model of Transformers, of type llama or qwen2, in ``eval`` mode.
    input_ids
        Token ids, int (batch, n).
    layer_parallel
        N, layers of a group at most; at 1 all similarities are 1, up to rounding.
    exact_tokens
        How many tokens at the start of each text are read exactly by both, as after calibration;
        the others alone are compared. At 0 the fuzzy pass reads fuzzy keys and values throughout.

    Returns
    -------
    list of LayerSimilarity
        One a layer.

    Raises
    ------
    UsageError
        If the model has no layers to group, or no token is left to compare.

    Notes
    -----
    Table 4 of Wu et al., "EasySpec: Layer-Parallel Speculative Decoding for Efficient Multi-GPU
    Utilization".
    """
    from transformers import DynamicCache

    ids = torch.as_tensor(input_ids, device=model.device)
    if ids.ndim != 2 or not 0 <= exact_tokens < ids.shape[1] or not len(ids):
        raise UsageError(
            f"token ids of shape {tuple(ids.shape)} with {exact_tokens} exact tokens leave none "
            "to compare: expected (batch, n) and exact tokens from 0 to n - 1"
        )
    passes = []
    for run in (model, grouped(model, layer_parallel)):
        cache = DynamicCache(config=model.config)
        if exact_tokens:
            model(ids[:, :exact_tokens], past_key_values=cache, use_cache=True)
        with _recorded(layers_of(model)) as seen:
            run(ids[:, exact_tokens:], past_key_values=cache, use_cache=True)
        passes.append(seen)
    exact, fuzzy = passes
    return [
        LayerSimilarity(
            layer=i, **{what: _mean_cosine(exact[i, what], fuzzy[i, what]) for what in _WHAT}
        )
        for i in range(len(layers_of(model)))
    ]


@contextmanager
def _recorded(layers: list[Any]) -> Iterator[dict[tuple[int, str], torch.Tensor]]:
    """Note what the attention blocks of ``layers`` read and give while this is open."""
    seen: dict[tuple[int, str], torch.Tensor] = {}
    hooks = []

    def note_input(module: Any, i: int) -> None:
        def hook(_: Any, given: Any) -> None:
            seen[i, "hidden"] = given[0]

        hooks.append(module.register_forward_pre_hook(hook))

    def note_output(module: Any, i: int, what: str) -> None:
        def hook(_: Any, __: Any, found: Any) -> None:
            seen[i, what] = found[0] if isinstance(found, tuple) else found

        hooks.append(module.register_forward_hook(hook))

    try:
        for i, layer in enumerate(layers):
            note_input(layer.input_layernorm, i)
            note_output(layer.self_attn, i, "attention")
            for what in ("q", "k", "v"):
                note_output(getattr(layer.self_attn, f"{what}_proj"), i, what)
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _mean_cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the mean over tokens of the cosine of vectors (batch, n, width)."""
    a, b = (x.cpu().double() for x in (one, other))
    return float(torch.nn.functional.cosine_similarity(a, b, dim=-1, eps=1e-300).mean())
