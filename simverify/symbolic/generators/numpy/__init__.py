"""Symbolic twins of numpy's generators, old and new."""
