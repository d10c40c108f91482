"""``simverify report``."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simverify.cli.common import output_console


def report(
    run: Annotated[Path, Parameter(show_env_var=False)],
    /,
    *,
    html: Path | None = None,
    markdown: Path | None = None,
    junit: Path | None = None,
    report: Path | None = None,
    github: bool = False,
    verbose: bool = False,
) -> int:
    """Render a run file again: as HTML, Markdown, JUnit, or on the terminal if none is asked.

    Parameters
    ----------
    run
        The run file, as --json wrote it.
    html
        Write one HTML page, which needs no network, to this file.
    markdown
        Write Markdown to this file.
    junit
        Write JUnit XML to this file.
    report
        Write all of these and the run file to this folder.
    github
        Print annotations for a GitHub job, and add the Markdown to GITHUB_STEP_SUMMARY.
    verbose
        On the terminal, print all that the run file says.
    """
    from simverify.reports.formats.github import annotations
    from simverify.reports.formats.html import html_report
    from simverify.reports.formats.junit import junit_report
    from simverify.reports.formats.markdown import markdown_report
    from simverify.reports.present import append_summary, make_folder, write_reports
    from simverify.results.reading.document import check_writable, read_document, write_whole

    document = read_document(run)
    wanted = [(html, html_report), (markdown, markdown_report), (junit, junit_report)]
    for path, _ in wanted:
        if path is not None:
            check_writable(path)
    if report is not None:
        make_folder(report)
    for path, render in wanted:
        if path is not None:
            write_whole(path, render(document))
    if report is not None:
        write_reports(document, report)
    if github:
        append_summary(document)
        for line in annotations(document):
            print(line)
    elif report is None and all(path is None for path, _ in wanted):
        from simverify.reports.present import print_run

        print_run(document, output_console(), verbose=verbose)
    return 0
