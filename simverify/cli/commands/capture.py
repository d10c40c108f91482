"""``simverify capture``."""

from pathlib import Path
from typing import Literal

from simverify.cli.common import progress
from simverify.errors import OptionError, UsageError


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
    """Decode with two real models and record drafts and logits, to be replayed without them.

    Parameters
    ----------
    gamma
        Draft length.
    tokens
        Tokens that are emitted meanwhile, by token verification.
    out
        A new folder.
    models
        The bundled pair; or name --target and --draft.
    target, draft
        Folders or names that Transformers loads.
    prompts
        Prompts, JSONL or a text file with one a paragraph.
    temperature, top_k, top_p
        The law that is sampled, of target and draft.
    device, dtype
        Where and in what the models compute.
    drafter
        How drafts are made, as in compare: plain, easyspec, prompt-lookup or ngram.
    layer_parallel
        Layers a group of easyspec, 4 by default.
    no_calibration
        Leave the fuzzy entries of easyspec in the draft's cache.
    statistics
        No rows, which are large: sums for compare alone, of every rule without state.
    max_bytes
        Most bytes of rows.
    seed
        Seed of all draws.
    threads
        Threads of torch; all processors by default.
    quiet
        No progress on standard error.
    """
    if models is not None:
        if target is not None or draft is not None:
            raise UsageError("--models is the bundled pair: got --target or --draft too")
        target = "tiny-llama"
    from simverify.drafting.method import methods_of

    methods = methods_of(drafter, layer_parallel, calibration=not no_calibration)
    if len(methods) > 1:
        raise OptionError("{layer_parallel} is one number here: a trace is drafted in one way")
    if methods[0].from_texts:
        if draft is not None:
            raise UsageError(f"--draft is not for --drafter {drafter}, which drafts from the texts "
                             "alone: leave it out")  # fmt: skip
    else:
        draft = models or draft
    if target is None or (draft is None and not methods[0].from_texts):
        missing = "target" if target is None else "draft"
        raise UsageError(f"--{missing} is missing: name two models, or --models tiny-llama")
    if prompts is None and target != "tiny-llama":
        raise UsageError("--prompts is missing: name a file of prompts, JSONL or text")
    from simverify.capture import capture as record
    from simverify.models.real.prompts import read_prompts
    from simverify.models.real.sampling import Sampling
    from simverify.models.real.transformer import BUNDLED, load_pair, use_threads

    sampling = Sampling(temperature, top_k, top_p)
    texts = read_prompts(prompts or BUNDLED / "prompts.jsonl")
    with progress(quiet) as say:
        say(f"loading {target}" + (f" and {draft}" if draft else ""))
        use_threads(threads)
        pair = load_pair(target, draft, sampling=sampling, device=device, dtype=dtype)
        made = record(
            pair, texts, out, gamma=gamma, tokens=tokens, seed=seed, statistics=statistics,
            max_bytes=max_bytes, prompts_file=None if prompts is None else str(prompts),
            method=methods[0], progress=say,
        )  # fmt: skip
    size = sum(shard.bytes for shard in made.shards)
    print(
        f"{out}: {made.kind} of {made.blocks:,} blocks of {made.name}, {size:,} bytes, "
        f"sha256 {made.sha256}"
    )
    return 0
