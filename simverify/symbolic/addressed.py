"""Draws that have an address: code that counts instead of keeping a generator's state.

A counter-based generator gives a number for a key and a counter. Asked twice for one address it
gives one number, so on a path there is one draw for each address.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simverify.symbolic.enumeration.source import Source

_FOLLOWED: "list[Source]" = []


@contextmanager
def following(source: "Source") -> "Iterator[None]":
    """Let code that has draws of its own ask for ``source`` inside the block."""
    _FOLLOWED.append(source)
    try:
        yield
    finally:
        _FOLLOWED.remove(source)


def followed() -> "Source | None":
    """Return the randomness of the path that is run now; None where code just runs."""
    return _FOLLOWED[-1] if _FOLLOWED else None


def draw_at(source: "Source", address: Hashable, new: Callable[[], Any]) -> Any:
    """Return the draw at an address: ``new()`` the first time on a path, then the same again."""
    if address not in source.addressed:
        source.addressed[address] = new()
    return source.addressed[address]
