"""Sweeps: many cells, each cut into shards that any executor counts, in a folder that resumes."""
