"""Weights and running sums of few bits, rounded as served engines round them.

A rule takes a matrix and returns it as the format would give it back, by its weights alone. Formats
that are fitted to data (AWQ, GPTQ) use grids of groups too, but how they round depends on the
data.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simverify.arrays import Floats

if TYPE_CHECKING:
    from torch import Tensor


RoundingFunction = Callable[["Tensor"], "Tensor"]

_NF4_LEVELS = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
"""Levels of NF4 (Dettmers et al., "QLoRA", NeurIPS 2023, appendix E)."""


_FP4_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitudes of a float of 4 bits, e2m1 (OCP Microscaling Formats, 2023)."""

_FIT_STEPS = 20
"""Limits that are tried for a group, or scales for a block."""


def in_blocks(size: int) -> Callable[[RoundingFunction], RoundingFunction]:
    """Round a matrix by a rule for blocks of ``size``, float32 (blocks, size).

    The last block of a row is filled up with zeros.
    """

    def decorate(rule: RoundingFunction) -> RoundingFunction:
        @wraps(rule)
        def whole(weight: "Tensor") -> "Tensor":
            from torch.nn.functional import pad

            blocks = pad(weight.float(), (0, -weight.shape[-1] % size)).reshape(-1, size)
            rows = rule(blocks).reshape(*weight.shape[:-1], -1)
            return rows[..., : weight.shape[-1]].to(weight.dtype)

        return whole

    return decorate


def of_size(rule: RoundingFunction) -> Callable[[int], RoundingFunction]:
    """Make of a rule for blocks one that is called with their size first."""

    def sized(size: int) -> RoundingFunction:
        return in_blocks(size)(rule)

    sized.__name__, sized.__doc__ = rule.__name__, rule.__doc__
    return sized


@in_blocks(32)
def q4_0(x: "Tensor") -> "Tensor":
    """Round to ggml's Q4_0: blocks of 32, -8 to 7 times the largest over -8, a half float."""
    largest = x.gather(1, x.abs().argmax(dim=1, keepdim=True))
    scale = largest / -8.0
    inverse = (1.0 / scale).where(scale != 0.0, 0.0)
    codes = (x * inverse + 8.5).floor().clamp(0, 15) - 8.0
    return codes * scale.half().float()


@of_size
def asymmetric_groups(x: "Tensor") -> "Tensor":
    """Round to 16 levels between the least and the largest of groups of ``size``."""
    low, high = x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)
    return _round_between(x, low, high)


@of_size
def symmetric_groups(x: "Tensor") -> "Tensor":
    """Round to 16 levels about zero, the largest magnitude of a group 7.5 steps away."""
    scale = (x.abs().amax(dim=1, keepdim=True) / 7.5).clamp(min=1e-12)
    return (x / scale).round().clamp(-8, 7) * scale


@of_size
def fitted_groups(x: "Tensor") -> "Tensor":
    """Round as :func:`asymmetric_groups`, with the limits of least squared error."""
    low, high = x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)
    best, least = x, low.new_full(low.shape, float("inf"))
    for step in range(_FIT_STEPS):
        share = 1.0 - step / (2.0 * _FIT_STEPS)
        candidate = _round_between(x, low * share, high * share)
        off = ((candidate - x) ** 2).sum(dim=1, keepdim=True)
        best, least = candidate.where(off < least, best), off.minimum(least)
    return best


@of_size
def mlx(x: "Tensor") -> "Tensor":
    """Round as MLX does: 16 levels of groups, of which one is the end that is farther from zero."""
    low, high = x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)
    down = low.abs() > high.abs()
    scale = ((high - low) / 15.0).clamp(min=1e-7)
    scale, end = scale.where(down, -scale), low.where(down, high)
    steps = (end / scale).round()
    scale, end = scale.where(steps == 0.0, end / steps), end.where(steps != 0.0, 0.0)
    return ((x - end) / scale).round().clamp(0, 15) * scale + end


def _round_between(x: "Tensor", low: "Tensor", high: "Tensor") -> "Tensor":
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)
    scale = ((high - low) / 15.0).clamp(min=1e-12)
    zero = (-low / scale).round()
    return (((x / scale).round() + zero).clamp(0, 15) - zero) * scale


@in_blocks(64)
def nf4(x: "Tensor") -> "Tensor":
    """Round to the 16 levels of NF4, blocks of 64 over their largest magnitude."""
    scale = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-12)
    return _nearest_level(x / scale, x.new_tensor(_NF4_LEVELS)) * scale


def fp8(weight: "Tensor") -> "Tensor":
    """Round to float8 (e4m3), the largest of each row at its largest number, 448."""
    import torch

    x = weight.float()
    scale = (x.abs().amax(dim=-1, keepdim=True) / 448.0).clamp(min=1e-12)
    return ((x / scale).to(torch.float8_e4m3fn).float() * scale).to(weight.dtype)


