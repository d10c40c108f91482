"""``simverify sweep``: a grid of comparisons, and audits, in a folder that resumes."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simverify.api.surveys.options import SweepOptions
from simverify.cli.common import EXIT_CODES, check_output, deliver, output_console, progress
from simverify.errors import OptionError

DEFAULTS = SweepOptions()

_EVERY_ON_TERMINAL = 0.25
_EVERY_ELSEWHERE = 10.0
"""Seconds between lines of progress."""


def sweep(
    spec: Path | None = None,
    /,
    *,
    out: Path | None = None,
    options: Annotated[SweepOptions, Parameter(name="*")] = DEFAULTS,
    executor: str = "processes",
    workers: int | None = None,
    status: Path | None = None,
    report: Path | None = None,
    verbose: bool = False,
    quiet: bool = False,
) -> int:
    """Compare verifiers x models x gamma x temperature x distance x seeds; run audits likewise.

    Every finished shard is kept in a folder: after a crash, or Ctrl-C, the same command goes on
    from there. The result document is FOLDER/sweep.json, the same on any executor.

    Parameters
    ----------
    spec
        A TOML file with keys named as the options; an option takes the place of its key.
    out
        The folder of this sweep.
    executor
        threads, processes, dask (a cluster on this machine, for the run) or
        dask:tcp://HOST:PORT (one that is there).
    workers
        Tasks at a time; by default one a core, of a cluster one a thread.
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
        asked_too = spec is not None or options != DEFAULTS
        if asked_too or any(one is not None for one in (out, workers, report)):
            raise OptionError("{status} only says what is done: leave all else out")
        from simverify.sweeping.status import status as done

        for line in done(status):
            print(line)
        return 0
    if out is None:
        raise OptionError("{out} is missing: name the folder of this sweep")
    check_output(None, report)
    from simverify.api.surveys.sweep import given_by, spec_of
    from simverify.reports.present import print_run
    from simverify.sweeping.run import run_sweep

    asked = spec_of(spec, given_by(options))
    every = _EVERY_ON_TERMINAL if sys.stderr.isatty() else _EVERY_ELSEWHERE
    with progress(quiet) as say:
        run = run_sweep(asked, out, executor=executor, workers=workers, progress=say, every=every)
    deliver(run, None, report)
    print_run(run, output_console(), verbose=verbose)
    return EXIT_CODES[run.verdict]
