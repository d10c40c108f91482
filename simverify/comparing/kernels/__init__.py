"""Compiled kernels on trial: what they emit, counted and judged."""
