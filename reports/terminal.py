"""How runs look on a terminal: its width, the colours of verdicts, lines without blank ends."""

import re
import textwrap
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console
from rich.text import Text

from simverify.checks import clean

WIDTH = 80
STYLE = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}


class Trimmed:
    """A text stream without the blanks that tables leave at the end of their lines."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` without them; return how long it was."""
        self._stream.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_LONGEST = 2000


def line(text: str, style: str = "", longest: int = _LONGEST) -> Text:
    """Return ``text`` so that it moves no cursor, is no markup and ends."""
    return Text(clean(text, longest), style=style)


def print_wrapped(lines: Iterable[str], console: Console, style: str = "") -> None:
    """Print each line, printable, folded at ``WIDTH``; what is folded stands further in."""
    for text in lines:
        indent = " " * (len(text) - len(text.lstrip(" ")))
        parts = textwrap.wrap(
            clean(text, _LONGEST), WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  "
        )
        for part in parts or [""]:
            console.print(Text(part, style=style), soft_wrap=True)
