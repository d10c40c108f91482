"""Sweeps: many cells, each cut into shards that any executor counts, in a folder that resumes."""

__simverify_role__ = "machinery"
