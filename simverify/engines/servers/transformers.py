"""Transformers: ``generation.utils._speculative_sampling``.

Takes logits and draws from torch's global generator; batch 1. Seen from version 5.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Verify
from simverify.engines.base import Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.stubs import torch
from simverify.errors import UsageError

FUNCTION = "_speculative_sampling"


def speculative_sampling(
    function: Any, *, ensemble_weight: float | None = None, dtype: str = "float64"
) -> Verify:
    """Return Transformers' function ``_speculative_sampling`` as a ``verify`` callable.

    Parameters
    ----------
    function
        The function itself.
    ensemble_weight
        Its option ``assistant_ensemble_weight``, w in [0, 1]: accept with min(1, 1 - w + w p/q).
    dtype
        Torch dtype of the logits.

    Notes
    -----
    With v = w p + (1-w) q the acceptance is min(1, v/q), and the residual (v - q)+ normalises
    to (p - q)+: speculative sampling of v. The emitted token follows v, and
    TV(v, p) = (1 - w) TV(p, q): a dose of known size.
    """
    if ensemble_weight is not None:
        if not 0 <= ensemble_weight <= 1:
            raise UsageError(f"ensemble_weight={ensemble_weight}: pass a weight in [0, 1]")
        if "assistant_ensemble_weight" not in inspect.signature(function).parameters:
            raise UsageError(
                "this version of transformers has no assistant_ensemble_weight: install 5.23"
            )
    options = {} if ensemble_weight is None else {"assistant_ensemble_weight": ensemble_weight}

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        kind = getattr(torch, dtype)
        tokens, _ = function(
            torch.tensor(draft_tokens, dtype=torch.int64)[None],
            torch.tensor(draft_probs, dtype=kind).log()[None],
            len(draft_tokens),
            torch.tensor(target_probs, dtype=kind).log()[None],
            **options,
        )
        return tokens[0]

    return verify


def load(path: Path) -> Verify:
    """Return Transformers' function as a ``verify`` callable, in float64."""
    return speculative_sampling(original(path))


def original(path: Path) -> Any:
    """Return Transformers' function from the file where it lies."""
    return load_function(path, FUNCTION)


def engine(name: str, loader: Callable[[Path], Callable[..., Any]], **options: Any) -> Engine:
    """Return an engine of the function; ``options``: what its fields are besides."""
    given = {"contract": "verify", "tolerance": 1e-9, "versions": ">=4.36,<6", **options}
    return Engine(
        name=name,
        package="transformers",
        source="generation/utils.py",
        function=FUNCTION,
        tier="exact",
        loader=loader,
        needs=("torch",),
        parameters=("candidate_input_ids", "candidate_logits", "candidate_length", "new_logits"),
        **given,
    )


ENGINES = (engine("transformers", load),)
