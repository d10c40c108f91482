"""Transformers: ``generation.utils._speculative_sampling``.

Takes logits and draws from torch's global generator; batch 1; since 4.37. Older releases (5.17 is
one) also ask whether the draft ends the text, and the oldest how many drafts may be kept.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_function

FUNCTION = "_speculative_sampling"
DOES_THE_DRAFT_END = ("is_done_candidate", "last_assistant_token_is_eos")
PARAMETERS = ("candidate_input_ids", "candidate_logits", "candidate_length", "new_logits")


def speculative_sampling(function: Any, *, dtype: str = "float64", **options: Any) -> Verify:
    """Return Transformers' function itself, called with these options, as a ``verify`` callable.

    ``dtype``: of the logits, by torch's name.
    """
    asked = inspect.signature(function).parameters
    options = {**options, **{name: False for name in DOES_THE_DRAFT_END if name in asked}}

    def sample(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        gamma = draft_tokens.shape[1]
        room = {"max_matches": gamma} if "max_matches" in asked else {}
        return function(draft_tokens, draft, gamma, target, **options, **room)[0]

    return as_verify(sample, Signature(arrays="torch", dtype=dtype, logits=True))


def load(path: Path) -> Verify:
    """Return Transformers' function as a ``verify`` callable, in float64."""
    return speculative_sampling(original(path))


def original(path: Path) -> Any:
    """Return Transformers' function from the file where it lies."""
    return load_function(path, FUNCTION)


def engine(name: str, loader: Callable[[Path], Callable[..., Any]], **options: Any) -> Engine:
    """Return an engine of the function; ``options``: what its fields are besides."""
    given = {**BLOCK, "versions": ">=4.37,<6", "parameters": PARAMETERS, **options}
    return Engine(
        name=name,
        package="transformers",
        source="generation/utils.py",
        function=FUNCTION,
        loader=loader,
        tolerance=1e-9,
        **given,
    )


ENGINES = (engine("transformers", load),)
