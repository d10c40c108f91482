"""What may happen to workers."""


class Lost(Exception):
    """Workers are gone for good, and why, in a line."""


class Died(Exception):
    """A worker died with the task that it had: others may do it."""
