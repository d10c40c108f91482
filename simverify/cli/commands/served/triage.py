"""``simverify triage``."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import EXIT_CODES, check_output, tell
from simverify.cli.options import Json, Report, Switch, command_options, given_by
from simverify.options.modes import made
from simverify.options.served import TriageOptions

MODES = (TriageOptions,)

if TYPE_CHECKING:
    Given = Any
else:
    Given = command_options(MODES, without=("a", "b"))

DEFAULTS = Given()


def triage(
    a: Annotated[str, Parameter(show_env_var=False)],
    b: Annotated[str, Parameter(show_env_var=False)],
    /,
    *,
    options: Annotated[Given, Parameter(name="*")] = DEFAULTS,
    json: Json = None,
    report: Report = None,
    verbose: Switch = False,
    quiet: Switch = False,
) -> int:
    """Say why the greedy answers of two engines differ: rounding, or which fault.

    The exit code is 0 if all that differs is rounding, 1 if a token of one is not the target's
    choice by more, or an answer ends otherwise, 3 if nobody can tell.

    Parameters
    ----------
    a, b
        JSONL files with prompt, and tokens (ids) or text, a request a line; or servers, such as
        http://localhost:8000, which are asked at temperature 0.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print every request that differs, and what was tried as an explanation.
    quiet
        No progress on standard error.
    """
    from simverify.api.served.triage import run_triage, triage_iv

    asked = made(TriageOptions, MODES, given_by(MODES, options) | {"a": a, "b": b})
    check_output(json, report)
    triage_iv(asked)
    run = tell(
        lambda say: run_triage(replace(asked, progress=say)), json, report, quiet=quiet,
        verbose=verbose, names=(a, b),
    )  # fmt: skip
    return EXIT_CODES[run.verdict]
