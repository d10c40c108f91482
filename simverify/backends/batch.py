"""A batch of verification calls: what goes in, what comes out, and the checks of the input."""

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from simverify.checks import pick_name
from simverify.errors import SimverifyError, UsageError

RULES = ("token", "block", "greedy", "match")
"""Rules on tensors: ``greedy`` is the first call of a generation, whose debt is not kept."""

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
SUM_TOLERANCE = dict(zip(_FLOATS, (1e-9, 1e-5, 1e-3, 1e-2), strict=True))
"""Dtypes of rows, and how far from 1 their sums may be."""


class Verified(NamedTuple):
    """Emitted tokens of a batch.

    ``tokens``: int64 (B, gamma+1), an accepted prefix of the drafts and one more token, padded
    with -1. ``tau``: int64 (B,), number of accepted tokens, 0..gamma.
    """

    tokens: torch.Tensor
    tau: torch.Tensor


def check_verify(
    rule: str,
    target: torch.Tensor,
    draft: torch.Tensor | None,
    draft_tokens: torch.Tensor,
    uniforms: torch.Tensor,
    *,
    logits: bool,
    check: bool,
) -> None:
    """Refuse with ``UsageError`` what the rules cannot take; values are read if ``check``."""
    pick_name(rule, RULES, "rule")
    given = {"target": target, "draft_tokens": draft_tokens, "uniforms": uniforms}
    if draft is not None:
        given["draft"] = draft
    elif rule != "match":
        raise UsageError(f"draft is None: the {rule} rule reads the rows drafts were drawn from")
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            raise UsageError(f"{name} is a {type(value).__name__}: pass a torch.Tensor")
        if value.device != target.device:
            raise UsageError(
                f"{name} is on {value.device}, target on {target.device}: move all to one device"
            )
    _check_layouts(target, draft, draft_tokens, uniforms)
    if check:
        _check_numbers(draft_tokens, uniforms, target.shape[-1])
        for name in ("target", "draft"):
            if name in given:
                (_check_logits if logits else _check_rows)(name, given[name])


def _check_layouts(
    target: torch.Tensor,
    draft: torch.Tensor | None,
    draft_tokens: torch.Tensor,
    uniforms: torch.Tensor,
) -> None:
    """Check shapes, then dtypes."""
    shape, drafted = tuple(target.shape), tuple(draft_tokens.shape)
    if len(drafted) != 2 or 0 in drafted:
        raise UsageError(f"draft_tokens has shape {drafted}: pass (B, gamma), not empty")
    batch, gamma = drafted
    if len(shape) != 3 or shape[:2] != (batch, gamma + 1) or not shape[2]:
        raise UsageError(
            f"target has shape {shape}, draft_tokens {drafted}: "
            f"pass (B, gamma+1, V) = ({batch}, {gamma + 1}, V)"
        )
    for name, value, words, expected in (
        ("draft", draft, "(B, gamma, V)", (batch, gamma, shape[2])),
        ("uniforms", uniforms, "(B, gamma+1)", (batch, gamma + 1)),
    ):
        if value is not None and value.shape != expected:
            raise UsageError(f"{name} has shape {tuple(value.shape)}: pass {words} = {expected}")
    if target.dtype not in SUM_TOLERANCE:
        raise UsageError(
            f"target is {_dtype_name(target)}: pass float64, float32, bfloat16 or float16"
        )
    if draft is not None and draft.dtype != target.dtype:
        raise UsageError(
            f"draft is {_dtype_name(draft)}, target {_dtype_name(target)}: pass the same dtype"
        )
    if draft_tokens.dtype != torch.int64:
        raise UsageError(f"draft_tokens is {_dtype_name(draft_tokens)}: pass int64")
    if uniforms.dtype != torch.float64:
        raise UsageError(
            f"uniforms is {_dtype_name(uniforms)}: pass float64, in float32 one of 2^25 rounds to 1"
        )


def _check_numbers(draft_tokens: torch.Tensor, uniforms: torch.Tensor, vocab: int) -> None:
    for name, values, end, words in (
        ("draft_tokens", draft_tokens, vocab, f"ids in 0..{vocab - 1}"),
        ("uniforms", uniforms, 1, "numbers in [0, 1)"),
    ):
        good = (values >= 0) & (values < end)
        if not bool(good.all()):
            b, i = (~good).nonzero()[0].tolist()
            raise UsageError(f"{name}[{b}, {i}] = {values[b, i].item()}: pass {words}")


def _check_rows(name: str, rows: torch.Tensor) -> None:
    sums = rows.sum(dim=-1, dtype=torch.float64)
    least = rows.amin(dim=-1)
    # A NaN is on no side of anything.
    good = ((sums - 1).abs() <= SUM_TOLERANCE[rows.dtype]) & (least >= 0)
    if bool(good.all()):
        return
    b, i = (~good).nonzero()[0].tolist()
    total, entry = float(sums[b, i]), float(least[b, i])
    what = f"has the entry {entry:.6g}" if entry < 0 else f"sums to {total:.6g}"
    kind = "" if entry < 0 else f" ({_dtype_name(rows)})"
    raise UsageError(f"{name}[{b}, {i}] {what}{kind}: pass probabilities, or logits=True")


def _check_logits(name: str, rows: torch.Tensor) -> None:
    # The largest is NaN where any is; it is -inf where no token has mass.
    most = rows.amax(dim=-1)
    good = most.isfinite()
    if not bool(good.all()):
        b, i = (~good).nonzero()[0].tolist()
        raise UsageError(
            f"{name}[{b}, {i}] has {float(most[b, i])} as its largest logit: pass finite logits, "
            "-inf only where the probability is 0"
        )


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# Triton with a GPU or without: compiled kernels there, its interpreter here.


def load_triton(load: Callable[[], Any]) -> tuple[Any, str]:
    """Return what ``load()`` imports, and the device that its kernels run on.

    Without a GPU they run in Triton's interpreter, which has to be chosen before Triton is
    imported: raises ``SimverifyError`` if it is too late.
    """
    torch = importlib.import_module("torch")
    if torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
        return load(), "cuda"
    with interpreter():
        standard = importlib.import_module("triton.language.standard")
        if type(standard.cdiv).__name__ != "InterpretedFunction":
            raise SimverifyError(
                "Triton was imported to compile and there is no GPU: set TRITON_INTERPRET=1 "
                "before starting"
            )
        return load(), "cpu"


@contextmanager
def interpreter() -> Iterator[None]:
    """Triton asks for this variable when it loads, decorates and runs; others should not see it."""
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = before
