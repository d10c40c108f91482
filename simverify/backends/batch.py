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

SUM_TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 1e-5,
    torch.float16: 1e-3,
    torch.bfloat16: 1e-2,
}
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
    _check_shapes(target, draft, draft_tokens, uniforms)
    _check_dtypes(target, draft, draft_tokens, uniforms)
    if check:
        _check_tokens(draft_tokens, target.shape[-1])
        _check_uniforms(uniforms)
        for name, rows in (("target", target), ("draft", draft)):
            if rows is not None:
                (_check_logits if logits else _check_rows)(name, rows)


def _check_shapes(
    target: torch.Tensor,
    draft: torch.Tensor | None,
    draft_tokens: torch.Tensor,
    uniforms: torch.Tensor,
) -> None:
    if draft_tokens.dim() != 2 or 0 in draft_tokens.shape:
        raise UsageError(
            f"draft_tokens has shape {_shape_of(draft_tokens)}: pass (B, gamma), not empty"
        )
    batch, gamma = draft_tokens.shape
    if target.dim() != 3 or target.shape[:2] != (batch, gamma + 1) or not target.shape[2]:
        raise UsageError(
            f"target has shape {_shape_of(target)}, draft_tokens {_shape_of(draft_tokens)}: "
            f"pass (B, gamma+1, V) = ({batch}, {gamma + 1}, V)"
        )
    vocab = target.shape[2]
    if draft is not None and draft.shape != (batch, gamma, vocab):
        raise UsageError(
            f"draft has shape {_shape_of(draft)}: pass (B, gamma, V) = ({batch}, {gamma}, {vocab})"
        )
    if uniforms.shape != (batch, gamma + 1):
        raise UsageError(
            f"uniforms has shape {_shape_of(uniforms)}: pass (B, gamma+1) = ({batch}, {gamma + 1})"
        )


def _check_dtypes(
    target: torch.Tensor,
    draft: torch.Tensor | None,
    draft_tokens: torch.Tensor,
    uniforms: torch.Tensor,
) -> None:
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


def _check_tokens(draft_tokens: torch.Tensor, vocab: int) -> None:
    bad = (draft_tokens < 0) | (draft_tokens >= vocab)
    if bool(bad.any()):
        b, i = bad.nonzero()[0].tolist()
        raise UsageError(
            f"draft_tokens[{b}, {i}] = {int(draft_tokens[b, i])}: pass ids in 0..{vocab - 1}"
        )


def _check_uniforms(uniforms: torch.Tensor) -> None:
    good = (uniforms >= 0) & (uniforms < 1)
    if not bool(good.all()):
        b, i = (~good).nonzero()[0].tolist()
        raise UsageError(f"uniforms[{b}, {i}] = {float(uniforms[b, i])}: pass numbers in [0, 1)")


def _check_rows(name: str, rows: torch.Tensor) -> None:
    sums = rows.sum(dim=-1, dtype=torch.float64)
    least = rows.amin(dim=-1)
    # A NaN is on no side of anything.
    good = ((sums - 1).abs() <= SUM_TOLERANCE[rows.dtype]) & (least >= 0)
    if bool(good.all()):
        return
    b, i = (~good).nonzero()[0].tolist()
    what = (
        f"sums to {float(sums[b, i]):.6g} ({_dtype_name(rows)}): pass probabilities, or logits=True"
        if not float(least[b, i]) < 0
        else f"has the entry {float(least[b, i]):.6g}: pass probabilities, or logits=True"
    )
    raise UsageError(f"{name}[{b}, {i}] {what}")


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


def _shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


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
