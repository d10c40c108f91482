"""The types in which torch computes."""

from typing import Any

import torch


def is_factor(name: str, place: int, x: Any) -> bool:
    """Whether an operand meets 16 bits as it is; all others are rounded to 16 bits first."""
    if not isinstance(x, torch.Tensor):
        return name == "multiply" or (name in _DIVISIONS and place == 1)
    return x.dim() == 0 and place == 1 and name in ("multiply", *_DIVISIONS)


_DIVISIONS = ("divide", "floor_divide")


def look(x: Any) -> tuple[Any, ...] | None:
    """Return what of an argument the type of a result depends on; None: on more than that."""
    if isinstance(x, torch.Tensor):
        plain = x.is_floating_point() and not x.requires_grad
        return (x.dtype, x.shape, x.device) if plain else None
    return (type(x),) if type(x) in (float, int) else None


def common_type(inputs: list[Any]) -> torch.dtype:
    """Return the type that torch computes in."""
    kind = torch.result_type(inputs[0], inputs[1] if len(inputs) > 1 else inputs[0])
    for x in inputs[2:]:
        kind = torch.promote_types(kind, torch.result_type(inputs[0], x))
    return kind
