"""``simverify compare``."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simverify.api.compare_options import NO_GAMMA, CompareOptions
from simverify.cli.common import (
    EXIT_CODES,
    check_output,
    deliver,
    json_text_iv,
    output_console,
    progress,
)
from simverify.errors import OptionError, UsageError

DEFAULTS = CompareOptions()


def compare(
    *,
    models: str | None = None,
    verifiers: str | None = None,
    options: Annotated[CompareOptions, Parameter(name="*")] = DEFAULTS,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    report: Path | None = None,
    verbose: bool = False,
    quiet: bool = False,
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
    if options.gamma is None and options.trace is None and options.tree is None:
        raise OptionError(NO_GAMMA)
    check_output(json, report)
    if models is not None and (json is not None or report is not None):
        json_text_iv(models)  # the document holds the paths
    from simverify.api.compare import run_comparison
    from simverify.api.simulated import DEFAULT_MODELS
    from simverify.comparing import comparison  # noqa: F401 -- loaded before what is kept

    named = DEFAULT_MODELS if models is None else _names("--models", models)
    chosen = None if verifiers is None else _names("--verifiers", verifiers)
    with progress(quiet) as say, _without_what_was_imported():
        run = run_comparison(named, chosen, options, progress=say)
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
