"""Spec-Bench: ``_speculative_sampling`` of its plain speculative decoding, on logits."""

from pathlib import Path
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import load_function

SPEC_BENCH_FUNCTION = "_speculative_sampling"


def load_spec_bench(path: Path) -> VerifyFunction:
    """Return the function as a ``verify`` callable, with room for every match and no end."""
    rule = load_function(path, SPEC_BENCH_FUNCTION)

    def verify(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        gamma = draft_tokens.shape[1]
        return rule(draft_tokens, draft, gamma, target, False, gamma + 1)[0]

    return as_verify(verify, Signature(arrays="torch", logits=True))


ENGINES = (
    Engine(
        name="spec-bench-sps",
        package="model",
        source="sps/decoding.py",
        function=SPEC_BENCH_FUNCTION,
        **BLOCK_DEFAULTS,
        loader=load_spec_bench,
        repository="https://github.com/hemingkx/Spec-Bench",
        commit="fd2c1cd",
        parameters=(
            "candidate_input_ids",
            "candidate_logits",
            "candidate_length",
            "new_logits",
            "last_assistant_token_is_eos",
            "max_matches",
        ),
    ),
)
