"""Commands of servers, matrix, triage and watch; of samplers, sampler and generators."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from simverify.checks import pick_name
from simverify.cli.common import Outputs, document_command, print_entries, wrap_line
from simverify.cli.interrupt import handle_sigterm
from simverify.options.samplers import SamplerOptions
from simverify.options.served import MatrixOptions, TriageOptions, WatchOptions

if TYPE_CHECKING:
    from simverify.results import MatrixRun, SamplerRun, TriageRun, WatchRun


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


@document_command(SamplerOptions, arguments={"function": ""}, optional=True)
def sampler(options: SamplerOptions, _outputs: Outputs) -> "SamplerRun":
    """Judge whether a library's sampler emits the row that it is given.

    Its distribution is computed where that is possible, and sampled elsewhere. A row loses digits
    where its type has few; that is said apart, and the sampler is judged by the row that it gets.
    """
    from simverify.api.samplers import sampler as judge

    return judge.run(options)


def generators(library: Annotated[str | None, Parameter(show_env_var=False)] = None, /) -> int:
    """Show what random numbers of libraries are, and what their samplers make of them.

    Parameters
    ----------
    library
        Show only this one, such as torch or libstdc++.
    """
    from simverify.reports.samplers import (
        draw_entries,
        generator_entries,
        library_names,
        sampler_entries,
        stream_entries,
    )

    if library is not None:
        pick_name(library, library_names(), "library")
    blank = ""
    for title, entries in (
        ("Uniform random numbers", generator_entries),
        ("Samplers: total variation between what comes out and the row", sampler_entries),
        (
            "Integers, permutations and normal numbers: total variation (TV) from the documented "
            "distribution",
            draw_entries,
        ),
        ("Streams: what two generators or keys of one seed share", stream_entries),
    ):
        if found := tuple(entries(library)):
            print(f"{blank}{wrap_line(title)}\n")
            print_entries(found)
            blank = "\n"
    return 0
