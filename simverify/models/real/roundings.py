"""Weights as served engines round them: to few bits, each by plain rounding to nearest.

Used for the laws that an engine with such weights would sample. Formats that are fitted to data
(AWQ, GPTQ) or mix widths (Q4_K) make other errors, which these do not stand for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

_NF4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0)  # fmt: skip
"""Levels of NF4 (Dettmers et al., "QLoRA", NeurIPS 2023, appendix E)."""


def _blocks(weight: "Tensor", size: int) -> "Tensor":
    """Rows in blocks of ``size``, (blocks, size); the last of a row filled up with zeros."""
    import torch

    short = -weight.shape[-1] % size
    return torch.nn.functional.pad(weight, (0, short)).reshape(-1, size)


def _back(blocks: "Tensor", like: "Tensor") -> "Tensor":
    rows = blocks.reshape(*like.shape[:-1], -1)
    return rows[..., : like.shape[-1]].to(like.dtype)


def q4_0(weight: "Tensor") -> "Tensor":
    """Round to ggml's Q4_0: blocks of 32, -8 to 7 times the largest over -8, a half float."""
    import torch

    x = _blocks(weight.float(), 32)
    largest = x.gather(1, x.abs().argmax(dim=1, keepdim=True))
    scale = largest / -8.0
    inverse = torch.where(scale == 0.0, torch.zeros_like(scale), 1.0 / scale)
    codes = torch.clamp(torch.floor(x * inverse + 8.5), 0, 15) - 8.0
    return _back(codes * scale.half().float(), weight)


def int4(weight: "Tensor") -> "Tensor":
    """Round to 16 levels between the least and the largest of groups of 128."""
    import torch

    x = _blocks(weight.float(), 128)
    low = x.amin(dim=1, keepdim=True).clamp(max=0.0)
    high = x.amax(dim=1, keepdim=True).clamp(min=0.0)
    scale = ((high - low) / 15.0).clamp(min=1e-12)
    zero = torch.round(-low / scale)
    codes = torch.clamp(torch.round(x / scale) + zero, 0, 15)
    return _back((codes - zero) * scale, weight)


def nf4(weight: "Tensor") -> "Tensor":
    """Round to the 16 levels of NF4, blocks of 64 over their largest magnitude."""
    import torch

    x = _blocks(weight.float(), 64)
    scale = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-12)
    levels = torch.tensor(_NF4, device=x.device)
    codes = torch.bucketize(x / scale, (levels[1:] + levels[:-1]) / 2.0)
    return _back(levels[codes] * scale, weight)


def fp8(weight: "Tensor") -> "Tensor":
    """Round to float8 (e4m3), the largest of each row at its largest number, 448."""
    import torch

    x = weight.float()
    scale = (x.abs().amax(dim=-1, keepdim=True) / 448.0).clamp(min=1e-12)
    return ((x / scale).to(torch.float8_e4m3fn).float() * scale).to(weight.dtype)


class Rounding(NamedTuple):
    """How matrices are rounded; ``whole``: embeddings and the head too, not layers alone."""

    rule: Callable[["Tensor"], "Tensor"]
    whole: bool = False


ROUNDINGS = {
    "4 bits (Q4_0)": Rounding(q4_0, whole=True),
    "4 bits (Q4_0, layers)": Rounding(q4_0),
    "4 bits (groups of 128)": Rounding(int4),
    "4 bits (NF4)": Rounding(nf4),
    "8 bits (float8 e4m3)": Rounding(fp8),
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
