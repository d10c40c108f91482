"""A GPU that a probe's rows or draws may cost: what fails on it ends its use by the process."""

import sys

from simverify.errors import SimverifyError

_STICKY = (
    "device-side assert triggered",
    "an illegal memory access was encountered",
    "unspecified launch failure",
)
"""Errors of CUDA after which every later call of the process fails, whatever it asks for."""


class GpuLost(SimverifyError):
    """A probe ended the use of the GPU by this process.

    ``probe``: its name; ``text``: what the code raised.
    """

    def __init__(self, probe: str, text: str) -> None:
        super().__init__(probe, text)
        self.probe, self.text = probe, text

    def __str__(self) -> str:
        """Return the line for the user."""
        return (
            f"the probe {self.probe!r} ended the use of the GPU by this process: {self.text}; "
            "audit by `simverify audit`, which starts another process then, or on the CPU"
        )


def is_lost(error: BaseException) -> bool:
    """Whether an exception says that the GPU cannot be used any more."""
    if not isinstance(error, RuntimeError):  # torch.AcceleratorError is one
        return False
    return "CUDA error" in str(error) and any(words in str(error) for words in _STICKY)


def in_use() -> bool:
    """Whether this process uses a GPU."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()
