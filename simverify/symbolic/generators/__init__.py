"""Symbolic twins of numpy's, Python's and torch's generators."""

__simverify_role__ = "stand-in"
