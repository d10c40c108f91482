"""SGLang: ``chain_speculative_sampling_triton``, token and block verification.

The coins are arguments; the root token stands in slot 0 of the candidates; outputs are written
into buffers. One file is loaded, not the package, which would pull in its kernels.
"""

from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import COIN_BITS, Signature, Verify, as_verify
from simverify.engines.adapting.gpu import compiled_on_gpu
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.packages import load_file
from simverify.engines.loading.stubs import torch
from simverify.engines.tiles import load_tiles

FUNCTION = "chain_speculative_sampling_triton"


def chain_sampling(function: Any, *, block: bool = False, device: str = "cpu") -> Verify:
    """Return the function as a ``verify``, which may be given its coins: the last is for a draw."""

    def sample(draft_tokens: Any, target: Any, draft: Any, _: Any, coins: Any) -> list[list[int]]:
        places = torch.arange(coins.numel(), device=coins.device).reshape(coins.shape)
        kept = torch.full_like(places, -1, dtype=torch.int32)
        predicted, counts = kept.flatten().clone(), kept[:, 0].clone()
        function(
            predicted, kept, counts, torch.nn.functional.pad(draft_tokens, (1, 0)), places,
            None, None, coins[:, :-1].contiguous(), coins[:, -1].contiguous(), target, draft,
            1.0, 1.0, True, block_verification=block,
        )  # fmt: skip
        rows = zip(kept.tolist(), counts.tolist(), strict=True)
        return [[int(predicted[place]) for place in row[: count + 1]] for row, count in rows]

    return as_verify(sample, Signature("coins", "torch", "float32", device), "padded")


def load(path: Path, *, block: bool, device: str = "cpu") -> Verify:
    """Return a rule as a ``verify`` callable: run without a GPU, or compiled for one."""
    name = "simverify_loaded.sglang_reject_sampling"
    module = load_tiles(path, [FUNCTION]) if device == "cpu" else load_file(path, name)
    return chain_sampling(getattr(module, FUNCTION), block=block, device=device)


def _engine(name: str, *, block: bool) -> Engine:
    engine = Engine(
        name=name,
        package="sglang",
        source="kernels/ops/speculative/reject_sampling.py",
        function=FUNCTION,
        **BLOCK,
        loader=partial(load, block=block),
        versions=">=0.5.23,<0.6",
        parameters=("predicts", "accept_index", "accept_token_num", "candidates", "retrive_index",
                    "uniform_samples", "target_probs", "draft_probs", "block_verification"),
    )  # fmt: skip
    compiled = partial(load, block=block, device="cuda")
    return compiled_on_gpu(engine, compiled, tolerance=1e-6, coin_bits=COIN_BITS["float32"])


ENGINES = (_engine("sglang", block=False), _engine("sglang-block", block=True))