@in_blocks(32)
def mxfp4(x: "Tensor") -> "Tensor":
    """Round to MXFP4: floats of 4 bits, blocks of 32 with a power of two as their scale."""
    largest = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-30)
    return _round_fp4(x, (largest.log2().floor() - 2.0).exp2())


@in_blocks(16)
def nvfp4(x: "Tensor") -> "Tensor":
    """Round to NVFP4: floats of 4 bits, blocks of 16 whose scale is a float8, and one of all."""
    import torch

    whole = (x.abs().max() / (448.0 * 6.0)).clamp(min=1e-30)
    scales = (x.abs().amax(dim=1, keepdim=True) / 6.0 / whole).clamp(max=448.0)
    return _round_fp4(x, scales.to(torch.float8_e4m3fn).float() * whole)


def _round_fp4(x: "Tensor", scale: "Tensor") -> "Tensor":
    import torch

    half = x.new_tensor(_FP4_MAGNITUDES)
    levels = torch.cat([-half.flip(0), half[1:]])
    return _nearest_level((x / scale.clamp(min=1e-30)).clamp(-6.0, 6.0), levels) * scale


def _nearest_level(x: "Tensor", levels: "Tensor") -> "Tensor":
    import torch

    return levels[torch.bucketize(x, (levels[1:] + levels[:-1]) / 2.0)]


@in_blocks(32)
def q4_1(x: "Tensor") -> "Tensor":
    """Round to ggml's Q4_1: blocks of 32, 16 levels from the least to the largest, half floats."""
    low = x.amin(dim=1, keepdim=True)
    scale = (x.amax(dim=1, keepdim=True) - low) / 15.0
    inverse = (1.0 / scale).where(scale != 0.0, 0.0)
    codes = ((x - low) * inverse + 0.5).floor().clamp(0, 15)
    return codes * scale.half().float() + low.half().float()


@in_blocks(256)
def q4_k(x: "Tensor") -> "Tensor":
    """Round to ggml's Q4_K: eight blocks of 32 share a half float, each has six bits of its own.

    Scale and least of a block are those of the least weighted squared error, large values
    weighing more, of the scales that are tried; then both are rounded, and the codes set anew.
    """
    x = x.reshape(-1, 32)
    heavy = (x * x).mean(dim=1, keepdim=True).sqrt() + x.abs()
    scale, least = _fit_scale_and_minimum(x, heavy)
    scale, least = scale.reshape(-1, 8), -least.reshape(-1, 8)
    scale, least = (_round_six_bits(values).reshape(-1, 1) for values in (scale, least))
    inverse = (1.0 / scale.clamp(min=1e-30)).where(scale > 0.0, 0.0)
    codes = ((x + least) * inverse).round().clamp(0, 15)
    return (scale * codes - least).reshape(-1, 256)


def _round_six_bits(values: "Tensor") -> "Tensor":
    """Round to 0 to 63 times a half float, a row each."""
    unit = values.amax(dim=1, keepdim=True) / 63.0
    codes = (values / unit.clamp(min=1e-30)).round().clamp(0, 63)
    return codes * unit.half().float()


def _fit_scale_and_minimum(x: "Tensor", heavy: "Tensor") -> tuple["Tensor", "Tensor"]:
    """Return the scale and the least value, 0 at most, of each row: float32 (rows, 1) each."""

    def total(value: "Tensor") -> "Tensor":
        return (heavy * value).sum(dim=1, keepdim=True)

    low = x.amin(dim=1, keepdim=True).clamp(max=0.0)
    span = (x.amax(dim=1, keepdim=True) - low).clamp(min=1e-12)
    scale, least = span / 15.0, low
    codes = ((x - low) / scale).round().clamp(0, 15)
    error = total((scale * codes + least - x) ** 2)
    for step in range(_FIT_STEPS + 1):
        codes = ((14.0 + 0.1 * step) / span * (x - low)).round().clamp(0, 15)
        weights, ones, squares = total(x.new_ones(x.shape)), total(codes), total(codes**2)
        both, sums = total(x * codes), total(x)
        spread = weights * squares - ones**2
        slope = (weights * both - sums * ones) / spread
        start = (squares * sums - ones * both) / spread
        slope = slope.where(~(start > 0.0), both / squares.clamp(min=1e-30))
        start = start.clamp(max=0.0)
        off = total((slope * codes + start - x) ** 2)
        better = (spread > 0.0) & (off < error)
        scale, least = slope.where(better, scale), start.where(better, least)
        error = off.where(better, error)
    return scale, least


# A model whose weights are rounded to a format, for the law that an engine with it would sample.


