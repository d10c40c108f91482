"""Symbolic twins of numpy's, Python's and torch's generators."""
