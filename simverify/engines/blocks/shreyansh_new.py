"""shreyansh26/Speculative-Decoding: ``probabilistic_verify``.

Takes the target as a model, and the draft's probabilities.
:mod:`~simverify.engines.loops.shreyansh_old` is the same author's older repository.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import BOS

FUNCTION = "probabilistic_verify"


def load(path: Path) -> Verify:
    """Return the function as a ``verify`` callable."""
    rule = load_function(path, FUNCTION)

    def verify(draft_tokens: Any, target: Any, draft: Any) -> Any:
        model = lambda _: SimpleNamespace(logits=target[None])  # noqa: E731
        return rule(model, [BOS], draft_tokens.tolist(), draft.exp()).emitted_ids

    return as_verify(verify, Signature(arrays="torch", logits=True, batched=False))


ENGINES = (
    Engine(
        name="shreyansh-new",
        package="common",
        source="verification.py",
        function=FUNCTION,
        **BLOCK,
        loader=load,
        repository="https://github.com/shreyansh26/Speculative-Decoding",
        commit="76335be",
        parameters=("model", "prefix_ids", "draft_ids", "draft_probs"),
    ),
)
