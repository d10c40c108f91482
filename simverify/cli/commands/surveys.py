"""``simverify sweep``, ``simverify table`` and ``simverify bisect``."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import (
    EXIT_CODES,
    check_output,
    output_console,
    print_entries,
    progress,
    run_and_report,
    write_outputs,
)
from simverify.cli.settings import IN_OUTPUT, Json, Report, Switch, command_options, given_by
from simverify.errors import OptionError
from simverify.options.modes import made
from simverify.options.surveys import BisectOptions, SweepOptions, TableOptions

# ``simverify bisect``.


BISECT_MODES = (BisectOptions,)

if TYPE_CHECKING:
    BisectKeywords = Any
else:
    BisectKeywords = command_options(BISECT_MODES, without=("spec",))

BISECT_DEFAULTS = BisectKeywords()


def bisect(
    spec: Annotated[str, Parameter(show_env_var=False)],
    /,
    *,
    options: Annotated[BisectKeywords, Parameter(name="*")] = BISECT_DEFAULTS,
    json: Json = None,
    report: Report = None,
    quiet: Switch = False,
) -> int:
    """Find the first release or commit whose distribution differs from a good one's.

    Each is audited in its own environment. pip installs the release there, or the requirements of
    the commit, which is checked out in a clone. A version that cannot be installed is skipped.
    pip's own settings hold, such as PIP_FIND_LINKS. The exit code is 1 if the first version that
    differs is named, 3 if only a range is, because some versions cannot be judged, and 0 if bad
    does not differ from good.

    Parameters
    ----------
    spec
        An engine, module:attr, or path/file.py:attr of a checkout.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        Show no progress on standard error.
    """
    from simverify.api.surveys import run_bisect

    asked = made(BisectOptions, BISECT_MODES, given_by(BISECT_MODES, options) | {"spec": spec})
    check_output(json, report)
    run = run_and_report(
        lambda say: run_bisect(replace(asked, progress=say)),
        json,
        report,
        quiet=quiet,
        names=[spec],
    )
    return run.exit_code


SWEEP_MODES = (SweepOptions,)

if TYPE_CHECKING:
    SweepKeywords = Any
else:
    SweepKeywords = command_options(SWEEP_MODES, without=("spec",))

SWEEP_DEFAULTS = SweepKeywords()

_TERMINAL_INTERVAL = 0.25
_LOG_INTERVAL = 10.0
"""Seconds between lines of progress."""


def sweep(
    spec: Path | None = None,
    /,
    *,
    options: Annotated[SweepKeywords, Parameter(name="*")] = SWEEP_DEFAULTS,
    status: Annotated[Path | None, Parameter(group=IN_OUTPUT)] = None,
    report: Report = None,
    verbose: Switch = False,
    quiet: Switch = False,
) -> int:
    """Compare verifiers x models x gamma x temperature x distance x seeds; also run audits.

    Every finished shard is kept in a folder. After a crash or Ctrl-C, the same command continues
    from there. The result document is FOLDER/sweep.json, the same on any executor.

    Parameters
    ----------
    spec
        A TOML file whose keys are named like the options. An option overrides its key.
    status
        Only show the progress of the sweep in this folder.
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print each cell's findings too.
    quiet
        Show no progress on standard error.
    """
    if status is not None:
        if (
            spec is not None
            or report is not None
            or replace(options, executor=None) != SWEEP_DEFAULTS
        ):
            raise OptionError("{status} only says what is done: leave all else out")
        from simverify.sweeping.run import status_lines

        for line in status_lines(status):
            print(line)
        return 0
    asked = made(SweepOptions, SWEEP_MODES, given_by(SWEEP_MODES, options) | {"spec": spec})
    if asked.out is None:
        raise OptionError("{out} is missing: name the folder of this sweep")
    check_output(None, report)
    from simverify.api.surveys import run_spec
    from simverify.reports.present import print_run

    every = _TERMINAL_INTERVAL if sys.stderr.isatty() else _LOG_INTERVAL
    with progress(quiet) as say:
        run = run_spec(replace(asked, progress=say), every=every)
    write_outputs(run, None, report)
    print_run(run, output_console(), verbose=verbose)
    return EXIT_CODES[run.verdict]


# ``simverify table``.


TABLE_MODES = (TableOptions,)

if TYPE_CHECKING:
    TableKeywords = Any
else:
    TableKeywords = command_options(TABLE_MODES)

TABLE_DEFAULTS = TableKeywords()


def table(
    *,
    options: Annotated[TableKeywords, Parameter(name="*")] = TABLE_DEFAULTS,
    list_: Annotated[bool, Parameter(name="--list")] = False,
    json: Json = None,
    report: Report = None,
    verbose: Switch = False,
    quiet: Switch = False,
) -> int:
    """Audit every engine that is installed or checked out, each in its own process.

    The exit code is 1 if one fails; else 4 if one did not load or crashed; else 3 if one has no
    verdict; else 0. Absent engines do not count unless you name them.

    Parameters
    ----------
    list_
        Only list which engines are known, which are available, and how to get the others.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print each engine's function, file, whole hash and findings too.
    quiet
        Show no progress on standard error.
    """
    asked = made(TableOptions, TABLE_MODES, given_by(TABLE_MODES, options))
    if list_ and any(one is not None for one in (json, report, asked.audits)):
        raise OptionError(
            "{list} only says what is here, and audits nothing: leave {json}, {report} and "
            "{audits} out"
        )
    from simverify.api.surveys import table_settings

    settings = table_settings(asked)
    if list_:
        from simverify.surveying.table import engine_requirements

        print_entries(engine_requirements(settings))
        return 0

    from simverify.reports.present import print_run
    from simverify.surveying.table import make_table

    check_output(json, report)
    with progress(quiet) as say:
        run = make_table(settings, progress=say)
    if write_outputs(run, json, report):
        print_run(run, output_console(), verbose=verbose)
    return run.exit_code
