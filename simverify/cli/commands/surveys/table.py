"""``simverify table``: every engine that is here on trial, or what each of them would need."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import check_output, deliver, output_console, print_entries, progress
from simverify.cli.options import Json, Report, Switch, command_options, given_by
from simverify.errors import OptionError
from simverify.options.modes import made
from simverify.options.surveys import TableOptions

MODES = (TableOptions,)

if TYPE_CHECKING:
    Given = Any
else:
    Given = command_options(MODES)

DEFAULTS = Given()


def table(
    *,
    options: Annotated[Given, Parameter(name="*")] = DEFAULTS,
    list_: Annotated[bool, Parameter(name="--list")] = False,
    json: Json = None,
    report: Report = None,
    verbose: Switch = False,
    quiet: Switch = False,
) -> int:
    """Audit every engine that is installed or checked out, each in a process of its own.

    The exit code is 1 if one fails; else 4 if one did not load or crashed; else 3 if one has no
    verdict; else 0. Engines that are absent do not count unless they were named.

    Parameters
    ----------
    list_
        Only say which engines are known, which are here, and how to get the others.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print each engine's function, file, whole hash and findings too.
    quiet
        No progress on standard error.
    """
    asked = made(TableOptions, MODES, given_by(MODES, options))
    if list_ and any(one is not None for one in (json, report, asked.audits)):
        raise OptionError(
            "{list} only says what is here, and audits nothing: leave {json}, {report} and "
            "{audits} out"
        )
    from simverify.api.surveys.table import settings_of

    settings = settings_of(asked)
    if list_:
        from simverify.surveying.needs import needs

        print_entries(needs(settings))
        return 0

    from simverify.reports.present import print_run
    from simverify.surveying.table import make_table

    check_output(json, report)
    with progress(quiet) as say:
        run = make_table(settings, progress=say)
    if deliver(run, json, report):
        print_run(run, output_console(), verbose=verbose)
    return run.exit_code
