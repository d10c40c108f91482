"""flashspec: ``sampling.rejection.rejection_step``.

Takes logarithms of both models' rows, computes in float32 and draws from torch's global generator.
Its optional assembly kernel is left out: the residual is the one in torch.
"""

from pathlib import Path
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import load_function

FLASHSPEC_FUNCTION = "rejection_step"


def load_flashspec(path: Path) -> VerifyFunction:
    """Return the function as a ``verify`` callable."""
    step = load_function(path, FLASHSPEC_FUNCTION, logger=None)

    def sample(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        accepted, last = step(draft_tokens, draft, target)[0].tolist()
        return [[*draft_tokens[0, :accepted].tolist(), last]]

    return as_verify(sample, Signature(arrays="torch", logits=True))


ENGINES = (
    Engine(
        name="flashspec",
        package="flashspec",
        source="sampling/rejection.py",
        function=FLASHSPEC_FUNCTION,
        **BLOCK_DEFAULTS,
        loader=load_flashspec,
        versions=">=0.3.1,<0.4",
        parameters=("draft_token_ids", "draft_logprobs", "target_logprobs"),
    ),
)
