"""``simverify watch``."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simverify.api.served.options import WatchOptions
from simverify.cli.common import EXIT_CODES, check_output, tell
from simverify.cli.interrupt import also_terminated

DEFAULTS = WatchOptions()


def watch(
    *,
    options: Annotated[WatchOptions, Parameter(name="*")] = DEFAULTS,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    report: Path | None = None,
    quiet: bool = False,
) -> int:
    """Watch a server or its log over its life: an alarm when it strays from the target.

    It runs until there is an alarm, and exits with 1 then; with --once it ends with the log, and
    exits with 0 if --detect would have been told by now, else with 3. What was seen is kept: a
    watch that was ended or killed goes on by the same command, and counts no token twice.

    Parameters
    ----------
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        No progress on standard error.
    """
    from simverify.api.served.watch import options_iv, run_watch

    check_output(json, report)
    options_iv(options)
    names = [str(options.endpoint or options.outputs), str(options.state)]
    with also_terminated():
        run = tell(
            lambda say: run_watch(options, say), json, report, quiet=quiet, names=names
        )  # fmt: skip
    return EXIT_CODES[run.verdict]
