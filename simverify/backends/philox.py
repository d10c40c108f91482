"""The uniforms of a batch in torch, from the addresses that the compiled kernels read.

Philox 4x32-10 as in ``simverify.simulators.kernels.philox``, which says what an address is: key =
seed, counter = (trial low, trial high, stream, call). Row b of a batch is trial first_trial + b.
torch has no unsigned 64-bit product, so words are int64 and a product is put together from halves.
"""

from typing import Any

import torch

from simverify.errors import UsageError
from simverify.simulators.kernels.philox import ACCEPT, CORRECTION, DRAFT

_MUL0, _MUL1 = 0xD2511F53, 0xCD9E8D57
_WEYL0, _WEYL1 = 0x9E3779B9, 0xBB67AE85
_LOW_WORD = 0xFFFFFFFF
_HALF_WORD = 0xFFFF


def uniforms(
    batch: int, gamma: int, *, seed: int, first_trial: int = 0, call: int = 0, device: Any = "cpu"
) -> torch.Tensor:
    """Return the uniforms that a verification call of each trial reads.

    Parameters
    ----------
    batch, gamma
        Number of trials B and draft length, each 1 or more.
    seed
        Key, 0 to 2^64 - 1.
    first_trial
        Row b is trial ``first_trial + b``, below 2^63.
    call
        Number of the call within its generation, from 0.
    device
        Where the tensor is to lie.

    Returns
    -------
    torch.Tensor
        float64 (B, gamma+1), multiples of 2^-53 in [0, 1): draw i of the call from the stream
        ACCEPT in column i, and the draw for the residual or bonus token, from CORRECTION, in the
        last one. To the last bit what the compiled kernels draw.

    Raises ``UsageError`` for a number out of range.
    """
    _check_address(batch, gamma, seed, first_trial, call)
    place = torch.device(device)
    if place.type == "cuda":
        from simverify.backends import fused

        if fused.has_triton():
            return fused.fused_uniforms(batch, gamma, seed, first_trial, call, place)
    accept = _stream_draws(
        ACCEPT, batch, gamma, seed, first_trial, call * philox_calls(gamma), place
    )
    correction = _stream_draws(CORRECTION, batch, 1, seed, first_trial, call, place)
    return torch.cat([accept, correction], dim=1)


def draft_uniforms(
    batch: int, gamma: int, *, seed: int, first_trial: int = 0, call: int = 0, device: Any = "cpu"
) -> torch.Tensor:
    """Return the uniforms (B, gamma) that the drafts of a call are drawn by: stream DRAFT.

    Arguments and errors as :func:`uniforms`.
    """
    _check_address(batch, gamma, seed, first_trial, call)
    first = call * philox_calls(gamma)
    return _stream_draws(DRAFT, batch, gamma, seed, first_trial, first, torch.device(device))


def philox_calls(gamma: int) -> int:
    """Evaluations of Philox that ``gamma`` draws take: each gives two."""
    return (gamma + 1) // 2


def _stream_draws(
    stream: int, batch: int, count: int, seed: int, trial: int, first_call: int, device: Any
) -> torch.Tensor:
    """Return float64 (batch, count): draw n is word pair n mod 2 of call first_call + n div 2."""
    trials = torch.arange(trial, trial + batch, device=device)[:, None]
    calls = torch.arange(first_call, first_call + philox_calls(count), device=device)[None]
    a, b, c, d = _philox_rounds(
        trials & _LOW_WORD, trials >> 32, stream, calls, seed & _LOW_WORD, seed >> 32
    )
    pairs = torch.stack([b << 21 | a >> 11, d << 21 | c >> 11], dim=-1)
    return pairs.reshape(batch, -1)[:, :count].double() * 2.0**-53


def _philox_rounds(c0: Any, c1: Any, stream: int, calls: Any, k0: int, k1: int) -> Any:
    c2, c3 = torch.full_like(calls, stream), calls
    for _ in range(10):
        high0, low0 = _wide_product(_MUL0, c0)
        high1, low1 = _wide_product(_MUL1, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL0) & _LOW_WORD, (k1 + _WEYL1) & _LOW_WORD
    return c0, c1, c2, c3


def _wide_product(multiplier: int, word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the high and the low word of a product of two 32-bit words."""
    low = multiplier * (word & _HALF_WORD)
    high = multiplier * (word >> 16) + (low >> 16)
    return high >> 16, (high & _HALF_WORD) << 16 | low & _HALF_WORD


def _check_address(batch: int, gamma: int, seed: int, first_trial: int, call: int) -> None:
    numbers = {
        "batch": (batch, 1, 2**31),
        "gamma": (gamma, 1, 2**16),
        "seed": (seed, 0, 2**64),
        "first_trial": (first_trial, 0, 2**63 - max(batch, 0)),
        # A counter word has 32 bits, and a call takes up to gamma / 2 + 1 of its values.
        "call": (call, 0, 2**32 // max(philox_calls(gamma), 1)),
    }
    for name, (value, low, end) in numbers.items():
        if not low <= value < end:
            raise UsageError(f"{name}={value}: pass an integer from {low} to {end - 1}")
