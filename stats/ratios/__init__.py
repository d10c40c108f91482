"""Likelihood ratios of named faults."""
