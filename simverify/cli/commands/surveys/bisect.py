"""``simverify bisect``."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import check_output, tell
from simverify.cli.options import Json, Report, Switch, command_options, given_by
from simverify.options.modes import made
from simverify.options.surveys import BisectOptions

MODES = (BisectOptions,)

if TYPE_CHECKING:
    Given = Any
else:
    Given = command_options(MODES, without=("spec",))

DEFAULTS = Given()


def bisect(
    spec: Annotated[str, Parameter(show_env_var=False)],
    /,
    *,
    options: Annotated[Given, Parameter(name="*")] = DEFAULTS,
    json: Json = None,
    report: Report = None,
    quiet: Switch = False,
) -> int:
    """Find the first release, or commit, whose law is not that of a good one.

    Each is audited in an environment of its own, into which pip installs a release, or what a
    commit asks for; the commit is checked out in a clone. One that cannot be installed is gone
    around. pip's own settings hold, such as PIP_FIND_LINKS. The exit code is 1 if the first that
    differs is named, 3 if only a range is, for want of some that can be judged, and 0 if bad does
    not differ from good.

    Parameters
    ----------
    spec
        An engine, module:attr, or path/file.py:attr of a checkout.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        No progress on standard error.
    """
    from simverify.api.surveys.bisect import run_bisect

    asked = made(BisectOptions, MODES, given_by(MODES, options) | {"spec": spec})
    check_output(json, report)
    run = tell(
        lambda say: run_bisect(replace(asked, progress=say)), json, report, quiet=quiet,
        names=[spec],
    )  # fmt: skip
    return run.exit_code
