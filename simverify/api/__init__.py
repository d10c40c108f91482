"""The Python interface: each command as a function that returns its run."""

__simverify_role__ = "interface"
