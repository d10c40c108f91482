"""The pytest plugin: its fixture (``plugin``), its options, and the code that a test audits."""

__simverify_role__ = "interface"
