"""Commands of many audits or comparisons: ``table``, ``bisect``, ``sweep``."""
