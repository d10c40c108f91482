"""Baselines: a run that was kept, and whether another one is worse, by tests and not by ratios."""

__simverify_role__ = "machinery"
