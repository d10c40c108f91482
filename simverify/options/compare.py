"""The options of a comparison: on simulated models, on a pair of real ones, on a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from simverify.checks import MAX_COST_RATIO, MAX_GAMMA
from simverify.options.option import (
    ALPHA,
    BUDGET,
    COMPARED,
    DETECT,
    MODELS,
    OUTPUT,
    SEED,
    SIMULATED,
    SPEED,
    Code,
    Compute,
    Drafting,
    Law,
    Models,
    Options,
    PathName,
    Range,
    inherited,
    option,
)

BUNDLED_PAIRS = ("tiny-llama", "tiny-llama-deep")
"""Names that stand alone among the models for a pair of real ones."""


@dataclass(frozen=True)
class _Compared(Options):
    models: Sequence[Any] | None = option(
        "Models, or their names, comma-separated on the command line: toy, compact, markov-V for "
        "any V, ngram, or files (.json, .npz). Or one real pair: tiny-llama, or tiny-llama-deep "
        "with a draft of twelve layers. By default toy, compact, markov-64 and ngram; on draft "
        "trees the first three.",
        COMPARED,
    )
    verifiers: Sequence[Code] | None = option(
        "Names of built-in verifiers, comma-separated on the command line, or your own rules as "
        "audit takes them. By default token, block, greedy and match; for real models the first "
        "three; on a trace those of the four without state; on draft trees every rule that is "
        "lossless there. simverify verifiers lists the names.",
        COMPARED,
    )
    _: KW_ONLY
    gamma: int | None = option(
        "Draft length: tokens proposed per target call. A trace has its own. With a tree, the "
        "largest depth that the tree may have.",
        COMPARED,
        Range(low=1, high=MAX_GAMMA),
    )
    cost_ratio: float = option(
        "Time of one draft token divided by the time of one target call.",
        SPEED,
        Range(low=0, high=MAX_COST_RATIO),
        default=0.1,
    )
    alpha: float = option("False-alarm rate of the whole run.", BUDGET, ALPHA, default=1e-6)
    detect: float | None = option(
        "Deviation (mean one-token TV) to detect with power .9; with less power, the verdict is "
        "INCONCLUSIVE. By default .01, or .04 for real models.",
        BUDGET,
        DETECT,
    )
    seed: int | None = option(
        "Seed of the run. The same seed gives the same results with any number of threads. By "
        "default 0, or the seed of the trace.",
        BUDGET,
        SEED,
    )
    threads: int | None = option("Number of threads; by default, all processors.", BUDGET)


@dataclass(frozen=True, kw_only=True)
class _SeveralDrafts(Options):
    drafts: int | None = option(
        "Number of independent drafts of gamma tokens, for rules that judge several; one by "
        "default.",
        COMPARED,
    )
    tree: PathName | None = option(
        "A draft tree, instead of independent drafts: children per level, such as 3,2,1, or a "
        'JSON file {"parents": [-1, 0, ...]}.',
        COMPARED,
        verbatim=True,
    )
    scheme: str | None = option(
        "How the siblings of the tree are drafted: iid (the default), without-replacement, top-k, "
        "argmax-first or last-sampled.",
        COMPARED,
    )


@dataclass(frozen=True)
class CompareOptions(_SeveralDrafts, _Compared):
    """On simulated models."""

    title: ClassVar[str] = "simulated models"

    _: KW_ONLY
    blocks: int | None = option(
        "Simulated blocks per verifier; by default, as many as the promised power needs.", BUDGET
    )
    calls: int = option(
        "Also report the tokens emitted after 1 to this many calls.", SIMULATED, default=0
    )
    eos: int | None = option("Id of the token that ends a generation, for --calls.", SIMULATED)
    batch_size: int | None = option(
        "Sequences decoded at once, for the predicted speed-up; 1 by default.", SPEED
    )
    free_rows: float | None = option(
        "Rows that a call computes while it reads its weights. More rows than that cost time. By "
        "default, all rows are free; an A100 has about 150, fewer with long texts.",
        SPEED,
    )
    draft_distance: float | None = option(
        "markov-V: share of noise in the draft's rows, 0 to 1; .4 by default.", SIMULATED
    )
    temperature: float | None = option(
        "markov-V and real models: temperature of target and draft, 1 by default; 0 is one-hot.",
        COMPARED,
    )


@dataclass(frozen=True, kw_only=True)
class RealPairOptions(_SeveralDrafts, Drafting, Compute, Law, Models, _Compared):
    """On a pair of real models."""

    title: ClassVar[str] = "real models ({target} and {draft}, or {models} tiny-llama)"
    chosen_by: ClassVar[tuple[str, ...]] = ("target", "draft")

    target: str | None = option(
        "Real models: a folder or a name that Transformers loads.", COMPARED
    )
    draft: str | None = option(
        "The draft model, also a folder or a name; leave it out if drafts come from the texts "
        "alone.",
        COMPARED,
    )
    prompts: PathName | None = option(
        "Prompts: JSONL, or a text file with one per paragraph.", MODELS
    )
    tokens: int | None = option(
        "Emitted tokens per verifier; by default, as many as the promised power needs.", MODELS
    )
    lanes: int | None = option(
        "Requests decoded at once, 32 by default; fewer take less memory.", MODELS
    )
    temperature: float | None = inherited(CompareOptions, "temperature")
    layer_parallel: int | str | None = option(
        "Layers per group of easyspec, 4 by default, or a list to compare, such as 1,2,4.", MODELS
    )
    threads: int | None = inherited(_Compared, "threads")

    @classmethod
    def is_asked_for(cls, given: Mapping[str, Any]) -> bool:
        """Tell whether the options name real models, or one bundled pair of them."""
        models = given.get("models")
        named = isinstance(models, Sequence) and len(models) == 1 and models[0] in BUNDLED_PAIRS
        return named or super().is_asked_for(given)


@dataclass(frozen=True, kw_only=True)
class TracedOptions(_Compared):
    """On a recorded trace."""

    title: ClassVar[str] = "a trace ({trace})"
    chosen_by: ClassVar[tuple[str, ...]] = ("trace",)

    trace: PathName | None = option(
        "Replay this trace, which simverify capture wrote, instead of models.", COMPARED
    )


NO_GAMMA = "{gamma} requires an argument: the draft length, such as {gamma} 8"

COMPARISONS: tuple[type[Options], ...] = (CompareOptions, TracedOptions, RealPairOptions)
"""Comparisons, the usual one first: an option of a later one chooses it."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Options):
    """Of a plan: what a claim costs."""

    alpha: float = inherited(_Compared, "alpha", 1e-6)
    power: float = option("Probability of finding the deviation.", BUDGET, default=0.9)
    deviation: float | None = option(
        "Deviation to detect (mean one-token TV); .01 if no budget is given.", BUDGET
    )
    vocab: int = option("Vocabulary size.", COMPARED, default=64)
    gamma: int = option("Draft length: tokens proposed per target call.", COMPARED, default=8)
    seconds: float | None = option(
        "A budget in seconds on this machine, instead of a deviation.", BUDGET
    )
    samples: int | None = option("A budget in emitted tokens, instead of a deviation.", BUDGET)
    threads: int | None = inherited(_Compared, "threads")


@dataclass(frozen=True, kw_only=True)
class CaptureOptions(Drafting, Compute, Law, Options):
    """Of a recording of two real models."""

    gamma: int | None = option("Draft length; required.", COMPARED)
    tokens: int | None = option(
        "Number of tokens to emit, by token verification; required.", BUDGET
    )
    out: PathName | None = option("A new folder; required.", OUTPUT)
    models: Literal["tiny-llama", "tiny-llama-deep"] | None = option(
        "A bundled pair, instead of --target and --draft.", COMPARED
    )
    target: str | None = inherited(RealPairOptions, "target")
    draft: str | None = inherited(RealPairOptions, "draft")
    prompts: PathName | None = inherited(RealPairOptions, "prompts")
    temperature: float | None = option(
        "Temperature that target and draft sample with; 1 by default.", MODELS
    )
    statistics: bool = option(
        "Leave out the rows, which are large. Record sums for every rule without state. Only "
        "compare can replay them.",
        OUTPUT,
        default=False,
    )
    max_bytes: int = option("Largest size of the rows, in bytes.", OUTPUT, default=2_000_000_000)
    seed: int = inherited(_Compared, "seed", 0)
