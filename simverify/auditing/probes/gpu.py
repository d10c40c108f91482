"""A GPU that a probe's rows or draws may cost: what fails on it ends its use by the process."""

import os
import sys
from collections.abc import Sequence

from simverify.errors import SimverifyError
from simverify.results import Probe

_STICKY = (
    "device-side assert triggered",
    "an illegal memory access was encountered",
    "unspecified launch failure",
)
"""Errors of CUDA after which every later call of the process fails, whatever it asks for."""


class GpuLost(SimverifyError):
    """A probe ended the use of the GPU by a process.

    ``text``: what the code raised. ``probe``: its name, and ``grade``: how bad that is, "warning"
    or "violation"; both empty where they are not known yet. ``process``: whose GPU it was.
    """

    def __init__(
        self, text: str, probe: str = "", grade: str = "", process: int | None = None
    ) -> None:
        self.text, self.probe, self.grade = text, probe, grade
        self.process = os.getpid() if process is None else process
        super().__init__(text, probe, grade, self.process)

    def __str__(self) -> str:
        """Return the line for the user."""
        return (
            f"the probe {self.probe!r} ended the use of the GPU by this process: {self.text}; "
            "audit in a process that has not used its GPU, or on the CPU"
        )


def from_before(name: str, lines: Sequence[Probe], lost: Sequence[Probe]) -> Probe | None:
    """Return the line of a probe that is not to be run, None for one that is.

    ``lines``: those before it; ``lost``: what came of probes that ended the use of the GPU in
    another process. After a violation among them nothing more is run, as after a hang.
    """
    before = {one.name: one for one in lost}
    if name in before:
        return before[name]
    for one in lines:
        if one.name in before and one.outcome == "violation":
            why = f"the code ends the use of its GPU, see {one.name!r}"
            return Probe(name=name, outcome="not run", message=why)
    return None


def is_lost(error: BaseException) -> bool:
    """Whether an exception says that the GPU cannot be used any more."""
    if not isinstance(error, RuntimeError):  # torch.AcceleratorError is one
        return False
    return "CUDA error" in str(error) and any(words in str(error) for words in _STICKY)


def in_use() -> bool:
    """Whether this process uses a GPU."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()
