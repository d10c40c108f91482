"""simverify from Python: what each command does, as a function that returns its run."""

__simverify_role__ = "interface"
