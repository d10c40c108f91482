"""Comparisons of verifiers: on simulated models, on a pair of real ones, on a trace of such."""

__simverify_role__ = "machinery"
