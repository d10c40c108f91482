"""SGLang: ``chain_speculative_sampling_triton``, token and block verification.

The coins are arguments; the root token stands in slot 0 of the candidates; outputs are
written into buffers. One file is loaded, not the package, which would pull in its kernels.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.backends.interpreter import interpreter, load_triton
from simverify.engines.adapting.adapt import COIN_BITS
from simverify.engines.base import Engine, load_file
from simverify.errors import SimverifyError

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
        torch = importlib.import_module("torch")

        def rows(values: Any) -> Any:
            return torch.tensor(values, dtype=torch.float32, device=device)[None]

        def slots(*shape: int) -> Any:
            return torch.full(shape, -1, dtype=torch.int32, device=device)

        count = len(draft_tokens) + 1
        candidates = torch.tensor([[ROOT, *map(int, draft_tokens)]], device=device)
        predicts, accepted, number = slots(count), slots(1, count), slots(1)
        function(
            predicts,
            accepted,
            number,
            candidates,
            torch.arange(count, device=device)[None],
            None,
            None,
            rows(coins[:-1]),
            rows(coins[-1]).reshape(1),
            rows(target_probs),
            rows(draft_probs),
            1.0,
            1.0,
            True,
            block_verification=block_verification,
        )
        tau = int(number[0])
        places = accepted[0, : tau + 1].tolist()
        return [int(predicts[place]) for place in places]

    return verify


def original(path: Path) -> tuple[Any, str]:
    """Return SGLang's function and the device it runs on.

    Without a GPU it runs in Triton's interpreter: raises ``SimverifyError`` if it is too late
    to choose that.
    """
    function, device = load_triton(lambda: _function(path))
    if device == "cuda":
        return function, device

    def interpreted(*args: Any, **options: Any) -> None:
        with interpreter():
            function(*args, **options)

    return interpreted, device


def _function(path: Path) -> Any:
    module = load_file(path, "simverify_loaded.sglang_reject_sampling")
    if not hasattr(module, FUNCTION):
        raise SimverifyError(f"{path} has no {FUNCTION}: SGLang 0.5.23 has it")
    return getattr(module, FUNCTION)


def load_token(path: Path) -> Callable[..., list[int]]:
    """Load the token rule."""
    function, device = original(path)
    return chain_sampling(function, device=device)


def load_block(path: Path) -> Callable[..., list[int]]:
    """Load the block rule."""
    function, device = original(path)
    return chain_sampling(function, block_verification=True, device=device)


def _engine(name: str, loader: Callable[[Path], Callable[..., Any]]) -> Engine:
    return Engine(
        name=name,
        package="sglang",
        source="kernels/ops/speculative/reject_sampling.py",
        function=FUNCTION,
        contract="verify",
        tier="coins",
        tolerance=1e-6,
        loader=loader,
        needs=("torch", "triton"),
        coin_bits=COIN_BITS["float32"],
    )


ENGINES = (_engine("sglang", load_token), _engine("sglang-block", load_block))
