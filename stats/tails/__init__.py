"""Tails of sums and of statistics, right far beyond float64's underflow."""
