"""The pytest plugin."""

__simverify_role__ = "interface"
