"""Comparisons on a pair of real models, decoding or replayed from a trace."""
