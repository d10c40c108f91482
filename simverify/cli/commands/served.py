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
    """Test which request parameters a server honours, and what it does with the others.

    The server is asked for each parameter at a value that makes a difference. The answers are
    tested against the distributions that an engine may follow: the parameter as asked, ignored, on
    one side of the verification, on one row of a block, or in another order.

    Parameters
    ----------
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        Show no progress on standard error.
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


TRIAGE_MODES = (TriageOptions,)

if TYPE_CHECKING:
    TriageKeywords = Any
else:
    TriageKeywords = command_options(TRIAGE_MODES, without=("a", "b"))

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
    """Explain why the greedy answers of two engines differ: rounding, or which fault.

    The exit code is 0 if every difference is rounding. It is 1 if a token of one engine misses the
    target's choice by more than that, or an answer ends differently. It is 3 if nobody can tell.

    Parameters
    ----------
    a
        A JSONL file, one request per line, with prompt and tokens (ids) or text.
        Or a server, such as http://localhost:8000, which is asked at temperature 0.
    b
        The other file or server.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print every request that differs, and the explanations that were tried.
    quiet
        Show no progress on standard error.
    """
    from simverify.api.served import check_triage, run_triage

    asked = made(TriageOptions, TRIAGE_MODES, given_by(TRIAGE_MODES, options) | {"a": a, "b": b})
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
    """Watch a server or its log, and raise an alarm if it strays from the target.

    The watch runs until an alarm, and then exits with 1. With --once it stops at the end of the
    log. It then exits with 0 if it would have found a deviation of --detect by now, else with 3.
    The watch keeps what it saw: the same command continues a stopped or killed watch, and counts
    no token twice.

    Parameters
    ----------
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        Show no progress on standard error.
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
