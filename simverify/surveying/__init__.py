"""Surveys of many audits, each in its own process: every installed engine, or every release of one.

``table`` puts engines side by side, and ``bisect`` finds the release whose law changed. Both run
the command ``simverify audit`` and read its document; neither looks into the code.
"""

__simverify_role__ = "machinery"
