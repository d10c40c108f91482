"""What stops a kernel here: one line with the kernel's own file and line."""

import sys
from typing import TYPE_CHECKING, NoReturn

from simverify.errors import Unsupported
from simverify.symbolic.addressed import followed
from simverify.symbolic.whose import runs_kernels

if TYPE_CHECKING:
    from types import FrameType


class OutOfBounds(IndexError):
    """A kernel reads or writes beside a tensor, where no mask keeps it from that."""


def kernel_line() -> str:
    """Return ``file:line`` of the innermost frame that is not of what runs kernels."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and runs_kernels(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refuse(what: str) -> NoReturn:
    """Stop: what a kernel does is not computed here.

    In the exact tier that is code that cannot be followed, and no fault of the code's. Raises
    :class:`Unsupported` elsewhere.
    """
    source = followed()
    if source is not None:
        source.refuse(what)
    raise Unsupported(f"{kernel_line()}: {what}")
