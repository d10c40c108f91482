"""Sums over whole rows, compiled."""
