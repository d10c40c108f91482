"""Names: looking one up, with the nearest suggested, and showing one that a file gave."""

import difflib
from collections.abc import Iterable

from simverify.errors import UsageError


def printable(text: str) -> str:
    """Return ``text`` without characters that could move the cursor or change colours."""
    return "".join(c if c.isprintable() else "?" for c in text)


def pick(name: str, known: Iterable[str], kind: str) -> str:
    """Return ``name`` if it is known; otherwise raise ``UsageError`` with the nearest name."""
    names = list(known)
    if name in names:
        return name
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(names)}"
    raise UsageError(f"unknown {kind} {name!r}: {hint}")
