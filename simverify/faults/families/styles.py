# ruff: noqa: NPY002 -- global generators are what these are about
"""The correct token rule in the styles that people write it in."""

import random
from typing import Any

import numpy as np

from simverify.faults.base import Control
from simverify.verifiers.base import Array, excess


def vectorised(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Judge all slots at once; the first rejection cuts."""
    slots = np.arange(len(draft_tokens))
    ratios = target_probs[slots, draft_tokens] / draft_probs[slots, draft_tokens]
    rejections = np.flatnonzero(rng.random(len(slots)) >= ratios)
    tau = int(rejections[0]) if len(rejections) else len(slots)
    law = _last_law(target_probs, draft_probs, tau)
    return [*draft_tokens[:tau].tolist(), int(rng.choice(len(law), p=law))]


def searchsorted(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw the last token by inverse CDF."""
    slots = np.arange(len(draft_tokens))
    ratios = target_probs[slots, draft_tokens] / draft_probs[slots, draft_tokens]
    tau = int((rng.random(len(slots)) < ratios).cumprod().sum())
    cdf = np.cumsum(_last_law(target_probs, draft_probs, tau))
    last = int(np.searchsorted(cdf, rng.random() * cdf[-1], side="right"))
    return [*draft_tokens[:tau].tolist(), last]


def gumbel(target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any) -> list[int]:
    """Judge in logs; draw the last token by Gumbel argmax."""
    tau = 0
    with np.errstate(divide="ignore"):
        for p, q, x in zip(target_probs[:-1], draft_probs, draft_tokens, strict=True):
            if np.log(rng.random()) >= np.log(p[x]) - np.log(q[x]):
                break
            tau += 1
        logits = np.log(_last_law(target_probs, draft_probs, tau))
    last = int(np.argmax(logits + rng.gumbel(size=len(logits))))
    return [*draft_tokens[:tau].tolist(), last]


def exponential_race(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw the last token as the winner of an exponential race."""
    tau = 0
    while tau < len(draft_tokens):
        x = draft_tokens[tau]
        if rng.random() * draft_probs[tau, x] >= target_probs[tau, x]:
            break
        tau += 1
    law = _last_law(target_probs, draft_probs, tau)
    last = int(np.argmax(law / rng.exponential(size=len(law))))
    return [*draft_tokens[:tau].tolist(), last]


def random_module(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw everything from the ``random`` module; ``rng`` is not used."""
    tokens: list[int] = []
    for i, x in enumerate(draft_tokens.tolist()):
        if random.random() >= target_probs[i, x] / draft_probs[i, x]:
            break
        tokens.append(x)
    law = _last_law(target_probs, draft_probs, len(tokens))
    return tokens + random.choices(range(len(law)), weights=law.tolist())


def legacy_numpy(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, rng: Any
) -> list[int]:
    """Draw everything from ``np.random``; ``rng`` is not used."""
    tau = 0
    for i, x in enumerate(draft_tokens):
        if np.random.rand() >= target_probs[i, x] / draft_probs[i, x]:
            break
        tau = i + 1
    law = _last_law(target_probs, draft_probs, tau)
    return [*draft_tokens[:tau].tolist(), int(np.random.choice(len(law), p=law))]


def _last_law(target_probs: Array, draft_probs: Array, tau: int) -> Array:
    p = target_probs[tau]
    law = excess(p, draft_probs[tau]) if tau < len(draft_probs) else p
    total = law.sum()
    # A rejection leaves residual mass; none can only be rounding.
    normalised: Array = law / total if total > 0 else p
    return normalised


STYLES = tuple(
    Control(name, "verify", rule, f"token verification, {how}", "an unusual way to draw")
    for name, rule, how in (
        ("token-vectorised", vectorised, "all slots judged at once"),
        ("token-searchsorted", searchsorted, "last token by searchsorted"),
        ("token-gumbel", gumbel, "in logs, last token by Gumbel argmax"),
        ("token-exponential-race", exponential_race, "last token by an exponential race"),
        ("token-random-module", random_module, "drawn from the random module"),
        ("token-legacy-numpy", legacy_numpy, "drawn from the global np.random"),
    )
)
