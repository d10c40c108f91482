"""Adapters of public engines, one module each. Each module lists its engines in ``ENGINES``."""
