"""``simverify compare``."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simverify.cli.common import (
    EXIT_CODES,
    OptionalWhole,
    Whole,
    check_output,
    deliver,
    json_text_iv,
    output_console,
    progress,
)
from simverify.errors import UsageError


def compare(
    *,
    gamma: Whole,
    verifiers: str = "token,block,greedy,match",
    models: str = "toy,compact,markov-64,ngram",
    blocks: OptionalWhole = None,
    calls: Whole = 0,
    eos: OptionalWhole = None,
    cost_ratio: float = 0.1,
    draft_distance: float = 0.4,
    temperature: float = 1.0,
    alpha: float = 1e-6,
    detect: float = 0.01,
    seed: Whole = 0,
    threads: OptionalWhole = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    report: Path | None = None,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Compare verifiers on models: lossless or not, accepted tokens, optimum, speed.

    Parameters
    ----------
    gamma
        Draft length: tokens proposed per target call.
    verifiers
        Comma-separated: token, block, greedy, match, temperature-0.
    models
        Comma-separated: toy, compact, markov-V for any V, ngram, or files (.json, .npz).
    blocks
        Simulated blocks per verifier; by default what the promised power needs.
    calls
        Also give the tokens out after 1 to this many calls.
    eos
        Token that ends a generation; matters to --calls.
    cost_ratio
        Time of one draft token over time of one target call.
    draft_distance
        markov-V: share of noise in the draft's rows, 0 to 1.
    temperature
        markov-V: temperature of target and draft; 0 is one-hot.
    alpha
        False-alarm rate of the whole run.
    detect
        Deviation (mean one-token TV) to be found with power .9.
    seed
        Seed of the run: same seed, same results, whatever the threads.
    threads
        Threads; all processors by default.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        No progress on standard error.
    """
    from simverify.comparison import compare as run_comparison
    from simverify.reports.terminal import print_comparison

    check_output(json, report)
    if json is not None or report is not None:
        json_text_iv(models)  # the document holds the paths
    with progress(quiet) as say:
        run = run_comparison(
            _names("--models", models),
            _names("--verifiers", verifiers),
            gamma=gamma,
            blocks=blocks,
            calls=calls,
            eos=eos,
            cost_ratio=cost_ratio,
            alpha=alpha,
            detect=detect,
            seed=seed,
            threads=threads,
            distance=draft_distance,
            temperature=temperature,
            progress=say,
        )
    if deliver(run, json, report):
        print_comparison(run, output_console())
    return EXIT_CODES[run.verdict]


def _names(option: str, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not any(names):
        raise UsageError(f"{option} is {text!r}, which leaves nothing to compare: name one or more")
    if not all(names):
        raise UsageError(f"{option} is {text!r}: expected a name before and after every comma")
    return names
