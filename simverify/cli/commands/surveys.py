"""``simverify sweep``, ``simverify table`` and ``simverify bisect``."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import Outputs, document_command, print_entries
from simverify.cli.settings import IN_OUTPUT
from simverify.errors import OptionError
from simverify.options.modes import options_of
from simverify.options.surveys import BisectOptions, SweepOptions, TableOptions

if TYPE_CHECKING:
    from simverify.results import BisectRun, SweepRun, TableRun


@document_command(BisectOptions, arguments={"spec": ""}, outputs=("json", "report", "quiet"))
def bisect(options: BisectOptions, _outputs: Outputs) -> "BisectRun":
    """Find the first release or commit whose distribution differs from a good one's.

    Each is audited in its own environment. pip installs the release there, or the requirements of
    the commit, which is checked out in a clone. A version that cannot be installed is skipped.
    pip's own settings hold, such as PIP_FIND_LINKS. The exit code is 1 if the first version that
    differs is named, 3 if only a range is, because some versions cannot be judged, and 0 if bad
    does not differ from good.
    """
    from simverify.api.surveys import bisect

    return bisect.run(options)


_TERMINAL_INTERVAL = 0.25
_LOG_INTERVAL = 10.0
"""Seconds between lines of progress."""


def _sweep_or_status(
    given: Mapping[str, Any],
    outputs: Outputs,
    *,
    status: Annotated[
        Path | None,
        Parameter(group=IN_OUTPUT, help="Only show the progress of the sweep in this folder."),
    ] = None,
) -> SweepOptions | int:
    options = options_of((SweepOptions,), given)
    assert isinstance(options, SweepOptions)
    if status is None:
        if options.out is None:
            raise OptionError("{out} is missing: name the folder of this sweep")
        return options
    if outputs.report or any(v is not None for n, v in given.items() if n != "executor"):
        raise OptionError("{status} only says what is done: leave all else out")
    from simverify.sweeping.run import status_lines

    for line in status_lines(status):
        print(line)
    return 0


@document_command(
    SweepOptions,
    arguments={"spec": ""},
    optional=True,
    outputs=("report", "verbose", "quiet"),
    verbose="Print each cell's findings too.",
    prepare=_sweep_or_status,
)
def sweep(options: SweepOptions, _outputs: Outputs) -> "SweepRun":
    """Compare verifiers x models x gamma x temperature x distance x seeds; also run audits.

    Every finished shard is kept in a folder. After a crash or Ctrl-C, the same command continues
    from there. The result document is FOLDER/sweep.json, the same on any executor.
    """
    from simverify.api.surveys import run_spec

    return run_spec(options, every=_TERMINAL_INTERVAL if sys.stderr.isatty() else _LOG_INTERVAL)


_LIST_HELP = "Only list which engines are known, which are available, and how to get the others."


def _table_or_list(
    given: Mapping[str, Any],
    outputs: Outputs,
    *,
    list_: Annotated[bool, Parameter(name="--list", help=_LIST_HELP)] = False,
) -> TableOptions | int:
    options = options_of((TableOptions,), given)
    assert isinstance(options, TableOptions)
    if list_ and any(x is not None for x in (outputs.json, outputs.report, options.audits)):
        raise OptionError(
            "{list} only says what is here, and audits nothing: leave {json}, {report} and "
            "{audits} out"
        )
    from simverify.api.surveys import table_settings

    settings = table_settings(options)
    if not list_:
        return options
    from simverify.surveying.table import engine_requirements

    print_entries(engine_requirements(settings))
    return 0


@document_command(
    TableOptions,
    verbose="Print each engine's function, file, whole hash and findings too.",
    prepare=_table_or_list,
)
def table(options: TableOptions, _outputs: Outputs) -> "TableRun":
    """Audit every engine that is installed or checked out, each in its own process.

    The exit code is 1 if one fails; else 4 if one did not load or crashed; else 3 if one has no
    verdict; else 0. Absent engines do not count unless you name them.
    """
    from simverify.api.surveys import table

    return table.run(options)
