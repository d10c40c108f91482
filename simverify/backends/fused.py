"""Launches of the fused kernels: their arguments, their outputs, their device."""

import functools
import importlib
from contextlib import nullcontext
from typing import Any

import torch

from simverify.backends.batch import Verified, check_verify, interpreter, load_triton
from simverify.errors import UsageError
from simverify.folders import find_package

FUSED_RULES = ("token", "block")

TILE = 8192
"""Entries that a program holds at a time; a row of V = 152,064 is 19 of them."""

TOLERANCE = {torch.float64: 1e-12} | dict.fromkeys(
    (torch.float32, torch.bfloat16, torch.float16), 1e-5
)
"""By how much a threshold or a running sum may differ from the exact one, by the rows' dtype.

Rows of lower precision are exact numbers, computed with in float32. A bound for tests, not an
estimate: the running sums of a row at V = 152,064 were found to be off by 2e-7 in float32.
"""


def has_triton() -> bool:
    """Whether Triton can be imported."""
    return find_package("triton") is not None


def verify(
    rule: str,
    target: torch.Tensor,
    draft: torch.Tensor | None,
    draft_tokens: torch.Tensor,
    uniforms: torch.Tensor,
    *,
    logits: bool = False,
    check: bool = True,
) -> Verified:
    """Verify a batch of drafted blocks by the fused kernels; ``rule`` is token or block.

    Arguments and result as :func:`simverify.backends.verify`; rows must be contiguous along V.
    CPU tensors are taken where there is no GPU: Triton's interpreter runs on them, for tests.

    Raises ``UsageError`` as there, for other rules and strides, without Triton, and for CPU
    tensors where the kernels are compiled.
    """
    if rule not in FUSED_RULES:
        raise UsageError(f"rule={rule!r}: the fused kernels have {' and '.join(FUSED_RULES)}")
    check_verify(rule, target, draft, draft_tokens, uniforms, logits=logits, check=check)
    assert draft is not None
    for name, rows in (("target", target), ("draft", draft)):
        if rows.stride(-1) != 1 and rows.shape[-1] > 1:
            raise UsageError(f"{name} has stride {rows.stride(-1)} along V: pass .contiguous()")
    kernels = _kernels(target.device)
    batch, gamma = draft_tokens.shape
    vocab = target.shape[2]
    tile = min(TILE, _next_power_of_two(vocab))
    tiles = -(-vocab // tile)
    kind = torch.float64 if target.dtype == torch.float64 else torch.float32
    sizes = {"GAMMA": gamma, "TILES": tiles}
    ways: dict[str, Any] = {"LOGITS": logits, "FLOAT": _triton_dtype(kind)}
    lanes = {"G": _next_power_of_two(gamma + 1), "T": _next_power_of_two(tiles)}
    rows_given = [y for x in (target, draft) for y in (x, x.stride(1), x.stride(0))]
    tokens, coins = draft_tokens.contiguous(), uniforms.contiguous()

    def empty(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=target.device)

    every = 2 * gamma + 1
    norms = every if logits else 0  # probabilities need no normalisers
    scales = [empty(batch, norms, dtype=kind) for _ in range(2)]  # and peaks, which come first
    sums = [empty(batch, norms, tiles, dtype=kind) for _ in range(2)]  # behind their maxima
    states = empty(batch, gamma + 1), empty(batch, gamma + 1, dtype=torch.int32)  # behind weights
    masses = [empty(batch, gamma + 1, tiles) for _ in range(2)]  # of residuals and of plain rows
    out = empty(batch, gamma + 1, dtype=torch.int64), empty(batch, dtype=torch.int64)
    warps = 4 if target.element_size() == 2 else 8  # a thread loads as many bytes at a time
    with _running(target.device):
        if logits:
            for rows, count, first in ((target, gamma + 1, 0), (draft, gamma, gamma + 1)):
                given = rows, rows.stride(1), rows.stride(0), count, *sums, first, every
                options = {"V": vocab, "TILES": tiles, "TILE": tile, "FLOAT": ways["FLOAT"]}
                kernels.sum_tiles[(batch * count * tiles,)](*given, **options, num_warps=warps)
        kernels.weigh[(batch,)](
            *(*rows_given, tokens, coins, *sums, *scales, *states),
            **(sizes | lanes | ways),
            BLOCK_RULE=rule == "block",
        )
        ways |= {"V": vocab, "TILE": tile, "num_warps": 8}
        kernels.sum_laws[(batch * (gamma + 1) * tiles,)](
            *rows_given, *scales, *states, *masses, **(sizes | ways)
        )
        kernels.draw[(batch,)](
            *(*rows_given, *scales, tokens, coins, *states, *masses, *out),
            **(sizes | lanes | ways),
        )
    return Verified(*out)


def fused_uniforms(
    batch: int, gamma: int, seed: int, first_trial: int, call: int, device: torch.device
) -> torch.Tensor:
    """Return :func:`simverify.backends.uniforms` by one launch."""
    kernels = _kernels(device)
    out = torch.empty((batch, gamma + 1), dtype=torch.float64, device=device)
    block = 256
    with _running(device):
        kernels.fill_uniforms[(-(-out.numel() // block),)](
            out, seed, first_trial, call, batch, GAMMA=gamma, BLOCK=block
        )
    return out


@functools.cache
def _load_kernels() -> tuple[Any, str]:
    if not has_triton():
        raise UsageError("the fused kernels need Triton: pip install triton")
    return load_triton(lambda: importlib.import_module("simverify.backends.kernels"))


def _kernels(device: torch.device) -> Any:
    kernels, runs_on = _load_kernels()
    if device.type != runs_on:
        raise UsageError(
            f"the tensors are on {device.type}, the fused kernels run on {runs_on} here: move "
            "them there, or take simverify.backends.rules"
        )
    return kernels


def _running(device: torch.device) -> Any:
    """Triton launches on the current device, and asks again whether to interpret."""
    if device.type == "cpu":
        return interpreter()
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _triton_dtype(kind: torch.dtype) -> Any:
    language = importlib.import_module("triton.language")
    return language.float64 if kind == torch.float64 else language.float32


def _next_power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
