"""Adapters of repositories' functions that judge one block, read from a checkout; a file each."""
