"""vLLM-Ascend: the PyTorch path of its rejection sampler, token and block verification.

Takes probabilities, the bonus token and one uniform a draft ready drawn; the recovered tokens are
drawn by a race of exponentials. ``rejection_sample`` calls the two functions in turn, and the
latest one never asks the first for the residual of block verification: ``ascend-block`` is that.
``ascend-block-fix`` is the repair of April 2026, which asks. Tensors are asked to be pinned,
which needs an accelerator; here they are not.
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

RECOVER = "sample_recovered_tokens"


def load(path: Path, *, rule: str, block_residual: bool) -> Verify:
    """Return a rule with the recovered tokens that ``rejection_sample`` gives it."""
    kernels = {"HAS_TRITON": False, "triton": None, "sample_recovered_tokens_kernel": None}
    given: dict[str, Any] = {"torch": unpinned(), "PLACEHOLDER_TOKEN_ID": -1, **kernels}
    rules = load_pieces(path, [RECOVER, rule], **given)

    def sample(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        batch, gamma = draft_tokens.shape
        given = flat(draft_tokens, target, draft, draft_len)
        rows = given.ends, given.tokens, given.draft, given.target
        recovered = rules.sample_recovered_tokens(
            gamma, given.lengths.tolist(), *rows, SimpleNamespace(generators={}),
            torch.device("cpu"), use_block_verify=block_residual,
        )  # fmt: skip
        coins = torch.rand(len(given.tokens), dtype=torch.float64)
        out = torch.full((batch, gamma + 1), -1, dtype=torch.int32)
        greedy, vocab = torch.zeros(batch, dtype=torch.bool), target.shape[-1]
        getattr(rules, rule)(
            out, *rows, given.bonus, recovered, coins, greedy, gamma, vocab, IS_NGRAM=False
        )
        return out

    return as_verify(sample, Signature(arrays="torch", dtype="float32"))


def _engine(name: str, block: bool, commit: str, *, block_residual: bool = False) -> Engine:
    rule = "rejection_random_sample_" + ("block_verify_" if block else "") + "pytorch"
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


LATEST, REPAIR = (
    "182b75ea84ff13ece27b57391331ef8935410aea",
    "2f4d55e7e88ca3ff8960bccac749eb380f0c423d",
)
ENGINES: tuple[Engine, ...] = (
    _engine("ascend-token", False, LATEST),
    _engine("ascend-block", True, LATEST),
    _engine("ascend-block-fix", True, REPAIR, block_residual=True),
)
