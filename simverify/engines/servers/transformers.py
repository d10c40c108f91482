"""Transformers: ``generation.utils._speculative_sampling``.

Takes logits and draws from torch's global generator; batch 1. Seen from version 5.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import Engine
from simverify.engines.loading.pieces import load_function

FUNCTION = "_speculative_sampling"
PARAMETERS = ("candidate_input_ids", "candidate_logits", "candidate_length", "new_logits")


def speculative_sampling(function: Any, *, dtype: str = "float64", **options: Any) -> Verify:
    """Return Transformers' function itself, called with these options, as a ``verify`` callable.

    ``dtype``: of the logits, by torch's name.
    """

    def sample(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        return function(draft_tokens, draft, draft_tokens.shape[1], target, **options)[0]

    return as_verify(sample, Signature(arrays="torch", dtype=dtype, logits=True))


def load(path: Path) -> Verify:
    """Return Transformers' function as a ``verify`` callable, in float64."""
    return speculative_sampling(original(path))


def original(path: Path) -> Any:
    """Return Transformers' function from the file where it lies."""
    return load_function(path, FUNCTION)


def engine(name: str, loader: Callable[[Path], Callable[..., Any]], **options: Any) -> Engine:
    """Return an engine of the function; ``options``: what its fields are besides."""
    given = {"contract": "verify", "versions": ">=4.36,<6", "parameters": PARAMETERS, **options}
    return Engine(
        name=name,
        package="transformers",
        source="generation/utils.py",
        function=FUNCTION,
        tier="exact",
        loader=loader,
        tolerance=1e-9,
        needs=("torch",),
        **given,
    )


ENGINES = (engine("transformers", load),)
