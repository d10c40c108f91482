"""The samplers of libraries: what a row of probabilities becomes when it is drawn from.

``catalogue`` has them by name: ``array_libraries`` and ``runtimes`` know how each draws a token.
``judge`` computes the distribution of what can come out, or samples it. ``table`` is what was
measured.
"""

__simverify_role__ = "machinery"
