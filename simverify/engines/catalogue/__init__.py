"""Adapters of public engines, one file each; every file lists its engines in ``ENGINES``."""
