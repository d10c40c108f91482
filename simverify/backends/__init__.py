"""Verification on tensors, whole batches at a time: torch on any device, Triton on a GPU.

``verify`` takes the fused kernels where the tensors lie on a GPU and torch everywhere else; both
read their uniforms from the addresses that the compiled kernels use. Needs torch.
"""

from simverify.backends.dispatch import verify
from simverify.backends.philox import draft_uniforms, uniforms
from simverify.backends.verified import RULES, Verified

__all__ = ["RULES", "Verified", "draft_uniforms", "uniforms", "verify"]
