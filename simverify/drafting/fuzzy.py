"""Forward passes in which the attention blocks of a group of layers all read the group's input."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from simverify.drafting.groups import layer_groups
from simverify.drafting.placing import place
from simverify.drafting.together import run_each
from simverify.errors import UsageError

TYPES = ("llama", "qwen2")
"""Types of models whose layers run in groups."""

_PARTS = {"input_layernorm", "self_attn", "post_attention_layernorm", "mlp"}


def grouped(
    model: Any,
    layer_parallel: int,
    *,
    devices: Sequence[str | torch.device] | None = None,
    at_once: bool = True,
) -> Any:
    """Return ``model`` with its layers run in groups of ``layer_parallel``, the fuzzy pass.

    Within a group every attention block reads the hidden state h at the group's start, with its
    layer's own norm, positions and cache; then the MLPs run in order: h'_i = h_i + Attn_i(h),
    h_{i+1} = h'_i + MLP_i(h'_i), h_1 = h. A group of one layer is that layer.

    Parameters
    ----------
    model
        A causal model of Transformers, of type llama or qwen2, with full attention.
    layer_parallel
        N of :func:`simverify.drafting.layer_groups`. At 1 the pass is that of ``model``, bit by
        bit.
    devices
        Where the attention blocks of a group lie, the first on the first and so on, around.
        They are moved there, with what they write into a cache from then on, also when ``model``
        itself runs, which takes and gives what it did. None leaves them where they are.
    at_once
        Whether the attention blocks of a group run at once: on as many threads as torch computes
        on (on one thread they run in order), on CUDA on a stream each. The numbers are the same.

    Returns
    -------
    model
        Takes and gives what ``model`` does, and shares its weights, which are not copied. A
        ``DynamicCache`` of one serves the other. It tells no hidden states and no attentions.

    Raises
    ------
    UsageError
        If the model is of another type or is wrapped, some of its attention is not full, or
        ``layer_parallel`` is below 1.

    Notes
    -----
    Wu et al., "EasySpec: Layer-Parallel Speculative Decoding for Efficient Multi-GPU Utilization".
    """
    layers = layers_of(model)
    groups = layer_groups(len(layers), layer_parallel)
    if devices is not None:
        place(layers, groups, [torch.device(device) for device in devices], model.device)
    base = model.base_model
    fuzzy, fuzzy_base = copy.copy(model), copy.copy(base)
    fuzzy._modules = model._modules | {model.base_model_prefix: fuzzy_base}
    # The model numbers what it runs, for masks of different kinds; all of its layers have one.
    members = [[layers[i] for i in group] for group in groups]
    run = [own[0] if len(own) == 1 else Group(own, at_once) for own in members]
    fuzzy_base._modules = base._modules | {"layers": nn.ModuleList(run)}
    return fuzzy


@torch.no_grad()
def fuzzy_logits(model: Any, input_ids: Any, layer_parallel: int) -> torch.Tensor:
    """Return the logits of one fuzzy pass over whole texts.

    Parameters
    ----------
    model
        A causal model of Transformers, of type llama or qwen2, in ``eval`` mode.
    input_ids
        Token ids, int (batch, n).
    layer_parallel
        N, layers of a group at most; at 1 the logits are those of ``model``.

    Returns
    -------
    tensor
        Logits (batch, n, V) after each token, of the model's dtype, on its device.

    Raises
    ------
    UsageError
        As :func:`grouped` does, or if ``input_ids`` has not two axes.
    """
    ids = torch.as_tensor(input_ids, device=model.device)
    if ids.ndim != 2:
        raise UsageError(f"input_ids has the shape {tuple(ids.shape)}: expected (batch, n)")
    logits: torch.Tensor = grouped(model, layer_parallel)(ids, use_cache=False).logits
    return logits


def layers_of(model: Any) -> list[Any]:
    """Return the decoder layers of ``model``, or raise ``UsageError`` if they make no groups."""
    config: Any = getattr(model, "config", None)
    name = type(model).__name__
    kind = getattr(config, "model_type", None)
    if kind not in TYPES:
        raise UsageError(
            f"{name} is a model of type {kind}: layers run in groups in types {' and '.join(TYPES)}"
        )
    base = getattr(model, "base_model", None)
    if (
        base is None
        or base is model
        or not isinstance(getattr(base, "layers", None), nn.ModuleList)
    ):
        raise UsageError(f"{name} has no head or no list of layers: expected a causal model")
    # Such a forward is bound to the model itself, and a copy with other layers would not run them.
    if "forward" in {*vars(model), *vars(base)}:
        raise UsageError(
            f"{name} is wrapped (compiled, or spread over devices by another library): expected it "
            "as Transformers loads it"
        )
    layers = list(base.layers)[: config.num_hidden_layers]
    for i, layer in enumerate(layers):
        if (parts := {part for part, _ in layer.named_children()}) != _PARTS:
            raise UsageError(
                f"layer {i} of {name} has the parts {', '.join(sorted(parts))}: expected "
                f"{', '.join(sorted(_PARTS))}"
            )
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if kinds:
        raise UsageError(
            f"{name} has layers of {', '.join(sorted(kinds))}: layers run in groups with full "
            "attention alone"
        )
    return layers


class Group(nn.Module):
    """Layers whose attention blocks read one input, in the place of a layer."""

    def __init__(self, layers: Sequence[Any], at_once: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self._at_once = at_once

    def forward(self, hidden_states: torch.Tensor, **others: Any) -> torch.Tensor:
        """Return the hidden states (batch, n, width) behind the last layer of the group."""
        attended = self.attended(hidden_states, **others)
        for layer, attention in zip(self._members(), attended, strict=True):
            mixed = hidden_states + attention
            hidden_states = mixed + layer.mlp(layer.post_attention_layernorm(mixed))
        return hidden_states

    def attended(
        self, hidden_states: torch.Tensor, past_key_values: Any = None, **others: Any
    ) -> list[torch.Tensor]:
        """Return what each layer's attention block gives for the group's input."""

        def run(layer: Any) -> torch.Tensor:
            normed = layer.input_layernorm(hidden_states)
            found: torch.Tensor = layer.self_attn(
                hidden_states=normed, past_key_values=past_key_values, **others
            )[0]
            return found

        members = self._members()
        # A cache that makes its layers when they are first written makes them in order.
        made = past_key_values is None or len(past_key_values) > members[-1].self_attn.layer_idx
        return run_each(run, members, hidden_states.device, self._at_once and made)

    def _members(self) -> list[Any]:
        return list(self.layers)
