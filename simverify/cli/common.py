"""What commands share: exit codes, progress on standard error, a console of fixed width."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from simverify.results import Document

VERDICT_STYLE = {"PASS": "green", "FAIL": "bold red", "INCONCLUSIVE": "yellow"}
EXIT_CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}


def output_console() -> Console:
    """Console for results: a pipe gets 80 columns, a terminal its own width."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 80)


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
            yield status.update
    else:
        yield lambda line: print(line, file=sys.stderr)


def check_output(json: str | None) -> None:
    """Raise ``UsageError`` before a long run if its result could not be written."""
    from simverify.reports.document import check_writable

    if json is not None and json != "-":
        check_writable(Path(json))


def deliver(run: Document, json: str | None) -> bool:
    """Write the document where ``--json`` says; true if standard output is still free."""
    from simverify.reports.document import document_text, write_whole

    if json == "-":
        sys.stdout.write(document_text(run))
        return False
    if json is not None:
        write_whole(Path(json), document_text(run))
    return True
