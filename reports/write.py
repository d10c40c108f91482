"""All renderings of a run into one folder."""

from pathlib import Path

from simverify.errors import UsageError
from simverify.reports.formats.html import html_report
from simverify.reports.formats.junit import junit_report
from simverify.reports.formats.markdown import markdown_report
from simverify.results import Document
from simverify.results.reading.document import check_writable, document_text, write_whole

RUN_FILE = "run.json"
_FILES = {
    "report.html": html_report,
    "report.md": markdown_report,
    "junit.xml": junit_report,
    RUN_FILE: document_text,
}


def make_folder(folder: Path) -> None:
    """Make ``folder`` if need be; raise ``UsageError`` unless all files can stand in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made a folder: {error.strerror}") from None
    for name in _FILES:
        check_writable(folder / name)


def write_reports(run: Document, folder: Path) -> None:
    """Write the run file and its HTML, Markdown and JUnit renderings to ``folder``."""
    make_folder(folder)
    for name, render in _FILES.items():
        write_whole(folder / name, render(run))
