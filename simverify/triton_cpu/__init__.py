"""Triton kernels run in numpy: blocks as arrays, programs one by one, no GPU, no Triton.

Faster than Triton's interpreter by far, and followed by the exact tier: what a kernel draws by
seed and offset is a draw, what it is given may be one.
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
