"""Every option of every mode: its type, default, range and help, written once."""

__simverify_role__ = "shared"
