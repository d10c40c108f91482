"""Names: looking one up, with the nearest suggested, and showing one that a file gave."""

import difflib
from collections.abc import Iterable

from simverify.errors import UsageError

LONGEST = 600
"""Characters of one text that is shown: what is longer stands in the run file."""


def printable(text: str) -> str:
    """Return ``text`` without characters that could move the cursor or change colours."""
    return "".join(c if c.isprintable() else "?" for c in text)


def clean(text: str, longest: int = LONGEST) -> str:
    """Return ``text`` on one line, printable and at most ``longest`` characters long.

    Control characters and those that turn the direction of writing become question marks.
    """
    shown = text if len(text) <= 2 * longest else text[: 2 * longest]  # the rest is not looked at
    line = printable(" ".join(shown.split()))
    if len(line) <= longest and len(shown) == len(text):
        return line
    return f"{line[:longest]}... ({len(text):,} characters)"


def pick(name: str, known: Iterable[str], kind: str) -> str:
    """Return ``name`` if it is known; otherwise raise ``UsageError`` with the nearest name."""
    names = list(known)
    if name in names:
        return name
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(names)}"
    raise UsageError(f"unknown {kind} {name!r}: {hint}")
