"""Philox and compiled kernels, exact laws, the decoding loop over ranges of trials, latency."""

__simverify_role__ = "machinery"
