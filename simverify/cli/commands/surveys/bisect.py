"""``simverify bisect``."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simverify.api.surveys.options import BisectOptions
from simverify.cli.common import check_output, tell

DEFAULTS = BisectOptions()


def bisect(
    spec: Annotated[str, Parameter(show_env_var=False)],
    /,
    *,
    options: Annotated[BisectOptions, Parameter(name="*")] = DEFAULTS,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    report: Path | None = None,
    quiet: bool = False,
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

    check_output(json, report)
    run = tell(
        lambda say: run_bisect(spec, options, progress=say), json, report, quiet=quiet, names=[spec]
    )
    return run.exit_code
