"""vLLM-Ascend: the PyTorch path of its rejection sampler, token and block verification.

Takes probabilities, the bonus token and one uniform for each draft, already drawn; the recovered
tokens are drawn by a race of exponentials. ``rejection_sample`` calls the two functions in turn.
"""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify, flatten_drafts
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import load_pieces, torch, torch_without_pinning


def load_rule(path: Path, *, rule: str, block_residual: bool) -> VerifyFunction:
    """Return a rule with the recovered tokens that ``rejection_sample`` gives it."""
    given: dict[str, Any] = dict.fromkeys(("triton", "sample_recovered_tokens_kernel"))
    given |= {"torch": torch_without_pinning(), "PLACEHOLDER_TOKEN_ID": -1, "HAS_TRITON": False}
    rules = load_pieces(path, ["sample_recovered_tokens", rule], **given)

    def sample(tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Any) -> Any:
        given, gamma = flatten_drafts(tokens, target, draft, draft_len, batch), batch.gamma
        rows = given.ends, given.tokens, given.draft, given.target
        recovered = rules.sample_recovered_tokens(
            gamma,
            given.lengths.tolist(),
            *rows,
            SimpleNamespace(generators=given.generators),
            torch.device("cpu"),
            use_block_verify=block_residual,
        )
        coins = torch.rand(len(given.tokens), dtype=torch.float64)
        out = torch.full((batch.size, gamma + 1), -1, dtype=torch.int32)
        getattr(rules, rule)(
            out,
            *rows,
            given.bonus,
            recovered,
            coins,
            given.greedy,
            gamma,
            target.shape[-1],
            IS_NGRAM=draft is None,
        )
        return out

    signature = Signature(arrays="torch", dtype="float32", requests=True)
    return as_verify(sample, signature, "ragged,stale,padded,one-hot")


def make_engine(name: str, rule: str, commit: str, *, block_residual: bool = False) -> Engine:
    """Return an engine of a rule at a commit."""
    return Engine(
        name=name,
        package="vllm_ascend",
        source="sample/rejection_sampler.py",
        function=rule,
        **BLOCK_DEFAULTS,
        loader=partial(load_rule, rule=rule, block_residual=block_residual),
        repository="https://github.com/vllm-project/vllm-ascend",
        commit=commit,
        parameters=(
            "output_token_ids",
            "cu_num_draft_tokens",
            "draft_token_ids",
            "draft_probs",
            "target_probs",
            "bonus_token_ids",
            "recovered_token_ids",
            "uniform_probs",
            "is_greedy",
            "max_spec_len",
            "vocab_size",
            "IS_NGRAM",
        ),
    )


LATEST_COMMIT = "182b75e"
ENGINES: tuple[Engine, ...] = (
    make_engine("ascend-token", "rejection_random_sample_pytorch", LATEST_COMMIT),
)


# Block verification.
#
# At the latest commit ``rejection_sample`` never asks for the residual of block verification:
# ``ascend-block`` is that. ``ascend-block-fix`` is the repair of April 2026, which asks.


BLOCK_RULE, VLLM_ASCEND_BLOCK_FIX_COMMIT = (
    "rejection_random_sample_block_verify_pytorch",
    "2f4d55e",
)
ENGINES += (
    make_engine("ascend-block", BLOCK_RULE, LATEST_COMMIT),
    make_engine(
        "ascend-block-fix",
        BLOCK_RULE,
        VLLM_ASCEND_BLOCK_FIX_COMMIT,
        block_residual=True,
    ),
)
