"""``simverify compare``."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import (
    EXIT_CODES,
    check_output,
    deliver,
    json_text_iv,
    output_console,
    progress,
)
from simverify.cli.options import IN_COMPARED, Json, Report, Switch, command_options, given_by
from simverify.errors import OptionError, UsageError
from simverify.options.compare import COMPARISONS, NO_GAMMA, TracedOptions
from simverify.options.modes import made, mode_of

if TYPE_CHECKING:
    Given = Any
else:
    Given = command_options(COMPARISONS, without=("models", "verifiers"))

DEFAULTS = Given()


def compare(
    *,
    models: Annotated[str | None, Parameter(group=IN_COMPARED)] = None,
    verifiers: Annotated[str | None, Parameter(group=IN_COMPARED)] = None,
    options: Annotated[Given, Parameter(name="*")] = DEFAULTS,
    json: Json = None,
    report: Report = None,
    verbose: Switch = False,
    quiet: Switch = False,
) -> int:
    """Compare verifiers on models: lossless or not, accepted tokens, optimum, speed.

    Parameters
    ----------
    models
        Comma-separated: toy, compact, markov-V for any V, ngram, or files (.json, .npz).
        Or one real pair: tiny-llama, or tiny-llama-deep with a draft of twelve layers. By
        default toy, compact, markov-64 and ngram; on draft trees the first three.
    verifiers
        Comma-separated: token, block, greedy, match, temperature-0; by default the first
        four, of real models the first three, on a trace those of them without state. On draft
        trees token, block, naive, k-seq, recursive and more (simverify verifiers); by default
        all for trees that are lossless there. And your own rules, as audit takes them:
        my_rule.py:verify.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print all that the verdicts rest on.
    quiet
        No progress on standard error.
    """
    given = given_by(COMPARISONS, options)
    given["models"] = None if models is None else _names("--models", models)
    given["verifiers"] = None if verifiers is None else _names("--verifiers", verifiers)
    mode = mode_of(COMPARISONS, given)
    if mode is not TracedOptions and given["gamma"] is None and given["tree"] is None:
        raise OptionError(NO_GAMMA)
    asked = made(mode, COMPARISONS, given)
    check_output(json, report)
    if models is not None and (json is not None or report is not None):
        json_text_iv(models)  # the document holds the paths
    from simverify.api.compare import run_comparison
    from simverify.comparing import comparison  # noqa: F401 -- loaded before what is kept

    with progress(quiet) as say, _without_what_was_imported():
        run = run_comparison(replace(asked, progress=say))
    if deliver(run, json, report):
        from simverify.reports.present import print_run

        print_run(run, output_console(), verbose=verbose)
    return EXIT_CODES[run.verdict]


@contextmanager
def _without_what_was_imported() -> Iterator[None]:
    """Keep what was imported out of garbage collections, half a second in all."""
    if _is_frozen():
        # Whoever runs this command in their process has done it, and means it to stay so.
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _is_frozen() -> bool:
    return gc.get_freeze_count() > 0


def _names(option: str, text: str) -> list[str]:
    # A comma in brackets belongs to a name: relaxed-acceptance(2,0.25).
    names = [name.strip() for name in re.split(r",(?![^(]*\))", text)]
    if not any(names):
        raise UsageError(f"{option} is {text!r}, which leaves nothing to compare: name one or more")
    if not all(names):
        raise UsageError(f"{option} is {text!r}: expected a name before and after every comma")
    return names
