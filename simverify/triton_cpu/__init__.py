"""Triton kernels on numpy, without a GPU and without Triton: blocks as arrays, programs in turn.

Much faster than Triton's interpreter, and the exact tier follows them: what a kernel draws by
seed and offset is a symbolic draw, and so may its inputs be. ``language`` is ``triton.language``,
``blocks`` its values, ``launch`` loads an engine's file.
"""

__simverify_role__ = "kernels"


from simverify.errors import Unsupported
from simverify.triton_cpu import blocks
from simverify.triton_cpu.blocks import OutOfBounds
from simverify.triton_cpu.language import LIBDEVICE, addressed, followed_as, tl, triton
from simverify.triton_cpu.launch import dispatcher, load_tiles

CPU_NOTE = "its Triton kernels ran without a GPU, by simverify.triton_cpu"
"""What the report of an audit says of kernels that ran here."""

__all__ = [
    "CPU_NOTE",
    "LIBDEVICE",
    "OutOfBounds",
    "Unsupported",
    "addressed",
    "blocks",
    "dispatcher",
    "followed_as",
    "load_tiles",
    "tl",
    "triton",
]