class WeightFormat(NamedTuple):
    """How matrices are rounded; ``whole``: embeddings and the head too, not layers alone."""

    rule: RoundingFunction
    whole: bool = False


WEIGHT_FORMATS = {
    "4 bits (Q4_0)": WeightFormat(q4_0, whole=True),
    "4 bits (Q4_0, layers)": WeightFormat(q4_0),
    "4 bits (Q4_1)": WeightFormat(q4_1),
    "4 bits (Q4_K)": WeightFormat(q4_k),
    "4 bits (groups of 32)": WeightFormat(asymmetric_groups(32)),
    "4 bits (groups of 64)": WeightFormat(asymmetric_groups(64)),
    "4 bits (groups of 128)": WeightFormat(asymmetric_groups(128)),
    "4 bits (groups of 128, symmetric)": WeightFormat(symmetric_groups(128)),
    "4 bits (groups of 64, fitted)": WeightFormat(fitted_groups(64)),
    "4 bits (MLX, groups of 64)": WeightFormat(mlx(64), whole=True),
    "4 bits (NF4)": WeightFormat(nf4),
    "4 bits (MXFP4)": WeightFormat(mxfp4),
    "4 bits (NVFP4)": WeightFormat(nvfp4),
    "8 bits (float8 e4m3)": WeightFormat(fp8),
}
"""By name; most formats leave embeddings and the head alone, ggml's may round them too."""


@contextmanager
def use_weight_format(model: Any, rounding: WeightFormat) -> Iterator[None]:
    """Let a model compute with rounded matrices, each rounded as it is used; it is left as it was.

    Only one matrix is held twice at a time.
    """
    originals: dict[int, Tensor] = {}

    def before(module: Any, _inputs: Any) -> None:
        originals[id(module)] = module.weight.data
        module.weight.data = rounding.rule(module.weight.data)

    def after(module: Any, _inputs: Any, _output: Any) -> None:
        module.weight.data = originals.pop(id(module))

    hooks = []
    try:
        for module in _weight_matrices(model, rounding.whole):
            hooks.append(module.register_forward_pre_hook(before))
            hooks.append(module.register_forward_hook(after, always_call=True))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _weight_matrices(model: Any, whole: bool) -> Iterator[Any]:
    """Linear layers, and embeddings, whose weights are numbers and not codes already."""
    import torch

    head = model.get_output_embeddings()
    for module in model.modules():
        kind = isinstance(module, torch.nn.Linear) and module is not head
        if whole:
            kind = isinstance(module, torch.nn.Linear | torch.nn.Embedding)
        if kind and module.weight.is_floating_point() and module.weight.dim() == 2:
            yield module


# Samplers that add up the probabilities of a row in few bits.


def to_float16(x: Floats) -> Floats:
    """Round numbers to float16."""
    return x.astype(np.float16).astype(np.float64)


def to_bfloat16(x: Floats) -> Floats:
    """Round numbers to bfloat16, to even in the middle."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


RowRounding = Callable[[Floats], Floats]


def looked_up(
    p: Floats, rounding: RowRounding, *, sorted_: bool = False, bits: int | None = None
) -> Floats:
    """Return rows (n, V) of tokens that a uniform looks up in a running sum.

    The sum is added up in float32 and rounded; ``sorted_``: with the likeliest token first;
    ``bits``: those of the uniform in (0, 1], as JAX has it; None: as many as it takes.
    """
    order = np.argsort(-p, axis=-1, kind="stable") if sorted_ else None
    ranked = p if order is None else np.take_along_axis(p, order, axis=-1)
    sums = rounding(np.cumsum(ranked.astype(np.float32), axis=-1, dtype=np.float32))
    sums = sums / sums[:, -1:]
    if bits is not None:
        sums = np.floor(sums * 2**bits) / 2**bits
    rows = np.diff(sums, axis=-1, prepend=0.0)
    if order is None:
        return rows
    unsorted = np.empty_like(rows)
    np.put_along_axis(unsorted, order, rows, axis=-1)
    return unsorted


_FORMATS: tuple[tuple[str, RowRounding, int], ...] = (
    ("bfloat16", to_bfloat16, 7),
    ("float16", to_float16, 10),
)
"""Formats of 16 bits, and the bits of JAX's uniforms in each."""

COARSE_LOOKUPS: dict[str, RowRounding] = {
    f"tokens looked up in a {name} running sum{words}": partial(looked_up, **how)
    for name, rounding, bits in _FORMATS
    for words, how in (
        ("", {"rounding": rounding}),
        (", likeliest first", {"rounding": rounding, "sorted_": True}),
        (f" by a uniform of {bits} bits", {"rounding": rounding, "bits": bits}),
    )
}
"""What they make of rows (n, V), by what they do."""
