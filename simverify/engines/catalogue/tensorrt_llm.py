"""TensorRT-LLM: ``get_rejected_indices`` and ``sample_rejected`` of its PyTorch sampler.

Takes probabilities and a generator, here torch's global one. The bonus token is the target's own
sample at the last position, drawn here as its sampler does. Nothing is pinned: that asks for a GPU.
"""

from pathlib import Path
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import load_pieces, torch, torch_without_pinning

TENSORRT_LLM_FUNCTION = "get_rejected_indices"


def load_tensorrt_llm(path: Path) -> VerifyFunction:
    """Return the two functions, called as the sampler calls them, as a ``verify`` callable."""
    rule = load_pieces(
        path, [TENSORRT_LLM_FUNCTION, "sample_rejected"], torch=torch_without_pinning()
    )

    def sample(draft_tokens: Any, target: Any, draft: Any, source: Any) -> list[int]:
        tokens = draft_tokens.tolist()
        rejected = rule.get_rejected_indices(draft, target, source, tokens)
        if len(rejected) == 0:
            return [*tokens, int(torch.multinomial(target[-1], 1, generator=source))]
        accepted = int(rejected[0])
        return [*tokens[:accepted], rule.sample_rejected(draft, target, source, accepted)]

    return as_verify(sample, Signature("torch", arrays="torch", batched=False))


ENGINES = (
    Engine(
        name="trtllm",
        package="tensorrt_llm",
        source="_torch/pyexecutor/sampling_utils.py",
        function=TENSORRT_LLM_FUNCTION,
        **BLOCK_DEFAULTS,
        loader=load_tensorrt_llm,
        repository="https://github.com/NVIDIA/TensorRT-LLM",
        commit="053c42c948a14cf3c21981179ecc10a7d7ad8fb6",
        parameters=("draft_probs", "target_probs", "generator", "draft_tokens"),
    ),
)
