"""Adapters of papers' code and of small implementations, read from a checkout; a file each."""
