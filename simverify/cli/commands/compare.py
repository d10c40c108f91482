"""``simverify compare``."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

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
from simverify.errors import OptionError, UsageError


def compare(
    *,
    gamma: OptionalWhole = None,
    verifiers: str | None = None,
    models: str = "toy,compact,markov-64,ngram",
    blocks: OptionalWhole = None,
    calls: Whole = 0,
    eos: OptionalWhole = None,
    cost_ratio: float = 0.1,
    draft_distance: float | None = None,
    temperature: float | None = None,
    target: str | None = None,
    draft: str | None = None,
    prompts: Path | None = None,
    tokens: OptionalWhole = None,
    lanes: OptionalWhole = None,
    top_k: OptionalWhole = None,
    top_p: float | None = None,
    device: str | None = None,
    dtype: Literal["float32", "bfloat16"] | None = None,
    trace: Path | None = None,
    alpha: float = 1e-6,
    detect: float | None = None,
    seed: OptionalWhole = None,
    threads: OptionalWhole = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    report: Path | None = None,
    verbose: Annotated[bool, Parameter(negative=())] = False,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Compare verifiers on models: lossless or not, accepted tokens, optimum, speed.

    Parameters
    ----------
    gamma
        Draft length: tokens proposed per target call; a trace has its own.
    verifiers
        Comma-separated: token, block, greedy, match, temperature-0; by default the first
        four, of real models the first three, on a trace those of them without state.
    models
        Comma-separated: toy, compact, markov-V for any V, ngram, or files (.json, .npz).
        Or one real pair: tiny-llama, or tiny-llama-deep with a draft of eight layers.
    blocks
        Simulated blocks per verifier; by default what the promised power needs.
    calls
        Also give the tokens out after 1 to this many calls.
    eos
        Token that ends a generation; matters to --calls.
    cost_ratio
        Time of one draft token over time of one target call.
    draft_distance
        markov-V: share of noise in the draft's rows, 0 to 1; .4 by default.
    temperature
        markov-V and real models: temperature of target and draft, 1 by default; 0 is one-hot.
    target, draft
        Real models instead of --models: folders or names that Transformers loads.
    prompts
        Real models: prompts, JSONL or a text file with one a paragraph.
    tokens
        Real models: emitted tokens per verifier; by default what the promised power needs.
    lanes
        Real models: requests decoded side by side, 32 by default; fewer take less memory.
    top_k, top_p
        Real models: tokens that are kept, of target and draft.
    device, dtype
        Real models: where and in what they compute; cpu and float32 by default.
    trace
        Replay this trace instead, as simverify capture wrote it.
    alpha
        False-alarm rate of the whole run.
    detect
        Deviation (mean one-token TV) to be found with power .9: .01, for real models .04.
    seed
        Seed of the run: same seed, same results, whatever the threads. By default 0, or that
        of the trace.
    threads
        Threads; all processors by default.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print all that the verdicts rest on.
    quiet
        No progress on standard error.
    """
    if gamma is None and trace is None:
        raise OptionError("{gamma} requires an argument: the draft length, such as {gamma} 8")
    check_output(json, report)
    if json is not None or report is not None:
        json_text_iv(models)  # the document holds the paths
    from simverify.api.compare import run_comparison
    from simverify.api.real import RealModels
    from simverify.comparing import comparison  # noqa: F401 -- loaded before what is kept

    real = RealModels(
        target=target, draft=draft, prompts=prompts, tokens=tokens, temperature=temperature,
        top_k=top_k, top_p=top_p, device=device, dtype=dtype, threads=threads,
    )  # fmt: skip
    with progress(quiet) as say, _without_what_was_imported():
        run = run_comparison(
            _names("--models", models),
            None if verifiers is None else _names("--verifiers", verifiers),
            real,
            gamma=gamma,
            lanes=lanes,
            detect=detect,
            seed=seed,
            trace=trace,
            simulated={
                "blocks": blocks, "calls": calls or None, "eos": eos,
                "draft_distance": draft_distance,
            },
            shared={"cost_ratio": cost_ratio, "alpha": alpha, "progress": say},
        )  # fmt: skip
    if deliver(run, json, report):
        from simverify.reports.present import print_run

        print_run(run, output_console(), verbose=verbose)
    return EXIT_CODES[run.verdict]


@contextmanager
def _without_what_was_imported() -> Iterator[None]:
    """Keep what was imported out of garbage collections, half a second in all."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _names(option: str, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not any(names):
        raise UsageError(f"{option} is {text!r}, which leaves nothing to compare: name one or more")
    if not all(names):
        raise UsageError(f"{option} is {text!r}: expected a name before and after every comma")
    return names
