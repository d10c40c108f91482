"""Fuzzy passes: the attention blocks of a group of layers all read the group's input."""

import copy
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any, TypeVar

import torch
from torch import nn

from simverify.drafting.groups import layer_groups
from simverify.errors import UsageError

# Parallel runs of a group's blocks: on threads of a CPU, on streams of a GPU.


Member = TypeVar("Member")


def run_members(
    run: Callable[[Member], Any], members: Sequence[Member], device: torch.device, at_once: bool
) -> list[Any]:
    """Return what ``run`` gives for each member, computed at once or one after another.

    The numbers are the same either way. On a CPU there are as many threads as torch computes on,
    and on one all go in order; on CUDA every member has a stream of its own.
    """
    if at_once and device.type == "cuda":
        return _run_on_streams(run, members, device)
    threads = min(len(members), torch.get_num_threads())
    if at_once and device.type == "cpu" and threads > 1:
        return _run_on_threads(run, members, threads)
    return [run(member) for member in members]


def _run_on_threads(
    run: Callable[[Member], Any], members: Sequence[Member], threads: int
) -> list[Any]:
    """Share the members among this thread and ``threads`` - 1 of the pool.

    torch releases the interpreter while it computes. Each thread splits its own operations among
    as many as torch is set to, so that every sum is taken in the order it has without a pool.
    """
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    def share(start: int) -> list[Any]:
        # Both modes are a thread's own.
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            return [run(member) for member in members[start::threads]]

    pool = _thread_pool(torch.get_num_threads() - 1)
    others = [pool.submit(share, start) for start in range(1, threads)]
    try:
        shares = [share(0)]
    finally:
        wait(others)  # none writes on behind the back of who handles an error
    shares += [other.result() for other in others]
    return [shares[i % threads][i // threads] for i in range(len(members))]


@cache
def _thread_pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="simverify-group")


# Threads do not survive a fork.
os.register_at_fork(after_in_child=_thread_pool.cache_clear)


def _run_on_streams(
    run: Callable[[Member], Any], members: Sequence[Member], device: torch.device
) -> list[Any]:
    """Run each member on a stream that begins after the present one and ends before its next step.

    None stays on the present stream, and each has the same stream in every call: memory that is
    let go on one is then taken again only behind what still reads it.
    """
    make: Any = torch.cuda.Stream  # its stubs have no types
    streams = _CUDA_STREAMS.setdefault(device, [])
    streams += [make(device) for _ in range(len(members) - len(streams))]
    present = torch.cuda.current_stream(device)
    results = []
    for member, stream in zip(members, streams, strict=False):
        stream.wait_stream(present)
        with torch.cuda.stream(stream):
            results.append(run(member))
    for stream in streams[: len(members)]:
        present.wait_stream(stream)
    return results


_CUDA_STREAMS: dict[torch.device, list[torch.cuda.Stream]] = {}


# Attention blocks on other devices than the rest of their model.


_HOOKS_ATTRIBUTE = "_simverify_carriers"


def place_attention_blocks(
    layers: Sequence[Any],
    groups: Sequence[Sequence[int]],
    devices: Sequence[torch.device],
    home: torch.device,
) -> None:
    """Move the attention block of each group's j-th layer, and its norm, to ``devices[j]``.

    Around the devices where a group has more layers. What such a block is given is carried to its
    device, and what it gives is carried to ``home``, so that nobody else need know; what it
    writes into a cache stays with it. An earlier placement is undone.
    """
    if not devices:
        raise UsageError("devices is empty: expected one device or more")
    for group in groups:
        for j, i in enumerate(group):
            _move_layer(layers[i], devices[j % len(devices)], home)


def _move_layer(layer: Any, device: torch.device, home: torch.device) -> None:
    norm, attention = layer.input_layernorm, layer.self_attn
    for hook in vars(layer).get(_HOOKS_ATTRIBUTE, ()):
        hook.remove()

    def to_device(_: Any, args: Any, kwargs: Any) -> Any:
        return _move_tensors(args, device), {k: _move_tensors(x, device) for k, x in kwargs.items()}

    def to_home(_: Any, args: Any, found: Any) -> Any:
        return _move_tensors(found, home)

    norm.to(device)
    attention.to(device)
    hooks = [
        norm.register_forward_pre_hook(to_device, with_kwargs=True),
        attention.register_forward_pre_hook(to_device, with_kwargs=True),
        attention.register_forward_hook(to_home),
    ]
    setattr(layer, _HOOKS_ATTRIBUTE, hooks)


def _move_tensors(given: Any, device: torch.device) -> Any:
    """Return ``given`` with its tensors on ``device``; a cache is no tensor and stays."""
    if isinstance(given, torch.Tensor):
        return given.to(device, non_blocking=True)
    if isinstance(given, tuple):
        return tuple(_move_tensors(x, device) for x in given)
    return given


SUPPORTED_MODEL_TYPES = ("llama", "qwen2")
"""Types of models whose layers run in groups."""

_LAYER_PARTS = {"input_layernorm", "self_attn", "post_attention_layernorm", "mlp"}


def group_layers(
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

    ``model``: a causal model of Transformers, of type llama or qwen2, with full attention. The
    result takes and gives what ``model`` does, and shares its weights, which are not copied. A
    ``DynamicCache`` of one serves the other. It tells no hidden states and no attentions. With
    ``layer_parallel`` 1 the pass is that of ``model``, bit by bit.

    ``devices``: where the attention blocks of a group lie, the first on the first, around.
    They are moved there, with what they write into a cache from then on, also when ``model`` itself
    runs, which takes and gives what it did. None leaves them where they are. ``at_once``: the
    attention blocks of a group run at once: on as many threads as torch computes on (on one thread
    they run in order), on CUDA on a stream each. The numbers are the same.
    (Wu et al., "EasySpec: Layer-Parallel Speculative Decoding for Efficient Multi-GPU
    Utilization".)

    Raises ``UsageError`` if the model is of another type or is wrapped, some of its attention is
    not full, or ``layer_parallel`` is below 1.
    """
    layers = decoder_layers(model)
    groups = layer_groups(len(layers), layer_parallel)
    if devices is not None:
        place_attention_blocks(
            layers, groups, [torch.device(device) for device in devices], model.device
        )
    base = model.base_model
    fuzzy, fuzzy_base = copy.copy(model), copy.copy(base)
    fuzzy._modules = model._modules | {model.base_model_prefix: fuzzy_base}
    # The model numbers what it runs, for masks of different kinds; all of its layers have one.
    members = [[layers[i] for i in group] for group in groups]
    run = [own[0] if len(own) == 1 else LayerGroup(own, at_once) for own in members]
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
        As :func:`group_layers` does, or if ``input_ids`` has not two axes.
    """
    ids = torch.as_tensor(input_ids, device=model.device)
    if ids.ndim != 2:
        raise UsageError(f"input_ids has the shape {tuple(ids.shape)}: expected (batch, n)")
    logits: torch.Tensor = group_layers(model, layer_parallel)(ids, use_cache=False).logits
    return logits


def decoder_layers(model: Any) -> list[Any]:
    """Return the decoder layers of ``model``, or raise ``UsageError`` if they make no groups."""
    config: Any = getattr(model, "config", None)
    name = type(model).__name__
    kind = getattr(config, "model_type", None)
    if kind not in SUPPORTED_MODEL_TYPES:
        raise UsageError(
            f"{name} is a model of type {kind}: layers run in groups in types "
            f"{' and '.join(SUPPORTED_MODEL_TYPES)}"
        )
    base: Any = getattr(model, "base_model", None)
    if base is model or not isinstance(getattr(base, "layers", None), nn.ModuleList):
        raise UsageError(f"{name} has no head or no list of layers: expected a causal model")
    # Such a forward is bound to the model itself, and a copy with other layers would not run them.
    if "forward" in {*vars(model), *vars(base)}:
        raise UsageError(
            f"{name} is wrapped (compiled, or spread over devices by another library): expected it "
            "as Transformers loads it"
        )
    layers = list(base.layers)[: config.num_hidden_layers]
    for i, layer in enumerate(layers):
        if (parts := {part for part, _ in layer.named_children()}) != _LAYER_PARTS:
            raise UsageError(
                f"layer {i} of {name} has the parts {', '.join(sorted(parts))}: expected "
                f"{', '.join(sorted(_LAYER_PARTS))}"
            )
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if kinds:
        raise UsageError(
            f"{name} has layers of {', '.join(sorted(kinds))}: layers run in groups with full "
            "attention alone"
        )
    return layers


class LayerGroup(nn.Module):
    """Layers whose attention blocks read one input, in the place of a layer."""

    def __init__(self, layers: Sequence[Any], at_once: bool) -> None:
        super().__init__()
        self.layers: Any = nn.ModuleList(layers)
        self._at_once = at_once

    def forward(self, hidden_states: torch.Tensor, **others: Any) -> torch.Tensor:
        """Return the hidden states (batch, n, width) behind the last layer of the group."""
        attended = self.attended(hidden_states, **others)
        for layer, attention in zip(self.layers, attended, strict=True):
            mixed = hidden_states + attention
            hidden_states = mixed + layer.mlp(layer.post_attention_layernorm(mixed))
        return hidden_states

    def attended(self, hidden_states: torch.Tensor, **others: Any) -> list[torch.Tensor]:
        """Return what each layer's attention block gives for the group's input."""

        def run(layer: Any) -> torch.Tensor:
            normed = layer.input_layernorm(hidden_states)
            output: torch.Tensor = layer.self_attn(hidden_states=normed, **others)[0]
            return output

        members: list[Any] = list(self.layers)
        # A cache that makes its layers when they are first written makes them in order.
        cache = others.get("cache", others.get("past_key_values"))
        made = cache is None or len(cache) > members[-1].self_attn.layer_idx
        return run_members(run, members, hidden_states.device, self._at_once and made)
