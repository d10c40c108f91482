"""``simverify sweep``: a grid of comparisons, and audits, in a folder that resumes."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import EXIT_CODES, check_output, deliver, output_console, progress
from simverify.cli.options import IN_OUTPUT, Report, Switch, command_options, given_by
from simverify.errors import OptionError
from simverify.options.modes import made
from simverify.options.surveys import SweepOptions

MODES = (SweepOptions,)

if TYPE_CHECKING:
    Given = Any
else:
    Given = command_options(MODES, without=("spec",))

DEFAULTS = Given()

_EVERY_ON_TERMINAL = 0.25
_EVERY_ELSEWHERE = 10.0
"""Seconds between lines of progress."""


def sweep(
    spec: Path | None = None,
    /,
    *,
    options: Annotated[Given, Parameter(name="*")] = DEFAULTS,
    status: Annotated[Path | None, Parameter(group=IN_OUTPUT)] = None,
    report: Report = None,
    verbose: Switch = False,
    quiet: Switch = False,
) -> int:
    """Compare verifiers x models x gamma x temperature x distance x seeds; run audits likewise.

    Every finished shard is kept in a folder: after a crash, or Ctrl-C, the same command goes on
    from there. The result document is FOLDER/sweep.json, the same on any executor.

    Parameters
    ----------
    spec
        A TOML file with keys named as the options; an option takes the place of its key.
    status
        Only say what is done of the sweep in this folder.
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print each cell's findings too.
    quiet
        No progress on standard error.
    """
    if status is not None:
        if spec is not None or report is not None or replace(options, executor=None) != DEFAULTS:
            raise OptionError("{status} only says what is done: leave all else out")
        from simverify.sweeping.status import status as done

        for line in done(status):
            print(line)
        return 0
    asked = made(SweepOptions, MODES, given_by(MODES, options) | {"spec": spec})
    if asked.out is None:
        raise OptionError("{out} is missing: name the folder of this sweep")
    check_output(None, report)
    from simverify.api.surveys.sweep import run_spec
    from simverify.reports.present import print_run

    every = _EVERY_ON_TERMINAL if sys.stderr.isatty() else _EVERY_ELSEWHERE
    with progress(quiet) as say:
        run = run_spec(replace(asked, progress=say), every=every)
    deliver(run, None, report)
    print_run(run, output_console(), verbose=verbose)
    return EXIT_CODES[run.verdict]
