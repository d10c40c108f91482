"""A line for a terminal, whatever a run file holds."""

from rich.text import Text

from simverify.names import clean

_LONGEST = 2000


def line(text: str, style: str = "", longest: int = _LONGEST) -> Text:
    """Return ``text`` so that it moves no cursor, is no markup and ends."""
    return Text(clean(text, longest), style=style)
