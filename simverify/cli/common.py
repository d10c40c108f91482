"""What commands share: exit codes, progress on standard error, a console of fixed width."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, TextIO, TypeVar, cast

from rich.console import Console
from rich.text import Text

from simverify.checks import printable
from simverify.cli.streams import discard_output, print_error
from simverify.errors import UsageError
from simverify.reports.view import WIDTH, TrimmedStream

if TYPE_CHECKING:
    from simverify.results import Document

DocumentT = TypeVar("DocumentT", bound="Document")

EXIT_CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}


class _OutputConsole(Console):
    """Goes on without a word when the reader leaves, so that the exit code is the verdict's."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard_output()


def output_console() -> Console:
    """Console for results: a pipe gets 80 columns, a terminal its own width."""
    if sys.stdout.isatty():
        return _OutputConsole(highlight=False)
    return _OutputConsole(
        highlight=False, width=WIDTH, file=cast("TextIO", TrimmedStream(sys.stdout))
    )


def print_entries(entries: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Print a list: each name on a line of its own, whole, with its words below it."""
    for name, words in entries:
        print(printable(name))
        for line in words:
            # Commands are copied from here: they break between words alone.
            print(
                fill(
                    printable(line),
                    WIDTH,
                    initial_indent="  ",
                    subsequent_indent="  ",
                    break_on_hyphens=False,
                    break_long_words=False,
                )
            )


def print_lines(lines: Iterable[str]) -> None:
    """Print each line, printable, folded where it is wider than a terminal."""
    for line in lines:
        print(fill(printable(line), WIDTH, subsequent_indent="  "))


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
        yield lambda line: print_error(fill(printable(line), WIDTH, subsequent_indent="  "))


def check_output(json: str | None, report: Path | None = None) -> None:
    """Raise ``UsageError`` before a long run if its result could not be written.

    Makes the folder ``report``.
    """
    from simverify.reports.present import prepare_folder
    from simverify.results.reading import check_writable

    if json == "":
        raise UsageError('--json is empty: name a file, or "-" for standard output')
    check_json_text(json or "")
    if json is not None and json != "-":
        check_writable(Path(json))
    if report is not None:
        prepare_folder(report)
    from simverify.history.record import check_store, store_path

    store = store_path()
    if store is not None:
        check_store(store)


def check_json_text(text: str) -> None:
    """Raise ``UsageError`` if ``text``, from the command line, cannot stand in a JSON file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{text} is not UTF-8, which a JSON file needs: rename it") from None


def write_outputs(run: "Document", json: str | None, report: Path | None = None) -> bool:
    """Write the document where ``--json`` says, and its renderings to the folder ``report``.

    In a GitHub job its Markdown joins the step's summary. A run store, if there is one, gets the
    run. True if standard output is still free.
    """
    from simverify.reports.present import append_summary, write_reports
    from simverify.results.reading import document_text, write_whole

    append_summary(run)
    if report is not None:
        write_reports(run, report)

    if json is not None and json != "-":
        write_whole(Path(json), document_text(run))
    _record_run(run)
    if json == "-":
        try:
            sys.stdout.write(document_text(run))
            sys.stdout.flush()
        except BrokenPipeError:
            discard_output()
        return False
    return True


def run_and_report(
    make: "Callable[[Callable[[str], None]], DocumentT]",
    json: str | None,
    report: Path | None,
    *,
    quiet: bool,
    verbose: bool = False,
    names: Iterable[str] = (),
) -> "DocumentT":
    """Make a run with progress, deliver it, and print it where standard output is still free.

    ``names``: what the document would say of what was named, which has to fit into a JSON file.
    """
    from simverify.reports.present import print_run

    if json is not None or report is not None:
        for name in names:
            check_json_text(name)
    with progress(quiet) as say:
        run = make(say)
    if write_outputs(run, json, report):
        print_run(run, output_console(), verbose=verbose)
    return run


def _record_run(run: "Document") -> None:
    """Add the run to the store, if there is one; what goes wrong takes no verdict away."""
    from simverify.history.record import add_run, store_path

    store = store_path()
    if store is None:
        return
    try:
        add_run(store, run, ["simverify", *sys.argv[1:]])
    except UsageError as error:
        print_error(f"simverify: not recorded: {printable(str(error))}")
