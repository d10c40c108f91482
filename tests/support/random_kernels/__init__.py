"""Random kernels of Triton's, to be run several ways: what each gives must be the same.

A kernel reads floats and whole numbers, computes with scalars and rows in several types, branches,
loops and calls, and stores all that it has at its end. Not in them is what Triton leaves open, or
where the interpreter is known to differ from a GPU: extremes of NaN and of zeros of two signs,
division by zero, shifts by more than there are bits, floats cast to integers that do not hold them.
"""

from support.random_kernels.kernels import write_kernels

__all__ = ["write_kernels"]
