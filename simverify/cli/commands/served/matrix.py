"""``simverify matrix``."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import EXIT_CODES, check_output, tell
from simverify.cli.options import Json, Report, Switch, command_options, given_by
from simverify.options.modes import made
from simverify.options.served import MatrixOptions

MODES = (MatrixOptions,)

if TYPE_CHECKING:
    Given = Any
else:
    Given = command_options(MODES)

DEFAULTS = Given()


def matrix(
    *,
    options: Annotated[Given, Parameter(name="*")] = DEFAULTS,
    json: Json = None,
    report: Report = None,
    quiet: Switch = False,
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

    asked = made(MatrixOptions, MODES, given_by(MODES, options))
    check_output(json, report)
    run = tell(
        lambda say: run_matrix(replace(asked, progress=say)), json, report, quiet=quiet,
        names=[str(asked.endpoint)],
    )  # fmt: skip
    return EXIT_CODES[run.verdict]
