"""``simverify watch``."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import EXIT_CODES, check_output, tell
from simverify.cli.interrupt import also_terminated
from simverify.cli.options import Json, Report, Switch, command_options, given_by
from simverify.options.modes import made
from simverify.options.served import WatchOptions

MODES = (WatchOptions,)

if TYPE_CHECKING:
    Given = Any
else:
    Given = command_options(MODES)

DEFAULTS = Given()


def watch(
    *,
    options: Annotated[Given, Parameter(name="*")] = DEFAULTS,
    json: Json = None,
    report: Report = None,
    quiet: Switch = False,
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
    from simverify.api.served.watch import run_watch, watch_iv

    asked = made(WatchOptions, MODES, given_by(MODES, options))
    check_output(json, report)
    watch_iv(asked)
    names = [str(asked.endpoint or asked.outputs), str(asked.state)]
    with also_terminated():
        run = tell(
            lambda say: run_watch(replace(asked, progress=say)), json, report, quiet=quiet,
            names=names,
        )  # fmt: skip
    return EXIT_CODES[run.verdict]
