"""How far a sweep is: shards done, their rate, the time left."""

import time
from collections.abc import Callable

Say = Callable[[str], None]


class Progress:
    """Says a line every ``every`` seconds at most; by a clock that nobody sets."""

    def __init__(
        self, say: Say, total: int, every: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._total, self._every, self._clock = say, total, every, clock
        self._began = self._said = clock()
        self.found = self.done = 0
        """Shards of runs before this one, and of this one."""

    def begin(self) -> None:
        """Count the time from now on: workers are there, which on a cluster may take a minute."""
        self._began = self._clock()

    def tick(self, doing: str) -> None:
        """Say how far it is, if it is time."""
        now = self._clock()
        if now - self._said >= self._every:
            self._said = now
            self._say(self.line(doing, now - self._began))

    def line(self, doing: str, seconds: float) -> str:
        """Return what is said after ``seconds``."""
        ready = self.found + self.done
        words = f"{ready:,} of {self._total:,} shards"
        if self.done and seconds > 0:
            rate = self.done / seconds
            words += f", {rate:.3g} a second, {span((self._total - ready) / rate)} left"
        return f"{words}: {doing}"


def span(seconds: float) -> str:
    """Return a time in words, in its largest unit that says something."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
