"""How a run shows itself: text, a report in a notebook, files, a job's summary."""

import os
from html import escape
from pathlib import Path

from rich.console import Console

from simverify.errors import UsageError
from simverify.reports.formats import FORMATS, build_report, html_report, markdown_report
from simverify.reports.terminal import print_report, report_text
from simverify.results import Document
from simverify.results.reading import check_writable, document_text, write_whole

RUN_FILE = "run.json"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


def prepare_folder(folder: Path) -> None:
    """Make ``folder`` if need be; raise ``UsageError`` unless all files can stand in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made a folder: {error.strerror}") from None
    for name in FORMATS:
        check_writable(folder / name)


def write_reports(run: Document, folder: str | os.PathLike[str]) -> None:
    """Write the run file and its HTML, Markdown and JUnit renderings to ``folder``."""
    folder = Path(folder)
    prepare_folder(folder)
    for name, render in FORMATS.items():
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


def print_run(run: Document, console: Console, *, verbose: bool = False) -> None:
    """Print a run of any command; ``verbose``: all that its document says."""
    print_report(build_report(run), console, verbose=verbose)


def run_text(run: Document, *, verbose: bool = False) -> str:
    """Return what :func:`print_run` prints, without colours or blanks at the ends of lines."""
    return report_text(build_report(run), verbose=verbose)


def notebook_html(run: Document) -> str:
    """Return the report as a frame of its own, so that no style of the notebook's reaches it."""
    title, style = f"simverify {type(run).__name__}", "width:100%;height:640px;border:0"
    page = escape(html_report(run))
    return f'<iframe srcdoc="{page}" title="{title}" style="{style}"></iframe>'


def save_run(run: Document, path: str | os.PathLike[str]) -> None:
    """Write the run file, whole or not at all."""
    write_whole(Path(path), document_text(run))
