"""The record of runs, and the check of a run against a baseline.

``record`` stores runs in one SQLite file. ``baseline`` keeps a run under a name and says whether
another one is worse, by tests and not by ratios.
"""

__simverify_role__ = "machinery"
