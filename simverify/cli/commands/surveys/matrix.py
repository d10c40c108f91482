"""``simverify matrix``."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simverify.api.surveys.matrix import MatrixOptions
from simverify.cli.common import (
    EXIT_CODES,
    check_output,
    deliver,
    json_text_iv,
    output_console,
    progress,
)

DEFAULTS = MatrixOptions()


def matrix(
    *,
    options: Annotated[MatrixOptions, Parameter(name="*")] = DEFAULTS,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    report: Path | None = None,
    quiet: bool = False,
) -> int:
    """Say which parameters of a request a server honours, and what it does with the others.

    Each is asked at a value that matters here, and the answers are judged by the laws that an
    engine may follow: as asked, ignored, on one side of the verification, on one row of a block,
    in another order.

    Parameters
    ----------
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        No progress on standard error.
    """
    from simverify.api.surveys.matrix import run_matrix
    from simverify.reports.present import print_run

    check_output(json, report)
    if json is not None or report is not None:
        json_text_iv(str(options.endpoint))
    with progress(quiet) as say:
        run = run_matrix(options, progress=say)
    if deliver(run, json, report):
        print_run(run, output_console())
    return EXIT_CODES[run.verdict]
