"""Sweeps: many cells, each cut into shards that any executor counts, in a folder that resumes.

``spec`` says what is swept, ``run`` hands out ``tasks`` to ``workers``, ``store`` is the folder.
"""

__simverify_role__ = "machinery"
