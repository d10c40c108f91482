"""Many audits, each in a process of its own: of every engine that is here, or of every release.

``table`` puts engines side by side, and ``bisecting`` finds the release whose law changed. Both run
the command ``simverify audit`` and read its document; neither looks into the code.
"""

__simverify_role__ = "machinery"
