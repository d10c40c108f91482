"""Comparisons, reported."""
