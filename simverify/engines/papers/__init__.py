"""Adapters of the code of papers that bring rules of their own, from a checkout; a file each."""
