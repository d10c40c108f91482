"""What a run shows by itself: its text, its report in a notebook, its files."""

import io
import os
from html import escape
from pathlib import Path
from typing import TextIO, cast

from rich.console import Console
from rich.text import Text

from simverify.reports.audit.failure import audit_lines
from simverify.reports.compare.terminal import print_comparison
from simverify.reports.formats.html import html_report
from simverify.reports.others.output_view import print_outputs
from simverify.reports.others.plan import print_plan
from simverify.reports.others.self_test import print_self_test
from simverify.reports.terminal import STYLE, WIDTH, Trimmed
from simverify.reports.write import write_reports
from simverify.results import AuditRun, CompareRun, Document, OutputRun, PlanRun
from simverify.results.reading.document import document_text, write_whole

_STYLE = "width:100%;height:640px;border:0"
_FRAME = '<iframe srcdoc="{page}" title="{title}" style="{style}"></iframe>'


def print_run(run: Document, console: Console, *, verbose: bool = False) -> None:
    """Print a run of any command; ``verbose``: all that its document says."""
    if isinstance(run, CompareRun):
        print_comparison(run, console, verbose=verbose)
    elif isinstance(run, AuditRun):
        verdict, *lines = audit_lines(run, verbose=verbose)
        console.print(Text(verdict, style=STYLE[run.verdict]))
        for line in lines:
            console.print(Text(line), soft_wrap=True)
    elif isinstance(run, OutputRun):
        print_outputs(run, console)
    elif isinstance(run, PlanRun):
        print_plan(run, console)
    else:
        print_self_test(run, console)


def text_of(run: Document, *, verbose: bool = False) -> str:
    """Return what :func:`print_run` prints, without colours or blanks at the ends of lines."""
    file = io.StringIO()
    trimmed = cast("TextIO", Trimmed(file))
    console = Console(file=trimmed, width=WIDTH, highlight=False, no_color=True)
    print_run(run, console, verbose=verbose)
    return file.getvalue().rstrip("\n")


def notebook_html(run: Document) -> str:
    """Return the report as a frame of its own, so that no style of the notebook's reaches it."""
    title = f"simverify {type(run).__name__}"
    return _FRAME.format(page=escape(html_report(run)), title=title, style=_STYLE)


def save(run: Document, path: str | os.PathLike[str]) -> None:
    """Write the run file, whole or not at all."""
    write_whole(Path(path), document_text(run))


def report(run: Document, folder: str | os.PathLike[str]) -> None:
    """Write all renderings and the run file to ``folder``."""
    write_reports(run, Path(folder))
