"""Waiting for an event, however long a busy machine takes over it."""

import time

PATIENCE = 120.0
"""Seconds that nothing takes, unless what is waited for never comes."""


def wait_for(ready, seconds=PATIENCE):
    """Return what ``ready`` returns, as soon as that is true."""
    ends = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < ends, "it never came"
        time.sleep(0.01)
    return found
