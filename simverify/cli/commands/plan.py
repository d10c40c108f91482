"""``simverify plan``."""

from typing import Annotated

from cyclopts import Parameter

from simverify.cli.common import (
    check_output,
    deliver,
    output_console,
    progress,
)


def plan(
    *,
    alpha: float = 1e-6,
    power: float = 0.9,
    deviation: float | None = None,
    vocab: int = 64,
    gamma: int = 8,
    seconds: float | None = None,
    samples: int | None = None,
    threads: int | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    quiet: bool = False,
) -> int:
    """Say what a claim costs, in samples and time here, or what a budget detects.

    Parameters
    ----------
    alpha
        False-alarm rate of the whole run.
    power
        Probability with which the deviation is found.
    deviation
        Deviation to find (mean one-token TV); .01 if there is no budget.
    vocab
        Vocabulary size.
    gamma
        Draft length: tokens proposed per target call.
    seconds
        A budget in seconds on this machine, instead of a deviation.
    samples
        A budget in emitted tokens, instead of a deviation.
    threads
        Threads; all processors by default.
    json
        Write the result document to this file, or to standard output for "-".
    quiet
        No progress on standard error.
    """
    from simverify.planning import plan as make_plan
    from simverify.reports.present import print_run

    check_output(json)
    with progress(quiet) as say:
        run = make_plan(
            alpha=alpha,
            power=power,
            deviation=deviation,
            vocab=vocab,
            gamma=gamma,
            seconds=seconds,
            samples=samples,
            threads=threads,
            progress=say,
        )
    if deliver(run, json):
        print_run(run, output_console())
    return 0
