"""vLLM-Ascend: the PyTorch path of its rejection sampler.

Takes probabilities, the bonus token and one uniform a draft ready drawn; the recovered tokens are
drawn by a race of exponentials. ``rejection_sample`` calls the two functions in turn.
"""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.adapting.flat import flat
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_pieces
from simverify.engines.loading.stubs import torch, unpinned


def load(path: Path, *, rule: str, block_residual: bool) -> Verify:
    """Return a rule with the recovered tokens that ``rejection_sample`` gives it."""
    given: dict[str, Any] = dict.fromkeys(("triton", "sample_recovered_tokens_kernel"))
    given |= {"torch": unpinned(), "PLACEHOLDER_TOKEN_ID": -1, "HAS_TRITON": False}
    rules = load_pieces(path, ["sample_recovered_tokens", rule], **given)

    def sample(tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Any) -> Any:
        given, gamma = flat(tokens, target, draft, draft_len, batch), batch.gamma
        rows = given.ends, given.tokens, given.draft, given.target
        recovered = rules.sample_recovered_tokens(
            gamma, given.lengths.tolist(), *rows, SimpleNamespace(generators=given.generators),
            torch.device("cpu"), use_block_verify=block_residual,
        )  # fmt: skip
        coins = torch.rand(len(given.tokens), dtype=torch.float64)
        out = torch.full((batch.size, gamma + 1), -1, dtype=torch.int32)
        getattr(rules, rule)(
            out, *rows, given.bonus, recovered, coins, given.greedy, gamma, target.shape[-1],
            IS_NGRAM=draft is None,
        )  # fmt: skip
        return out

    signature = Signature(arrays="torch", dtype="float32", requests=True)
    return as_verify(sample, signature, "ragged,stale,padded,one-hot")


def engine(name: str, rule: str, commit: str, *, block_residual: bool = False) -> Engine:
    """Return an engine of a rule at a commit."""
    return Engine(
        name=name,
        package="vllm_ascend",
        source="sample/rejection_sampler.py",
        function=rule,
        **BLOCK,
        loader=partial(load, rule=rule, block_residual=block_residual),
        repository="https://github.com/vllm-project/vllm-ascend",
        commit=commit,
        parameters=("output_token_ids", "cu_num_draft_tokens", "draft_token_ids", "draft_probs",
                    "target_probs", "bonus_token_ids", "recovered_token_ids", "uniform_probs",
                    "is_greedy", "max_spec_len", "vocab_size", "IS_NGRAM"),
    )  # fmt: skip


LATEST = "182b75e"
ENGINES = (engine("ascend-token", "rejection_random_sample_pytorch", LATEST),)
