"""Where in the code a result waits until it is read, and where it need not.

Vectorised code draws a token for every slot and uses one of them: decided at once, the others
would multiply the paths. Code that reads each of its tokens loses by waiting, because all that
it computes from an unread one is followed element by element. Both are exact, so which of the
two a place in the code gets is learned: on the first instance results wait everywhere, and
from the next one on only where one was left unread.
"""

import sys
from typing import TYPE_CHECKING, Protocol

from simverify.symbolic.whose import is_boundary, is_library, is_ours

if TYPE_CHECKING:
    from types import CodeType, FrameType

CALLERS = 3
"""Functions of the code, from the innermost out, that tell one place from another: one that
draws may be called for a token that is used and for one that is not."""

Site = tuple[tuple["CodeType", int], ...]
"""Functions, and how far each is."""


def line_of(site: Site) -> str:
    """Return the ``file:line`` of the innermost function of a place; "" of none."""
    if not site:
        return ""
    code, offset = site[0]
    line = next((n for first, end, n in code.co_lines() if first <= offset < end), None)
    return "" if line is None else f"{code.co_filename}:{line}"


class Waiting(Protocol):
    """A result that may still be unread."""

    @property
    def is_read(self) -> bool:
        """Whether the code has asked for it."""


class Sites:
    """What is known of the places, from path to path."""

    def __init__(self) -> None:
        self._read: set[Site] = set()
        self._unread: set[Site] = set()
        self._at_once: frozenset[Site] = frozenset()
        self._waiting: list[tuple[Site, Waiting]] = []

    def waits_at(self, site: Site) -> bool:
        """Whether a result of that place waits."""
        return site not in self._at_once

    def add(self, site: Site, result: Waiting) -> None:
        """Note a result that waits on the path that is run."""
        self._waiting.append((site, result))

    def end_path(self) -> None:
        """See which results of the path were read."""
        for site, result in self._waiting:
            (self._read if result.is_read else self._unread).add(site)
        self._waiting.clear()

    def learn(self) -> None:
        """Let nothing wait any more where all was read; not between paths that share choices."""
        self.end_path()
        self._at_once = frozenset(self._read - self._unread)


def this_site() -> Site:
    """Return the place in the code under audit that is run."""
    found: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < CALLERS:
        if is_boundary(frame.f_code):
            break
        module = frame.f_globals.get("__name__", "")
        if not is_ours(module) and not is_library(module):
            found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)
