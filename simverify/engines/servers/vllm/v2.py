"""vLLM, V2 runner: ``rejection_sample``, token and block verification, without a GPU.

Takes logarithms. Its random numbers are functions of a request's seed, a position and, for the
resampled token, a token id: each is one draw. In the exact tier log(1 - u) of the Gumbel noise
is that, and not the kernel's polynomial, to 6e-7. Behind its count a row of tokens is not written.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.stubs import torch
from simverify.engines.servers.vllm.v1 import COMPANY, FUNCTION, VLLM
from simverify.engines.tiles import MATH, addressed, followed_as, load_tiles

DRAWING = ("tl_rand32", "gumbel_block_argmax")


def load(path: Path, *, block: bool) -> Verify:
    """Return the rule as a ``verify`` callable; every call has a fresh seed for each request."""
    noise = path.parents[1] / "sample/gumbel.py"
    own = load_tiles(noise, ["murmur3_uniform32", "_log1p_neg_stable"])
    stable = followed_as(own._log1p_neg_stable, lambda u: MATH.log1p(-u))
    hashed = {"murmur3_uniform32": addressed(own.murmur3_uniform32), "_log1p_neg_stable": stable}
    made = load_tiles(noise, DRAWING, **hashed)
    random = {name: getattr(made, name) for name in DRAWING}
    given = {"tldevice": MATH, "philox_gumbel_block_argmax": None, **random}
    rule = load_tiles(path, [FUNCTION], **given).rejection_sample

    def sample(tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Any) -> Any:
        inside = torch.arange(batch.gamma + 1) <= draft_len[:, None]
        whose, slots = inside.nonzero(as_tuple=True)
        pad, requests = torch.nn.functional.pad, torch.arange(batch.size)
        told = batch.seeds
        seeds = torch.randint(2**62, (batch.size,)) if told is None else torch.tensor(told)
        ends, given = pad((draft_len + 1).cumsum(0), (1, 0)), pad(tokens, (1, 0))[inside]
        return rule(
            target[inside], draft, given, ends, slots + 10, requests, whose, slots,
            torch.tensor(~batch.greedy).float(), seeds, batch.gamma, use_block_verification=block,
        )  # fmt: skip

    signature = Signature(arrays="torch", dtype="float32", logits=True, requests=True)
    return as_verify(sample, signature, COMPANY + ",placeholder")


TOKEN = Engine(
    name="vllm-v2-token",
    source="v1/worker/gpu/spec_decode/rejection_sampler_utils.py",
    function=FUNCTION,
    **VLLM,
    **BLOCK,
    loader=partial(load, block=False),
    parameters=("target_logits", "draft_logits", "draft_sampled", "cu_num_logits", "pos",
                "idx_mapping", "expanded_idx_mapping", "expanded_local_pos", "temperature",
                "seed", "num_speculative_steps", "use_block_verification"),
)  # fmt: skip
ENGINES = (TOKEN, replace(TOKEN, name="vllm-v2-block", loader=partial(load, block=True)))
