"""taiyoo/speculative-decoding: ``_verify_block``, on logits."""

from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_function, load_names

FUNCTION, HELPER = "_verify_block", "probs_from_logits"
SAMPLING = {"do_sample": True, "temperature": 1.0, "top_p": 1.0}


def load(path: Path) -> Verify:
    """Return the function as a ``verify`` callable."""
    rule = load_function(path, FUNCTION, **load_names(path.parent / "sampling.py", [HELPER]))

    def verify(draft_tokens: Any, target: Any, draft: Any) -> Any:
        chances = draft.exp().gather(1, draft_tokens[:, None])[:, 0]
        token, kept = rule(target, draft_tokens, chances, draft, SAMPLING)
        return [*draft_tokens[:kept].tolist(), token]

    return as_verify(verify, Signature(arrays="torch", logits=True, batched=False))


ENGINES = (
    Engine(
        name="taiyoo",
        package="",
        source="src/speculative.py",
        function=FUNCTION,
        **BLOCK,
        loader=load,
        repository="https://github.com/taiyoo/speculative-decoding",
        commit="a07c811",
        parameters=("verify_logits", "draft_tokens", "q_token_probs", "q_step_logits",
                    "gen_kwargs"),
    ),
)  # fmt: skip
