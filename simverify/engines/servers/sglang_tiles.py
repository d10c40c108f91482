"""SGLang's ``chain_speculative_sampling_triton`` followed path by path, without a GPU.

The same function as in :mod:`.sglang`, whose coins are bisected there on a GPU or in Triton's
interpreter. Here its kernel is run as :mod:`simverify.engines.tiles` says, on coins of float32.
"""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Verify
from simverify.engines.base import Engine
from simverify.engines.servers.sglang import FUNCTION, chain_sampling
from simverify.engines.tiles import load_tiles


def load(path: Path, *, block: bool) -> Verify:
    """Return the token or the block rule as a ``verify`` callable."""
    torch = importlib.import_module("torch")
    function = getattr(load_tiles(path, [FUNCTION]), FUNCTION)
    rule = chain_sampling(function, block_verification=block)

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        return rule(target_probs, draft_probs, draft_tokens, torch.rand(len(draft_tokens) + 1))

    return verify


def _engine(name: str, loader: Callable[[Path], Verify]) -> Engine:
    return Engine(
        name=name,
        package="sglang",
        source="kernels/ops/speculative/reject_sampling.py",
        function=FUNCTION,
        contract="verify",
        tier="exact",
        loader=loader,
        needs=("torch",),
        versions=">=0.5.23,<0.6",
        parameters=("predicts", "accept_index", "accept_token_num", "candidates", "retrive_index",
                    "uniform_samples", "target_probs", "draft_probs", "block_verification"),
    )  # fmt: skip


ENGINES = (
    _engine("sglang-token-shim", partial(load, block=False)),
    _engine("sglang-block-shim", partial(load, block=True)),
)
