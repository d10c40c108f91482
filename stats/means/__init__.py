"""Means of bounded variables: tests and intervals."""
