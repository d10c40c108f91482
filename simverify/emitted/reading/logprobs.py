"""Log probabilities that an engine says its tokens had: where they stand, and how fine they are."""

import math
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_DECIMALS = 7
"""So many decimals of a number are taken for all of float32's."""

_ABOVE = 1e-3
"""Rounding brings a log probability of a certain token so far above 0."""


def stated_logprobs(choice: dict[str, Any]) -> list[float | None] | None:
    """Return those of a choice, one a token, None for one that is missing; None for no list."""
    own = _listed(choice)
    return None if own is None else _numbers(own)


def unread_logprobs(choice: dict[str, Any], tokens: int) -> str | None:
    """Say what cannot be right of a choice's values for so many tokens; None: nothing, or none."""
    own = _listed(choice)
    if not own:
        return None
    odd = next((v for v in own if v is not None and type(v) not in (int, float)), None)
    if odd is not None:
        return f"{reprlib.repr(odd)} is no number: expected a number or null for each token"
    if len(own) != tokens:
        return f"{len(own)} of {tokens} tokens: expected one a token"
    above = next((v for v in own if v is not None and v > _ABOVE), None)
    if above is not None:
        return f"{above:g} is above 0: a log probability is 0 at most"
    return None


def _listed(choice: dict[str, Any]) -> list[Any] | None:
    """What stands where log probabilities stand."""
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, list):
        return logprobs
    if not isinstance(logprobs, dict):
        return None
    content = logprobs.get("content")
    if isinstance(content, list) and all(isinstance(entry, dict) for entry in content):
        return [entry.get("logprob") for entry in content]
    own = logprobs.get("token_logprobs")
    return own if isinstance(own, list) else None


def _numbers(values: list[Any]) -> list[float | None] | None:
    """The values, each a number or None; None where one is neither, or there is no number."""
    kinds = all(value is None or type(value) in (int, float) for value in values)
    if not kinds or all(value is None for value in values):
        return None
    return [None if v is None or not math.isfinite(v) else float(v) for v in values]


def fineness(values: Sequence[float]) -> float:
    """Return by how much reported values may be off, as they are written or were computed.

    Values of few decimals are off by half of the last; those of half precision by half a unit of
    their own.
    """
    x = np.array([value for value in values if value not in (0.0, None)], float)
    if not len(x):
        return 0.0
    for decimals in range(1, _DECIMALS):
        if np.allclose(x, np.round(x, decimals), rtol=0, atol=1e-12):
            return 0.5 * 10.0**-decimals
    bits = x.astype(np.float32).view(np.uint32)
    sizes = float(np.abs(x).max())
    for dropped in (16, 13):  # bfloat16, float16
        if np.allclose(x, x.astype(np.float32), rtol=1e-9) and not (bits % (1 << dropped)).any():
            return sizes * 2.0 ** (dropped - 24)
    return sizes * 2.0**-24
