"""Triton kernels run in numpy: blocks as arrays, programs one by one, no GPU, no Triton.

Faster than Triton's interpreter by far, and followed by the exact tier: what a kernel draws by
seed and offset is a draw, what it is given may be one.
"""

__simverify_role__ = "kernels"

from simverify.engines.tiles import operators
from simverify.engines.tiles.language import MATH, tl, triton
from simverify.engines.tiles.launching import dispatcher
from simverify.engines.tiles.loading import load_tiles
from simverify.engines.tiles.random import addressed, followed_as
from simverify.engines.tiles.refusals import OutOfBounds
from simverify.errors import Unsupported

ON_CPU = "its Triton kernels ran without a GPU, by simverify.engines.tiles"
"""What the report of an audit says of kernels that ran here."""

__all__ = [
    "MATH",
    "ON_CPU",
    "OutOfBounds",
    "Unsupported",
    "addressed",
    "dispatcher",
    "followed_as",
    "load_tiles",
    "operators",
    "tl",
    "triton",
]
