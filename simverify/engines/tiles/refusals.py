"""What stops a kernel here: one line with the kernel's own file and line."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from simverify.errors import Unsupported
from simverify.symbolic.addressed import followed

if TYPE_CHECKING:
    from types import FrameType

_HERE = str(Path(__file__).parent)


class OutOfBounds(IndexError):
    """A kernel reads or writes beside a tensor, where no mask keeps it from that."""


def kernel_line() -> str:
    """Return ``file:line`` of the innermost frame outside this folder."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
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
