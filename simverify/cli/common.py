"""What commands share: exit codes, progress on standard error, a console of fixed width."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from simverify.results import Document

VERDICT_STYLE = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}
EXIT_CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}


def _whole(_type: object, tokens: Sequence[Any]) -> int:
    # cyclopts alone would round "2.5" to 2.
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


Whole = Annotated[int, Parameter(converter=_whole)]
"""Type of an option that takes a whole number."""

OptionalWhole = Annotated[int | None, Parameter(converter=_whole)]


def discard_output() -> None:
    """Let what is still written to standard output go nowhere: its reader has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _OutputConsole(Console):
    """Goes on without a word when the reader leaves, so that the exit code is the verdict's."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard_output()


def output_console() -> Console:
    """Console for results: a pipe gets 80 columns, a terminal its own width."""
    return _OutputConsole(highlight=False, width=None if sys.stdout.isatty() else 80)


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a line of progress on standard error.

    On a terminal it is a status line that goes away; in a pipe each line is printed.
    """
    errors = Console(stderr=True)
    if quiet:
        yield lambda _line: None
    elif errors.is_terminal:
        with errors.status("starting") as status:
            yield lambda line: status.update(Text(line))  # a name may look like markup
    else:
        yield lambda line: print(line, file=sys.stderr)


def check_output(json: str | None) -> None:
    """Raise ``UsageError`` before a long run if its result could not be written."""
    from simverify.reports.document import check_writable

    if json is not None and json != "-":
        check_writable(Path(json))


def deliver(run: "Document", json: str | None) -> bool:
    """Write the document where ``--json`` says; true if standard output is still free."""
    from simverify.reports.document import document_text, write_whole

    if json == "-":
        try:
            sys.stdout.write(document_text(run))
            sys.stdout.flush()
        except BrokenPipeError:
            discard_output()
        return False
    if json is not None:
        write_whole(Path(json), document_text(run))
    return True
