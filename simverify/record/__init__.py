"""The run store: what was run, with which versions, on which code, and what came of it."""

__simverify_role__ = "machinery"
