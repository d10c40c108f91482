"""``simverify matrix``, ``simverify triage`` and ``simverify watch``."""

from typing import TYPE_CHECKING

from simverify.cli.common import Outputs, document_command
from simverify.cli.interrupt import handle_sigterm
from simverify.options.served import MatrixOptions, TriageOptions, WatchOptions

if TYPE_CHECKING:
    from simverify.results import MatrixRun, TriageRun, WatchRun


@document_command(MatrixOptions, outputs=("json", "report", "quiet"))
def matrix(options: MatrixOptions, _outputs: Outputs) -> "MatrixRun":
    """Test which request parameters a server honours, and what it does with the others.

    The server is asked for each parameter at a value that makes a difference. The answers are
    tested against the distributions that an engine may follow: the parameter as asked, ignored, on
    one side of the verification, on one row of a block, or in another order.
    """
    from simverify.api.served import run_matrix

    return run_matrix(options)


@document_command(
    TriageOptions,
    arguments={"a": "", "b": ""},
    verbose="Print every request that differs, and the explanations that were tried.",
)
def triage(options: TriageOptions, _outputs: Outputs) -> "TriageRun":
    """Explain why the greedy answers of two engines differ: rounding, or which fault.

    The exit code is 0 if every difference is rounding. It is 1 if a token of one engine misses the
    target's choice by more than that, or an answer ends differently. It is 3 if nobody can tell.
    """
    from simverify.api.served import check_triage, run_triage

    check_triage(options)
    return run_triage(options)


@document_command(WatchOptions, outputs=("json", "report", "quiet"))
def watch(options: WatchOptions, _outputs: Outputs) -> "WatchRun":
    """Watch a server or its log, and raise an alarm if it strays from the target.

    The watch runs until an alarm, and then exits with 1. With --once it stops at the end of the
    log. It then exits with 0 if it would have found a deviation of --detect by now, else with 3.
    The watch keeps what it saw: the same command continues a stopped or killed watch, and counts
    no token twice.
    """
    from simverify.api.served import check_watch, run_watch

    check_watch(options)
    with handle_sigterm():
        return run_watch(options)
