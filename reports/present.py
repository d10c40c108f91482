"""How a run shows itself: text, a report in a notebook, files, a job's summary."""

import io
import os
from html import escape
from pathlib import Path
from typing import TextIO, cast

from rich.console import Console
from rich.text import Text

from simverify.errors import UsageError
from simverify.reports.audit import audit_lines
from simverify.reports.formats import html_report, junit_report, markdown_report
from simverify.reports.view import VERDICT_STYLES, WIDTH, TrimmedStream
from simverify.results import AuditRun, Document
from simverify.results.reading import check_writable, document_text, write_whole
from simverify.results.registry import kind_of, load_view

RUN_FILE = "run.json"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_RENDERERS = {
    "report.html": html_report,
    "report.md": markdown_report,
    "junit.xml": junit_report,
    RUN_FILE: document_text,
}


def prepare_folder(folder: Path) -> None:
    """Make ``folder`` if need be; raise ``UsageError`` unless all files can stand in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made a folder: {error.strerror}") from None
    for name in _RENDERERS:
        check_writable(folder / name)


def write_reports(run: Document, folder: str | os.PathLike[str]) -> None:
    """Write the run file and its HTML, Markdown and JUnit renderings to ``folder``."""
    folder = Path(folder)
    prepare_folder(folder)
    for name, render in _RENDERERS.items():
        write_whole(folder / name, render(run))


def append_summary(run: Document) -> None:
    """Add the run's Markdown to the file that GITHUB_STEP_SUMMARY names, if it names one.

    Raises ``UsageError`` if it cannot be written.
    """
    if os.environ.get(SUMMARY_VARIABLE):
        append_markdown(markdown_report(run))


def append_markdown(text: str) -> None:
    """Add Markdown to the summary of a GitHub step; nothing happens outside of one.

    Raises ``UsageError`` if it cannot be written.
    """
    name = os.environ.get(SUMMARY_VARIABLE)
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise UsageError(
            f"{SUMMARY_VARIABLE} names {name}, which cannot be written: {error.strerror}"
        ) from None


_FRAME_STYLE = "width:100%;height:640px;border:0"
_FRAME = '<iframe srcdoc="{page}" title="{title}" style="{style}"></iframe>'


def print_run(run: Document, console: Console, *, verbose: bool = False) -> None:
    """Print a run of any command; ``verbose``: all that its document says."""
    text = kind_of(run).text
    if text is None:
        console.print(Text(markdown_report(run).rstrip()), soft_wrap=True)
    else:
        load_view(text)(run, console, verbose=verbose)


def print_audit(run: AuditRun, console: Console, *, verbose: bool = False) -> None:
    """Print an audit of code."""
    verdict, *lines = audit_lines(run, verbose=verbose)
    console.print(Text(verdict, style=VERDICT_STYLES[run.verdict]))
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def run_text(run: Document, *, verbose: bool = False) -> str:
    """Return what :func:`print_run` prints, without colours or blanks at the ends of lines."""
    file = io.StringIO()
    trimmed = cast("TextIO", TrimmedStream(file))
    console = Console(file=trimmed, width=WIDTH, highlight=False, no_color=True)
    print_run(run, console, verbose=verbose)
    return file.getvalue().rstrip("\n")


def notebook_html(run: Document) -> str:
    """Return the report as a frame of its own, so that no style of the notebook's reaches it."""
    title = f"simverify {type(run).__name__}"
    return _FRAME.format(page=escape(html_report(run)), title=title, style=_FRAME_STYLE)


def save_run(run: Document, path: str | os.PathLike[str]) -> None:
    """Write the run file, whole or not at all."""
    write_whole(Path(path), document_text(run))
