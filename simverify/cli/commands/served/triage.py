"""``simverify triage``."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simverify.api.served.options import TriageOptions
from simverify.cli.common import EXIT_CODES, check_output, tell

DEFAULTS = TriageOptions()


def triage(
    a: Annotated[str, Parameter(show_env_var=False)],
    b: Annotated[str, Parameter(show_env_var=False)],
    /,
    *,
    options: Annotated[TriageOptions, Parameter(name="*")] = DEFAULTS,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    report: Path | None = None,
    verbose: bool = False,
    quiet: bool = False,
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
    from simverify.api.served.triage import options_iv, run_triage

    check_output(json, report)
    options_iv(a, b, options)
    run = tell(
        lambda say: run_triage(a, b, options, say), json, report, quiet=quiet, verbose=verbose,
        names=(a, b),
    )  # fmt: skip
    return EXIT_CODES[run.verdict]
