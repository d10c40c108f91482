"""``simverify report`` and ``simverify figure``."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from simverify.cli.common import output_console
from simverify.cli.streams import print_error
from simverify.errors import UsageError

# ``simverify figure``.


def figure(
    kind: Annotated[
        Literal["fig3", "fig4", "fig5", "easyspec-fig4"], Parameter(show_env_var=False)
    ],
    runs: Annotated[list[Path], Parameter(show_env_var=False)],
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o")],
) -> int:
    """Draw a figure from comparisons, like those of the block verification and EasySpec papers.

    Parameters
    ----------
    kind
        fig3: Pr(tau >= l). fig4: block efficiency against gamma.
        fig5: speed-up against gamma.
        easyspec-fig4: acceptance by tree width, for drafts with layers in groups.
    runs
        Run files of comparisons. Each model gets a panel, or two in easyspec-fig4.
    output
        The .svg or .pdf file to write.
    """
    from simverify.reports.figures import check_figure, draw_figure
    from simverify.results import CompareRun
    from simverify.results.reading import check_writable, read_document

    check_figure(output)
    check_writable(output)
    documents = []
    for path in runs:
        document = read_document(path)
        if not isinstance(document, CompareRun):
            raise UsageError(f"{path} is no comparison: figures are drawn from compare's run files")
        documents.append(document)
    if lacking := draw_figure(kind, documents, output):
        some = ", ".join(f"U+{ord(c):04X}" for c in lacking[:5])
        more = f" and {len(lacking) - 5} more" if lacking[5:] else ""
        print_error(
            f"simverify: {output} may show boxes for {some}{more}, which matplotlib's font lacks: "
            "give the models other names, or set font.family in a matplotlibrc"
        )
    return 0


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
    """Render a run file as HTML, Markdown or JUnit, or on the terminal if you name none.

    Parameters
    ----------
    run
        The run file, which --json wrote.
    html
        Write one HTML page to this file. The page needs no network.
    markdown
        Write Markdown to this file.
    junit
        Write JUnit XML to this file.
    report
        Write all of these and the run file to this folder.
    github
        Print annotations for a GitHub job, and add the Markdown to GITHUB_STEP_SUMMARY.
    verbose
        On the terminal, print everything in the run file.
    """
    from simverify.reports.formats import (
        github_annotations,
        html_report,
        junit_report,
        markdown_report,
    )
    from simverify.reports.present import append_summary, prepare_folder, write_reports
    from simverify.results.reading import check_writable, read_document, write_whole

    document = read_document(run)
    wanted = [(html, html_report), (markdown, markdown_report), (junit, junit_report)]
    for path, _ in wanted:
        if path is not None:
            check_writable(path)
    if report is not None:
        prepare_folder(report)
    for path, render in wanted:
        if path is not None:
            write_whole(path, render(document))
    if report is not None:
        write_reports(document, report)
    if github:
        append_summary(document)
        for line in github_annotations(document):
            print(line)
    elif report is None and all(path is None for path, _ in wanted):
        from simverify.reports.present import print_run

        print_run(document, output_console(), verbose=verbose)
    return 0
