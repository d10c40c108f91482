"""Comparisons of verifiers: on simulated models, on a pair of real ones, on a trace of such a pair.

``comparison`` is a whole comparison, ``model`` one simulated model, ``real`` a real pair or a
trace. ``curves``, ``trees`` and ``tree_bounds`` hold exact laws, ``sampled`` the check of the
compiled kernels, ``documents`` the rows of all of them.
"""

__simverify_role__ = "machinery"
