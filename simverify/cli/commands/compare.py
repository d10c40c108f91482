"""``simverify compare``."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    refuse,
)
from simverify.errors import UsageError

if TYPE_CHECKING:
    from simverify.results import CompareRun

DETECT = 0.01


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
    quiet
        No progress on standard error.
    """
    from simverify.models import DEFAULT_DISTANCE, REAL
    from simverify.reports.compare.terminal import print_comparison

    if gamma is None and trace is None:
        raise UsageError("--gamma requires an argument: the draft length, such as --gamma 8")
    check_output(json, report)
    if json is not None or report is not None:
        json_text_iv(models)  # the document holds the paths
    shared: dict[str, Any] = {
        "gamma": gamma,
        "cost_ratio": cost_ratio,
        "alpha": alpha,
        "seed": seed or 0,
    }
    real = {
        "target": target, "draft": draft, "prompts": prompts, "tokens": tokens, "lanes": lanes,
        "top-k": top_k, "top-p": top_p, "device": device, "dtype": dtype,
    }  # fmt: skip
    simulated = {
        "blocks": blocks, "calls": calls or None, "eos": eos, "draft-distance": draft_distance,
    }  # fmt: skip
    with progress(quiet) as say:
        shared |= {"progress": say}
        if trace is not None:
            own = {**real, **simulated, "temperature": temperature}
            refuse(own, "{} is not for a trace, which has its own")
            run = _trace(trace, verifiers, detect, shared | {"seed": seed})
        elif target is not None or draft is not None or models in REAL:
            refuse(simulated, "{} is not for real models")
            if target is None and draft is None:
                real["target"], real["draft"] = "tiny-llama", models
            chosen = "token,block,greedy" if verifiers is None else verifiers
            warmth = 1.0 if temperature is None else temperature
            run = _real(real, chosen, detect, warmth, threads, shared)
        else:
            refuse(
                real,
                "{} is not for simulated ones: name --target and --draft, or --models tiny-llama",
            )
            chosen = "token,block,greedy,match" if verifiers is None else verifiers
            run = _simulated(
                models, chosen, shared, blocks=blocks, calls=calls, eos=eos, threads=threads,
                detect=DETECT if detect is None else detect,
                temperature=1.0 if temperature is None else temperature,
                distance=DEFAULT_DISTANCE if draft_distance is None else draft_distance,
            )  # fmt: skip
    if deliver(run, json, report):
        print_comparison(run, output_console())
    return EXIT_CODES[run.verdict]


def _simulated(models: str, verifiers: str, shared: Any, **options: Any) -> "CompareRun":
    from simverify.comparing.comparison import compare as run_comparison

    names = _names("--models", models), _names("--verifiers", verifiers)
    gc.freeze()  # or full collections go through all that was imported, half a second in all
    try:
        return run_comparison(*names, **(shared | options))
    finally:
        gc.unfreeze()


def _real(
    given: dict[str, Any],
    verifiers: str,
    detect: float | None,
    temperature: float,
    threads: int | None,
    shared: Any,
) -> "CompareRun":
    missing = [name for name in ("target", "draft") if given[name] is None]
    if missing:
        raise UsageError(f"--{missing[0]} is missing: real models are a target and a draft")
    bundled = given["target"] == "tiny-llama"
    if given["prompts"] is None and not bundled:
        raise UsageError("--prompts is missing: name a file of prompts, JSONL or text")
    from simverify.comparing.real.pair import compare_pair
    from simverify.comparing.real.pair_rows import DETECT
    from simverify.models.real.prompts import read_prompts
    from simverify.models.real.sampling import Sampling
    from simverify.models.real.transformer import BUNDLED, load_pair, use_threads
    from simverify.simulators.decoding.job import LANES

    sampling = Sampling(temperature, given["top-k"], given["top-p"])
    texts = read_prompts(given["prompts"] or BUNDLED / "prompts.jsonl")
    names = _names("--verifiers", verifiers)
    use_threads(threads)
    pair = load_pair(
        given["target"], given["draft"], sampling=sampling, device=given["device"] or "cpu",
        dtype=given["dtype"] or "float32",
    )  # fmt: skip
    return compare_pair(
        pair, texts, names, tokens=given["tokens"], detect=DETECT if detect is None else detect,
        lanes=LANES if given["lanes"] is None else given["lanes"],
        prompts_file=None if given["prompts"] is None else str(given["prompts"]), **shared,
    )  # fmt: skip


def _trace(
    folder: Path, verifiers: str | None, detect: float | None, shared: Any
) -> "CompareRun":  # fmt: skip
    from simverify.comparing.real.pair_rows import DETECT
    from simverify.comparing.real.trace import compare_trace
    from simverify.simulators.decoding.replay_rules import STATELESS

    names = STATELESS if verifiers is None else _names("--verifiers", verifiers)
    return compare_trace(folder, names, detect=DETECT if detect is None else detect, **shared)


def _names(option: str, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not any(names):
        raise UsageError(f"{option} is {text!r}, which leaves nothing to compare: name one or more")
    if not all(names):
        raise UsageError(f"{option} is {text!r}: expected a name before and after every comma")
    return names
