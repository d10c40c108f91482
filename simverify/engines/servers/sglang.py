"""SGLang: ``chain_speculative_sampling_triton``, token and block verification.

The coins are arguments; the root token stands in slot 0 of the candidates; outputs are
written into buffers. Without a GPU the kernel is run as :mod:`simverify.engines.tiles` says and
followed path by path; on a GPU it is compiled, and its coins are bisected. One file is loaded,
not the package, which would pull in its kernels.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import COIN_BITS, Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine, load_file
from simverify.engines.loading.stubs import torch
from simverify.engines.tiles import ON_CPU, load_tiles

FUNCTION = "chain_speculative_sampling_triton"


def chain_sampling(function: Any, *, block: bool = False, device: str = "cpu") -> Verify:
    """Return SGLang's function as a ``verify`` callable, which may be given its coins.

    The last of gamma + 1 is for the residual or bonus token.
    """

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

    return as_verify(sample, Signature("coins", "torch", "float32", device))


def load(path: Path, *, block: bool) -> Verify:
    """Return a rule as a ``verify`` callable, its kernel run without a GPU."""
    function = getattr(load_tiles(path, [FUNCTION]), FUNCTION)
    return chain_sampling(function, block=block)


def load_compiled(path: Path, *, block: bool) -> Verify:
    """Return a rule that takes its coins, compiled for the GPU."""
    function = getattr(load_file(path, "simverify_loaded.sglang_reject_sampling"), FUNCTION)
    return chain_sampling(function, block=block, device="cuda")


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
        note=ON_CPU,
    )  # fmt: skip
    compiled = replace(
        engine, tier="coins", tolerance=1e-6, loader=partial(load_compiled, block=block),
        needs=("torch", "triton"), coin_bits=COIN_BITS["float32"], note="",
    )  # fmt: skip
    return replace(engine, on_gpu=compiled)


ENGINES = (_engine("sglang", block=False), _engine("sglang-block", block=True))
