"""Adapters of plain implementations of speculative decoding, read from a checkout; a file each."""
