"""taiyoo/speculative-decoding: ``_verify_block``, on logits."""

from pathlib import Path
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import load_function, load_names

TAIYOO_FUNCTION, TAIYOO_HELPER = "_verify_block", "probs_from_logits"
TAIYOO_SAMPLING_SETTINGS = {"do_sample": True, "temperature": 1.0, "top_p": 1.0}


def load_taiyoo(path: Path) -> VerifyFunction:
    """Return the function as a ``verify`` callable."""
    rule = load_function(
        path, TAIYOO_FUNCTION, **load_names(path.parent / "sampling.py", [TAIYOO_HELPER])
    )

    def verify(draft_tokens: Any, target: Any, draft: Any) -> Any:
        chances = draft.exp().gather(1, draft_tokens[:, None])[:, 0]
        token, count = rule(target, draft_tokens, chances, draft, TAIYOO_SAMPLING_SETTINGS)
        return [*draft_tokens[:count].tolist(), token]

    return as_verify(verify, Signature(arrays="torch", logits=True, batched=False))


ENGINES = (
    Engine(
        name="taiyoo",
        package="",
        source="src/speculative.py",
        function=TAIYOO_FUNCTION,
        **BLOCK_DEFAULTS,
        loader=load_taiyoo,
        repository="https://github.com/taiyoo/speculative-decoding",
        commit="a07c811",
        parameters=(
            "verify_logits",
            "draft_tokens",
            "q_token_probs",
            "q_step_logits",
            "gen_kwargs",
        ),
    ),
)
