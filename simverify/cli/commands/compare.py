"""``simverify compare``, ``simverify plan`` and ``simverify capture``."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from simverify.cli.common import (
    EXIT_CODES,
    check_json_text,
    check_output,
    output_console,
    progress,
    write_outputs,
)
from simverify.cli.settings import IN_COMPARED, Json, Report, Switch, command_options, given_by
from simverify.errors import OptionError, UsageError
from simverify.options.compare import COMPARISONS, NO_GAMMA, TracedOptions
from simverify.options.modes import made, mode_of

if TYPE_CHECKING:
    Given = Any
else:
    Given = command_options(COMPARISONS, without=("models", "verifiers"))

COMPARE_DEFAULTS = Given()


def compare(
    *,
    models: Annotated[str | None, Parameter(group=IN_COMPARED)] = None,
    verifiers: Annotated[str | None, Parameter(group=IN_COMPARED)] = None,
    options: Annotated[Given, Parameter(name="*")] = COMPARE_DEFAULTS,
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
        Or one real pair: tiny-llama, or tiny-llama-deep with a draft of twelve layers.
        By default toy, compact, markov-64 and ngram; on draft trees the first three.
    verifiers
        Comma-separated: token, block, greedy, match, temperature-0.
        By default the first four; for real models the first three.
        On a trace, by default those of the four without state.
        On draft trees: token, block, naive, k-seq, recursive and more (simverify verifiers).
        By default all rules for trees that are lossless there.
        Or your own rules, as audit takes them: my_rule.py:verify.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print everything that the verdicts rest on.
    quiet
        Show no progress on standard error.
    """
    given = given_by(COMPARISONS, options)
    given["models"] = None if models is None else _split_names("--models", models)
    given["verifiers"] = None if verifiers is None else _split_names("--verifiers", verifiers)
    mode = mode_of(COMPARISONS, given)
    if mode is not TracedOptions and given["gamma"] is None and given["tree"] is None:
        raise OptionError(NO_GAMMA)
    asked = made(mode, COMPARISONS, given)
    check_output(json, report)
    if models is not None and (json is not None or report is not None):
        check_json_text(models)  # the document holds the paths
    from simverify.api.compare import run_comparison
    from simverify.comparing import comparison  # noqa: F401 -- loaded before what is kept

    with progress(quiet) as say, _freeze_imports():
        run = run_comparison(replace(asked, progress=say))
    if write_outputs(run, json, report):
        from simverify.reports.present import print_run

        print_run(run, output_console(), verbose=verbose)
    return EXIT_CODES[run.verdict]


@contextmanager
def _freeze_imports() -> Iterator[None]:
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


def _split_names(option: str, text: str) -> list[str]:
    # A comma in brackets belongs to a name: relaxed-acceptance(2,0.25).
    names = [name.strip() for name in re.split(r",(?![^(]*\))", text)]
    if not any(names):
        raise UsageError(f"{option} is {text!r}, which leaves nothing to compare: name one or more")
    if not all(names):
        raise UsageError(f"{option} is {text!r}: expected a name before and after every comma")
    return names


# ``simverify plan``.


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
    """Estimate what a claim costs, in samples and in time here, or what a budget detects.

    Parameters
    ----------
    alpha
        False-alarm rate of the whole run.
    power
        Probability of finding the deviation.
    deviation
        Deviation to detect (mean one-token TV); .01 if no budget is given.
    vocab
        Vocabulary size.
    gamma
        Draft length: tokens proposed per target call.
    seconds
        A budget in seconds on this machine, instead of a deviation.
    samples
        A budget in emitted tokens, instead of a deviation.
    threads
        Number of threads; by default, all processors.
    json
        Write the result document to this file, or to standard output for "-".
    quiet
        Show no progress on standard error.
    """
    from simverify.comparing.planning import plan as make_plan
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
    if write_outputs(run, json):
        print_run(run, output_console())
    return 0


# ``simverify capture``.


def capture(
    *,
    gamma: int,
    tokens: int,
    out: Path,
    models: Literal["tiny-llama", "tiny-llama-deep"] | None = None,
    target: str | None = None,
    draft: str | None = None,
    prompts: Path | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    device: str = "cpu",
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    drafter: str | None = None,
    layer_parallel: str | None = None,
    no_calibration: bool = False,
    statistics: bool = False,
    max_bytes: int = 2_000_000_000,
    seed: int = 0,
    threads: int | None = None,
    quiet: bool = False,
) -> int:
    """Decode with two real models, and record drafts and logits to replay without the models.

    Parameters
    ----------
    gamma
        Draft length.
    tokens
        Number of tokens to emit, by token verification.
    out
        A new folder.
    models
        A bundled pair, instead of --target and --draft.
    target
        The target model: a folder or a name that Transformers loads.
    draft
        The draft model, also a folder or a name.
    prompts
        Prompts: JSONL, or a text file with one per paragraph.
    temperature
        Temperature that target and draft sample with.
    top_k
        Number of most likely tokens that sampling keeps; all by default.
    top_p
        Share of the probability that sampling keeps; all by default.
    device
        Device that the models run on.
    dtype
        Precision that the models compute in.
    drafter
        How drafts are made, as in compare: plain, easyspec, prompt-lookup or ngram.
    layer_parallel
        Layers per group of easyspec, 4 by default.
    no_calibration
        Leave the fuzzy entries of easyspec in the draft's cache.
    statistics
        Leave out the rows, which are large. Record sums for every rule without state.
        Only compare can replay them.
    max_bytes
        Largest size of the rows, in bytes.
    seed
        Seed of all draws.
    threads
        Number of torch threads; by default, all processors.
    quiet
        Show no progress on standard error.
    """
    if models is not None:
        if target is not None or draft is not None:
            raise UsageError("--models is the bundled pair: got --target or --draft too")
        target = "tiny-llama"
    from simverify.drafting.method import make_methods

    methods = make_methods(drafter, layer_parallel, calibration=not no_calibration)
    if len(methods) > 1:
        raise OptionError("{layer_parallel} is one number here: a trace is drafted in one way")
    if methods[0].from_texts:
        if draft is not None:
            raise UsageError(
                f"--draft is not for --drafter {drafter}, which drafts from the texts "
                "alone: leave it out"
            )
    else:
        draft = models or draft
    if target is None or (draft is None and not methods[0].from_texts):
        missing = "target" if target is None else "draft"
        raise UsageError(f"--{missing} is missing: name two models, or --models tiny-llama")
    if prompts is None and target != "tiny-llama":
        raise UsageError("--prompts is missing: name a file of prompts, JSONL or text")
    from simverify.comparing.capture import capture as run_capture
    from simverify.models.transformer import BUNDLED, Sampling, load_pair, read_prompts, use_threads

    sampling = Sampling(temperature, top_k, top_p)
    texts = read_prompts(prompts or BUNDLED / "prompts.jsonl")
    with progress(quiet) as say:
        say(f"loading {target}" + (f" and {draft}" if draft else ""))
        use_threads(threads)
        pair = load_pair(target, draft, sampling=sampling, device=device, dtype=dtype)
        made = run_capture(
            pair,
            texts,
            out,
            gamma=gamma,
            tokens=tokens,
            seed=seed,
            statistics=statistics,
            max_bytes=max_bytes,
            prompts_file=None if prompts is None else str(prompts),
            method=methods[0],
            progress=say,
        )
    size = sum(shard.bytes for shard in made.shards)
    print(
        f"{out}: {made.kind} of {made.blocks:,} blocks of {made.name}, {size:,} bytes, "
        f"sha256 {made.sha256}"
    )
    return 0
