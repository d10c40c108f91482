"""``simverify matrix``, ``simverify triage`` and ``simverify watch``."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import EXIT_CODES, check_output, run_and_report
from simverify.cli.interrupt import handle_sigterm
from simverify.cli.settings import Json, Report, Switch, command_options, given_by
from simverify.options.modes import made
from simverify.options.served import MatrixOptions, TriageOptions, WatchOptions

# ``simverify matrix``.


MATRIX_MODES = (MatrixOptions,)

if TYPE_CHECKING:
    MatrixKeywords = Any
else:
    MatrixKeywords = command_options(MATRIX_MODES)

MATRIX_DEFAULTS = MatrixKeywords()


def matrix(
    *,
    options: Annotated[MatrixKeywords, Parameter(name="*")] = MATRIX_DEFAULTS,
    json: Json = None,
    report: Report = None,
    quiet: Switch = False,
) -> int:
    """Say which parameters of a request a server honours, and what it does with the others.

    Each is asked at a value that matters here, and the answers are judged by the laws that an
    engine may follow: as asked, ignored, on one side of the verification, on one row of a block,
    in another order.

    Parameters
    ----------
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        No progress on standard error.
    """
    from simverify.api.served import run_matrix

    asked = made(MatrixOptions, MATRIX_MODES, given_by(MATRIX_MODES, options))
    check_output(json, report)
    run = run_and_report(
        lambda say: run_matrix(replace(asked, progress=say)),
        json,
        report,
        quiet=quiet,
        names=[str(asked.endpoint)],
    )
    return EXIT_CODES[run.verdict]


MODES = (TriageOptions,)

if TYPE_CHECKING:
    TriageKeywords = Any
else:
    TriageKeywords = command_options(MODES, without=("a", "b"))

TRIAGE_DEFAULTS = TriageKeywords()


def triage(
    a: Annotated[str, Parameter(show_env_var=False)],
    b: Annotated[str, Parameter(show_env_var=False)],
    /,
    *,
    options: Annotated[TriageKeywords, Parameter(name="*")] = TRIAGE_DEFAULTS,
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
    from simverify.api.served import check_triage, run_triage

    asked = made(TriageOptions, MODES, given_by(MODES, options) | {"a": a, "b": b})
    check_output(json, report)
    check_triage(asked)
    run = run_and_report(
        lambda say: run_triage(replace(asked, progress=say)),
        json,
        report,
        quiet=quiet,
        verbose=verbose,
        names=(a, b),
    )
    return EXIT_CODES[run.verdict]


# ``simverify watch``.


WATCH_MODES = (WatchOptions,)

if TYPE_CHECKING:
    WatchKeywords = Any
else:
    WatchKeywords = command_options(WATCH_MODES)

WATCH_DEFAULTS = WatchKeywords()


def watch(
    *,
    options: Annotated[WatchKeywords, Parameter(name="*")] = WATCH_DEFAULTS,
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
    from simverify.api.served import check_watch, run_watch

    asked = made(WatchOptions, WATCH_MODES, given_by(WATCH_MODES, options))
    check_output(json, report)
    check_watch(asked)
    names = [str(asked.endpoint or asked.outputs), str(asked.state)]
    with handle_sigterm():
        run = run_and_report(
            lambda say: run_watch(replace(asked, progress=say)),
            json,
            report,
            quiet=quiet,
            names=names,
        )
    return EXIT_CODES[run.verdict]
