"""Options that several modes share: rates, sizes, a pair of real models, the law of a request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from simverify.checks import MAX_SECONDS, MIN_ALPHA, MIN_DETECT
from simverify.options.option import (
    BUDGET,
    INSTANCES,
    MODELS,
    SEED,
    SERVED,
    SUBJECT,
    Dtype,
    Options,
    PathName,
    Range,
    option,
)

DrafterName = Literal["plain", "easyspec", "prompt-lookup", "ngram"]
DRAFTERS: tuple[str, ...] = get_args(DrafterName)
"""Ways in which real models draft."""

MAX_GAMMA, MAX_VOCAB = 4, 12
"""The largest of small instances, whose paths are followed."""

GAMMA = Range(low=1, high=MAX_GAMMA)
VOCAB = Range(low=2, high=MAX_VOCAB)
ALPHA = Range(low=MIN_ALPHA, below=1)
DETECT = Range(low=MIN_DETECT, below=1)
SECONDS = Range(above=0, high=MAX_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Sizes(Options):
    """The instances of an audit, its budget and its error rates."""

    seed: int = option(0, "Seed of all draws.", BUDGET, SEED)
    gamma: int = option(4, "Largest draft length of the instances, 1 to 4.", INSTANCES, GAMMA)
    vocab: int = option(12, "Largest vocabulary of the instances, 2 to 12.", INSTANCES, VOCAB)
    max_paths: int | None = option(
        None, "Budget of the exact tier; by the code if not given.", BUDGET, Range(low=1)
    )
    max_samples: int = option(2_000_000, "Budget of the sampled tier.", BUDGET, Range(low=1))
    seconds: float = option(
        60.0,
        "Limit of each tier, which only aborts, to INCONCLUSIVE. Processor seconds in the exact "
        "tier (the wall clock where the code waits), the wall clock in the sampled one.",
        BUDGET,
        SECONDS,
    )
    alpha: float = option(1e-6, "False-alarm rate of the tests.", BUDGET, ALPHA)
    detect: float | None = option(
        None,
        "Deviation (mean one-token TV) that the sampled tier finds with power .9: .01, or up to "
        ".05 where slow code leaves no time for it.",
        BUDGET,
        DETECT,
    )


@dataclass(frozen=True, kw_only=True)
class Models(Options):
    """A pair of real models, and prompts."""

    target: str | None = option(
        None,
        "The target model: a folder or a name that Transformers loads, or tiny-llama, which ships.",
        SUBJECT,
    )
    draft: str | None = option(None, "The draft model; of tiny-llama its own if not given.", MODELS)
    prompts: PathName | None = option(
        None,
        "Prompts, JSONL or a text file with one a paragraph; of tiny-llama its own if not given.",
        MODELS,
    )


@dataclass(frozen=True, kw_only=True)
class Law(Options):
    """The law that models sample, or that an engine was asked for."""

    temperature: float | None = option(
        None, "Of the law that models sample, or an engine was asked for; 1 if not given.", MODELS
    )
    top_k: int | None = option(None, "Tokens that this law keeps; all by default.", MODELS)
    top_p: float | None = option(
        None, "Share of its probability that is kept; all by default.", MODELS
    )


@dataclass(frozen=True, kw_only=True)
class Compute(Options):
    """Where real models compute, and in what."""

    device: str | None = option(None, "Where real models compute; cpu by default.", MODELS)
    dtype: Dtype | None = option(None, "In what real models compute; float32 by default.", MODELS)
    threads: int | None = option(None, "Threads of torch.", MODELS)


@dataclass(frozen=True, kw_only=True)
class Drafting(Options):
    """How real models draft."""

    drafter: str | None = option(
        None,
        "How drafts are made: plain, token by token with the draft model (the default); easyspec, "
        "with its layers in groups; prompt-lookup or ngram, from the texts alone.",
        MODELS,
    )
    layer_parallel: int | str | None = option(
        None, "Layers a group of easyspec, 4 by default.", MODELS
    )
    no_calibration: bool = option(
        False, "Leave the fuzzy entries of easyspec in the draft's cache.", MODELS
    )


@dataclass(frozen=True, kw_only=True)
class Server(Options):
    """What a server is asked, beside its prompts."""

    max_tokens: int | None = option(
        None, "Server: limit of one completion, 128 if not given.", SERVED
    )
    served_model: str | None = option(
        None, "Server: name of the model there; by default the first that it lists.", SERVED
    )
    extra_body: Mapping[str, Any] | str | None = option(
        None, "Server: fields of every request beside these, JSON.", SERVED
    )
    timeout: float | None = option(
        None,
        "Server: seconds that one answer may take, 300 if not given; a longer one ends the run.",
        SERVED,
    )
