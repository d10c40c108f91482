"""SGLang: ``chain_speculative_sampling_triton``, token and block verification.

The coins are arguments; the root token stands in slot 0 of the candidates; outputs are
written into buffers. Without a GPU the kernel is run as :mod:`simverify.engines.tiles` says and
followed path by path; on a GPU it is compiled, and its coins are bisected. One file is loaded,
not the package, which would pull in its kernels.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import COIN_BITS, Verify
from simverify.engines.base import BLOCK, Engine, load_file
from simverify.engines.loading.stubs import torch
from simverify.engines.tiles import ON_CPU, load_tiles

FUNCTION = "chain_speculative_sampling_triton"
ROOT = 0
"""Token in the root slot: the one before the draft. The function does not read it."""


def chain_sampling(
    function: Any, *, block_verification: bool = False, device: str = "cpu"
) -> Callable[..., list[int]]:
    """Return SGLang's function as ``f(target_probs, draft_probs, draft_tokens, coins)``.

    ``coins`` float (gamma+1,), the last for the residual or bonus token. Rows and coins are
    rounded to float32. Returns the accepted tokens and one more.
    """

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, coins: Any) -> list[int]:
        def rows(values: Any) -> Any:
            return torch.tensor(values, dtype=torch.float32, device=device)[None]

        def slots(*shape: int) -> Any:
            return torch.full(shape, -1, dtype=torch.int32, device=device)

        count = len(draft_tokens) + 1
        candidates = torch.tensor([[ROOT, *map(int, draft_tokens)]], device=device)
        predicts, accepted, number = slots(count), slots(1, count), slots(1)
        places = torch.arange(count, device=device)[None]
        function(
            predicts, accepted, number, candidates, places, None, None, rows(coins[:-1]),
            rows(coins[-1]).reshape(1), rows(target_probs), rows(draft_probs), 1.0, 1.0, True,
            block_verification=block_verification,
        )  # fmt: skip
        kept = accepted[0, : int(number[0]) + 1].tolist()
        return [int(predicts[place]) for place in kept]

    return verify


def load(path: Path, *, block: bool) -> Verify:
    """Return a rule as a ``verify`` callable, its kernel run without a GPU."""
    function = getattr(load_tiles(path, [FUNCTION]), FUNCTION)
    rule = chain_sampling(function, block_verification=block)

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        return rule(target_probs, draft_probs, draft_tokens, torch.rand(len(draft_tokens) + 1))

    return verify


def load_compiled(path: Path, *, block: bool) -> Callable[..., list[int]]:
    """Return a rule that takes its coins, compiled for the GPU."""
    module = load_file(path, "simverify_loaded.sglang_reject_sampling")
    return chain_sampling(getattr(module, FUNCTION), block_verification=block, device="cuda")


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
