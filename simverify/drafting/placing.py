"""Attention blocks that lie on other devices than the rest of their model."""

from collections.abc import Sequence
from typing import Any

import torch

from simverify.errors import UsageError

_HOOKS = "_simverify_carriers"


def place(
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
            _put(layers[i], devices[j % len(devices)], home)


def _put(layer: Any, device: torch.device, home: torch.device) -> None:
    norm, attention = layer.input_layernorm, layer.self_attn
    for hook in vars(layer).get(_HOOKS, ()):
        hook.remove()

    def to_device(_: Any, args: Any, kwargs: Any) -> Any:
        return _carried(args, device), {key: _carried(x, device) for key, x in kwargs.items()}

    def to_home(_: Any, args: Any, found: Any) -> Any:
        return _carried(found, home)

    norm.to(device)
    attention.to(device)
    hooks = [
        norm.register_forward_pre_hook(to_device, with_kwargs=True),
        attention.register_forward_pre_hook(to_device, with_kwargs=True),
        attention.register_forward_hook(to_home),
    ]
    setattr(layer, _HOOKS, hooks)


def _carried(given: Any, device: torch.device) -> Any:
    """Return ``given`` with its tensors on ``device``; a cache is no tensor and stays."""
    if isinstance(given, torch.Tensor):
        return given.to(device, non_blocking=True)
    if isinstance(given, tuple):
        return tuple(_carried(x, device) for x in given)
    return given
