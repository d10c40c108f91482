"""Lines of progress while a server is asked: one every so often, however many answers there are."""

import time
from collections.abc import Callable

EVERY = 10.0
"""Seconds between lines."""


class Pace:
    """Says lines: called, each; ``now_and_then``, one in ``EVERY`` seconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._last, self._line = say, time.monotonic(), "no answer yet"

    def __call__(self, line: str) -> None:
        """Say a line."""
        self._say(line)

    def now_and_then(self, line: str) -> None:
        """Say how far it is, if that was not said just now."""
        self._line = line
        if time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            self._say(line)

    def waiting(self) -> None:
        """Say that nothing has come."""
        self.now_and_then(self._line)
