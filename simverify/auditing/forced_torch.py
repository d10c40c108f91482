"""Forced uniforms for torch: the largest one below 1 depends on the type that is drawn."""

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable

_RAND_BITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
"""Resolution of ``torch.rand``: its values are multiples of 2^-bits."""

_ZERO_PROBABILITIES = {torch.float16: 2.0**-12, torch.bfloat16: 2.0**-9}
"""What is rounded up to 1 becomes 0, half of the last step."""


class ForcedTorchMode(TorchFunctionMode):
    """Fills ``rand``, ``rand_like``, ``uniform_`` and ``exponential_``; passes the rest on.

    ``draw`` and ``draw_exponential`` take the resolution in bits of the type asked for, and how
    likely 0 is.
    """

    def __init__(
        self, draw: "Callable[..., float]", draw_exponential: "Callable[..., float]"
    ) -> None:
        super().__init__()
        self._draw = draw
        self._draw_exponential = draw_exponential

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one torch call."""
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("rand", "rand_like") and kwargs.get("out") is None:
            kwargs.pop("generator", None)
            empty = torch.empty if name == "rand" else torch.empty_like
            return self._fill(empty(*args, **kwargs), self._draw)
        if name == "uniform_":
            tensor, low, high = _uniform_bounds(args, kwargs)
            self._fill(tensor, self._draw)
            # In place, as the code asked.
            return tensor.mul_(high - low).add_(low)
        if name == "exponential_":
            rate = args[1] if len(args) > 1 else kwargs.get("lambd", 1.0)
            return self._fill(args[0], self._draw_exponential).div_(rate)
        return func(*args, **kwargs)

    def _fill(self, tensor: torch.Tensor, draw: "Callable[..., float]") -> torch.Tensor:
        bits, zero = _RAND_BITS.get(tensor.dtype, 24), _ZERO_PROBABILITIES.get(tensor.dtype)
        values = [draw(bits, zero) for _ in range(tensor.numel())]
        filled = torch.tensor(values, dtype=torch.float64).reshape(tensor.shape)
        return tensor.copy_(filled)


def _uniform_bounds(args: Any, kwargs: dict[str, Any]) -> tuple[torch.Tensor, float, float]:
    low = args[1] if len(args) > 1 else kwargs.get("from", 0.0)
    high = args[2] if len(args) > 2 else kwargs.get("to", 1.0)
    return args[0], low, high
