"""``simverify matrix``."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simverify.api.served.matrix import MatrixOptions
from simverify.cli.common import EXIT_CODES, check_output, tell

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
    from simverify.api.served.matrix import run_matrix

    check_output(json, report)
    run = tell(
        lambda say: run_matrix(options, progress=say), json, report, quiet=quiet,
        names=[str(options.endpoint)],
    )  # fmt: skip
    return EXIT_CODES[run.verdict]
