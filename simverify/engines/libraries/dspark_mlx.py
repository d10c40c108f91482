"""dspark-mlx: ``verify.speculative_sample_accept``, in numpy and with a generator."""

from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import Engine
from simverify.engines.loading.pieces import load_function

FUNCTION = "speculative_sample_accept"


def load(path: Path) -> Verify:
    """Return the function as a ``verify`` callable."""
    accept = load_function(path, FUNCTION)

    def sample(draft_tokens: Any, target: Any, draft: Any, rng: Any) -> Any:
        return accept(draft_tokens, draft, target, rng).tokens

    return as_verify(sample, Signature(randomness="numpy", batched=False))


ENGINES = (
    Engine(
        name="dspark-mlx",
        package="dspark_mlx",
        source="verify.py",
        function=FUNCTION,
        contract="verify",
        tier="exact",
        loader=load,
        distribution="dspark-mlx",
        versions=">=0.1,<0.2",
        parameters=("draft_tokens", "draft_probs", "base_probs", "rng"),
    ),
)
