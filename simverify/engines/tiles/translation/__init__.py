"""Kernels translated into plain functions on numpy's arrays and scalars.

Which type each operator computes in follows from the types of what a kernel is given, as in Triton.
So it is settled once, and the function that is written has nothing left but the computation.
"""

from simverify.engines.tiles.translation.plans import plan_kernels

__all__ = ["plan_kernels"]
