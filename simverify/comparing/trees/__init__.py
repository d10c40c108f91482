"""Comparing rules on draft trees: their laws, the best there is on them, their kernels."""
