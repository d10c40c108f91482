"""Weights as served engines round them: to few bits, each format by its own rule (``grids``).

Used for the laws that an engine with such weights would sample.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from simverify.models.real import grids

if TYPE_CHECKING:
    from torch import Tensor


class Rounding(NamedTuple):
    """How matrices are rounded; ``whole``: embeddings and the head too, not layers alone."""

    rule: grids.Rule
    whole: bool = False


ROUNDINGS = {
    "4 bits (Q4_0)": Rounding(grids.q4_0, whole=True),
    "4 bits (Q4_0, layers)": Rounding(grids.q4_0),
    "4 bits (Q4_1)": Rounding(grids.q4_1),
    "4 bits (Q4_K)": Rounding(grids.q4_k),
    "4 bits (groups of 32)": Rounding(grids.groups(32)),
    "4 bits (groups of 64)": Rounding(grids.groups(64)),
    "4 bits (groups of 128)": Rounding(grids.groups(128)),
    "4 bits (groups of 128, symmetric)": Rounding(grids.symmetric(128)),
    "4 bits (groups of 64, fitted)": Rounding(grids.fitted(64)),
    "4 bits (MLX, groups of 64)": Rounding(grids.mlx(64), whole=True),
    "4 bits (NF4)": Rounding(grids.nf4),
    "4 bits (MXFP4)": Rounding(grids.mxfp4),
    "4 bits (NVFP4)": Rounding(grids.nvfp4),
    "8 bits (float8 e4m3)": Rounding(grids.fp8),
}
"""By name; most formats leave embeddings and the head alone, ggml's may round them too."""


@contextmanager
def rounded(model: Any, rounding: Rounding) -> Iterator[None]:
    """Let a model compute with rounded matrices, each rounded as it is used; it is left as it was.

    Only one matrix is held twice at a time.
    """
    kept: dict[int, Tensor] = {}

    def before(module: Any, _inputs: Any) -> None:
        kept[id(module)] = module.weight.data
        module.weight.data = rounding.rule(module.weight.data)

    def after(module: Any, _inputs: Any, _output: Any) -> None:
        module.weight.data = kept.pop(id(module))

    hooks = []
    try:
        for module in _matrices(model, rounding.whole):
            hooks.append(module.register_forward_pre_hook(before))
            hooks.append(module.register_forward_hook(after, always_call=True))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _matrices(model: Any, whole: bool) -> Iterator[Any]:
    """Linear layers, and embeddings, whose weights are numbers and not codes already."""
    import torch

    head = model.get_output_embeddings()
    for module in model.modules():
        kind = isinstance(module, torch.nn.Linear) and module is not head
        if whole:
            kind = isinstance(module, torch.nn.Linear | torch.nn.Embedding)
        if kind and module.weight.is_floating_point() and module.weight.dim() == 2:
            yield module
