"""What commands share: where a document goes, progress, a console of fixed width."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from simverify.checks import printable
from simverify.cli.settings import (
    IN_OUTPUT,
    argument_parameters,
    command_options,
    given_by,
    keyword,
)
from simverify.cli.streams import discard_output, print_error
from simverify.errors import UsageError
from simverify.options.modes import options_of
from simverify.options.option import Options
from simverify.reports.view import WIDTH, TrimmedStream

if TYPE_CHECKING:
    from simverify.results import Document


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


def wrap_line(line: str, indent: int = 0, subsequent_indent: int = 2) -> str:
    """Return a line for standard output, printable and wrapped between words; long words stay.

    Commands are copied from there.
    """
    return fill(
        printable(line),
        min(WIDTH, output_console().width),
        initial_indent=" " * indent,
        subsequent_indent=" " * subsequent_indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def print_entries(entries: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Print a list: each name on a line of its own, whole, with its words below it."""
    for name, words in entries:
        print(printable(name))
        for line in words:
            print(wrap_line(line, 2))


def print_lines(lines: Iterable[str]) -> None:
    """Print each line, printable, folded where it is wider than a terminal."""
    for line in lines:
        print(wrap_line(line))


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


@dataclass(frozen=True)
class Outputs:
    """Where the result of a command goes: the options that every command with a document has."""

    json: str | None = None
    report: Path | None = None
    verbose: bool = False
    quiet: bool = False

    def check(self) -> None:
        """Raise ``UsageError`` before a long run if its result could not be written.

        Makes the folder ``report``.
        """
        from simverify.folders import store_path
        from simverify.reports.present import prepare_folder
        from simverify.results.reading import check_writable

        if self.json == "":
            raise UsageError('--json is empty: name a file, or "-" for standard output')
        check_json_text(self.json or "")
        if self.json not in (None, "-"):
            check_writable(Path(str(self.json)))
        if self.report is not None:
            prepare_folder(self.report)
        store = store_path()
        if store is not None:
            from simverify.history.record import check_store

            check_store(store)

    def write(self, run: "Document") -> None:
        """Write the document and its renderings, and print it where standard output is free.

        In a GitHub job its Markdown joins the step's summary. A run store, if there is one, gets
        the run.
        """
        from simverify.reports.present import append_summary, print_run, write_reports
        from simverify.results.reading import document_text, write_whole

        append_summary(run)
        if self.report is not None:
            write_reports(run, self.report)
        if self.json not in (None, "-"):
            write_whole(Path(str(self.json)), document_text(run))
        _record_run(run)
        if self.json != "-":
            print_run(run, output_console(), verbose=self.verbose)
            return
        try:
            sys.stdout.write(document_text(run))
            sys.stdout.flush()
        except BrokenPipeError:
            discard_output()


_OUTPUT_OPTIONS: dict[str, tuple[Any, str]] = {
    "json": (
        str | None,
        'Write the result document to this file, or to standard output for "-".',
    ),
    "report": (Path | None, "Write HTML, Markdown, JUnit XML and the run file to this folder."),
    "verbose": (bool, "Print everything that the verdict rests on."),
    "quiet": (bool, "Show no progress on standard error."),
}

Prepare = Callable[..., Options | int]


def document_command(
    *modes: type[Options],
    arguments: Mapping[str, str] | None = None,
    optional: bool = False,
    outputs: Sequence[str] = tuple(_OUTPUT_OPTIONS),
    verbose: str = "",
    prepare: Prepare | None = None,
) -> Callable[[Callable[..., "Document | str"]], Callable[..., int]]:
    """Make a command of a function that takes options and outputs and returns a document.

    ``modes``: dataclasses whose options the command takes; the options decide which of them the
    function gets. Its keywords are options of this command alone. ``arguments``: options that are
    given by position, with their help where it is not the option's, all of them ``optional`` or
    none. ``outputs``: which of the output options
    there are; ``verbose``: what that one prints. ``prepare``: makes the options of what was given
    by name, and of the outputs, before anything is written; its keywords are options of this
    command alone. It may return the exit code of a command that is done. A function that makes no
    document returns a line to print.
    """
    positional = arguments or {}

    def decorate(product: Callable[..., "Document | str"]) -> Callable[..., int]:
        fields = command_options(modes, without=tuple(positional))
        extra = inspect.signature(prepare).parameters.values() if prepare else ()
        switches = [one for one in extra if one.kind is one.KEYWORD_ONLY]
        own = inspect.signature(product).parameters.values()
        keywords = [one for one in own if one.kind is one.KEYWORD_ONLY]

        def command(*values: Any, options: Any = None, **more: Any) -> int:
            where = Outputs(**{name: more.pop(name) for name in outputs if name in more})
            given = given_by(modes, fields() if options is None else options)
            asked = {one.name: more.pop(one.name, one.default) for one in keywords}
            given |= dict(zip(positional, (*values, *[None] * len(positional)), strict=False))
            chosen = options_of(modes, given) if not prepare else prepare(given, where, **more)
            if isinstance(chosen, int):
                return chosen
            if {"json", "report"} & set(outputs):
                where.check()
            for value in given.values() if where.json or where.report else ():
                if isinstance(value, str | Path):
                    check_json_text(str(value))  # the document says it
            with progress(where.quiet) as say:
                run = product(replace(chosen, progress=say), where, **asked)
            if isinstance(run, str):
                print(run)
                return 0
            where.write(run)
            return run.exit_code

        shown = [*argument_parameters(modes, positional, optional=optional)]
        shown.append(keyword("options", Annotated[fields, Parameter(name="*")], fields()))
        shown += [*keywords, *switches]
        for name in outputs:
            kind, words = _OUTPUT_OPTIONS[name]
            words = verbose if name == "verbose" and verbose else words
            place = Parameter(allow_leading_hyphen=name == "json", group=IN_OUTPUT, help=words)
            shown.append(keyword(name, Annotated[kind, place], False if kind is bool else None))
        vars(command)["__signature__"] = inspect.Signature(shown)
        command.__annotations__ = {}
        command.__name__, command.__doc__ = product.__name__, product.__doc__
        return command

    return decorate


def check_json_text(text: str) -> None:
    """Raise ``UsageError`` if ``text``, from the command line, cannot stand in a JSON file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{text} is not UTF-8, which a JSON file needs: rename it") from None


def _record_run(run: "Document") -> None:
    """Add the run to the store, if there is one; what goes wrong takes no verdict away."""
    from simverify.folders import store_path

    store = store_path()
    if store is None:
        return
    from simverify.history.record import add_run

    try:
        add_run(store, run, ["simverify", *sys.argv[1:]])
    except UsageError as error:
        print_error(f"simverify: not recorded: {printable(str(error))}")
