"""The options of served engines: audits of output, two engines, triage, watch, matrix."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from simverify.options.option import (
    BUDGET,
    DETECT,
    MODELS,
    OTHERS,
    SERVED,
    SUBJECT,
    Compute,
    Dtype,
    Law,
    Models,
    Options,
    PathName,
    Range,
    Server,
    Sizes,
    inherited,
    option,
)

# Tokens that other engines emitted: judged by a target, or by each other.


@dataclass(frozen=True)
class Source(Options):
    """Where the tokens are: in a file, or on a server."""

    outputs: PathName | None = option(
        None,
        "Tokens that another engine emitted, a JSONL file with prompt, and "
        "tokens (ids) or text, a line.",
        OTHERS,
    )
    _: KW_ONLY
    endpoint: str | None = option(
        None,
        "A server that speaks /v1/completions, such as http://localhost:8000.",
        OTHERS,
    )


@dataclass(frozen=True, kw_only=True)
class _Judged(Models, Source):
    tokens: int | None = option(
        None,
        "Emitted tokens that are judged, fixed beforehand; by default what the promised power "
        "needs.",
        BUDGET,
    )


@dataclass(frozen=True, kw_only=True)
class DeclaredLaw(Options):
    """What an engine was asked for beside temperature, top-k and top-p."""

    min_p: float | None = option(
        None, "Keep what is at least so many times as likely as the likeliest.", SERVED
    )
    typical_p: float | None = option(
        None, "Keep the tokens of most typical surprise, up to this share.", SERVED
    )
    repetition_penalty: float | None = option(
        None, "Divides scores of what the prompt or the answer holds.", SERVED
    )
    presence_penalty: float | None = option(
        None, "Taken off the score of what the answer holds.", SERVED
    )
    frequency_penalty: float | None = option(
        None, "Taken off for each time that the answer holds it.", SERVED
    )
    logit_bias: Mapping[int, float] | str | None = option(
        None, 'Added to scores, JSON such as {"5": -100}.', SERVED
    )
    bad_words: Sequence[str | Sequence[int]] | str | None = option(
        None, 'Never written, JSON such as ["word", [5, 6]], texts or token ids.', SERVED
    )
    min_tokens: int | None = option(None, "So many come before the end of a request.", SERVED)
    order: str | None = option(
        None,
        "The order in which parameters act: transformers (the default), vllm, sglang, llamacpp, "
        "mlx-lm, or some of them, such as top-p,temperature.",
        SERVED,
    )
    mask: str | Callable[..., Any] | None = option(
        None,
        "A function that says which may come next, path/file.py:attr; it is given the ids of the "
        "prompt and of the answer so far.",
        SERVED,
    )
    extra_body: Mapping[str, Any] | str | None = inherited(Server, "extra_body")


@dataclass(frozen=True, kw_only=True)
class _Asked(Options):
    concurrency: int | None = option(
        None,
        "Server: requests under way at a time, 8 if not given; as one is answered the next is "
        "sent.",
        SERVED,
    )
    max_tokens_total: int | None = option(
        None,
        "Server: tokens that it may emit in all; the run is INCONCLUSIVE if they end first.",
        SERVED,
    )
    timeout: float | None = inherited(Server, "timeout")
    samples: int | None = option(
        None,
        "Server: completions of each prompt at most; by default until N tokens are there.",
        SERVED,
    )
    max_tokens: int | None = inherited(Server, "max_tokens")
    served_model: str | None = inherited(Server, "served_model")
    keep: PathName | None = option(
        None,
        "Server: write every answer to this file, as --outputs reads it; one that an earlier run "
        "began is gone on with.",
        SERVED,
    )
    row_tolerance: float | None = option(
        None,
        "TV of the engine's own rows from the rescored ones, on average; by default what computing "
        "rows again shows.",
        SERVED,
        Range(low=0, below=1),
        old="ball",
    )


@dataclass(frozen=True, kw_only=True)
class OutputOptions(DeclaredLaw, _Asked, Compute, Law, _Judged):
    """Of tokens that an engine emitted, judged by the target model."""

    title: ClassVar[str] = "tokens already emitted ({outputs} or {endpoint})"
    chosen_by: ClassVar[tuple[str, ...]] = ("outputs", "endpoint")

    target: str | None = inherited(Models, "target", group=OTHERS)
    draft: str | None = option(
        None,
        "A proxy for the engine's draft, which makes more deviations visible.",
        MODELS,
    )
    alpha: float = inherited(Sizes, "alpha", 1e-6)
    detect: float | None = option(
        None,
        "Deviation (mean one-token TV) found with power .9; .04 if not given.",
        BUDGET,
        DETECT,
    )
    seed: int = inherited(Sizes, "seed", 0)


@dataclass(frozen=True, kw_only=True)
class _AskedOfBoth(Options):
    prompts: PathName | None = inherited(Models, "prompts")
    repeats: int | None = option(
        None,
        "Two servers: how often each prompt is asked of each; by default a few are chosen, and "
        "asked as often as the power needs.",
        SERVED,
    )
    max_tokens: int | None = inherited(Server, "max_tokens")
    served_model: str | None = inherited(Server, "served_model")
    against_model: str | None = option(
        None, "Name of the model at --against; by default the first that it lists.", SERVED
    )
    keep: PathName | None = inherited(_Asked, "keep")
    concurrency: int | None = inherited(_Asked, "concurrency")
    timeout: float | None = inherited(Server, "timeout")
    extra_body: Mapping[str, Any] | str | None = inherited(Server, "extra_body")
    temperature: float | None = inherited(Law, "temperature")
    top_k: int | None = inherited(Law, "top_k")
    top_p: float | None = inherited(Law, "top_p")
    alpha: float = inherited(Sizes, "alpha", 1e-6)
    detect: float | None = option(
        None,
        "Mean TV of an answer's first two tokens, found with power .9; .1 if not given.",
        BUDGET,
        DETECT,
    )
    seed: int = inherited(Sizes, "seed", 0)


@dataclass(frozen=True, kw_only=True)
class AgainstOptions(_AskedOfBoth):
    """Of two servers, or two files of answers, against each other."""

    title: ClassVar[str] = "two engines ({against})"
    chosen_by: ClassVar[tuple[str, ...]] = ("against",)

    outputs: PathName | None = inherited(Source, "outputs")
    endpoint: str | None = inherited(Source, "endpoint")
    against: str | None = option(
        None,
        "No target: another server beside --endpoint, or another file beside --outputs.",
        OTHERS,
    )


@dataclass(frozen=True)
class TwoEngineOptions(_AskedOfBoth):
    """As :class:`AgainstOptions`, for Python: each of the two is a server or a file."""

    first: PathName = option("", "Address of a server, or a JSONL file of answers.", SUBJECT)
    second: PathName = option("", "Another such.", SUBJECT)


@dataclass(frozen=True, kw_only=True)
class _Followed(Models):
    """The target that an engine should follow, and how a server is asked."""

    device: str | None = inherited(Compute, "device")
    dtype: Dtype | None = option(
        None, "The precision that the engine computes in, or the coarser one of two.", MODELS
    )
    threads: int | None = inherited(Compute, "threads")
    prompts: PathName | None = option(
        None, "Of a server: prompts, JSONL or a text file with one a paragraph.", SERVED
    )
    max_tokens: int | None = inherited(Server, "max_tokens")
    served_model: str | None = inherited(Server, "served_model")
    extra_body: Mapping[str, Any] | str | None = inherited(Server, "extra_body")
    timeout: float | None = inherited(Server, "timeout")


@dataclass(frozen=True)
class TriageOptions(_Followed):
    """Of a triage of two logs of greedy answers."""

    a: PathName = option(
        "",
        "A JSONL file, a request a line with prompt, and tokens (ids) or text; or the address of "
        "a server that speaks /v1/completions, which is asked at temperature 0.",
        SUBJECT,
        verbatim=True,
    )
    b: PathName = option("", "Another such.", SUBJECT, verbatim=True)
    _: KW_ONLY
    keep: PathName | None = option(
        None,
        "Folder for the answers of servers, a.jsonl and b.jsonl; what an earlier run began is "
        "gone on with.",
        SERVED,
    )


@dataclass(frozen=True, kw_only=True)
class WatchOptions(_Followed, Source):
    """Of a watch over a log or a server."""

    outputs: PathName | None = option(
        None, "A log that grows: JSONL with prompt and tokens (ids), a request a line.", SUBJECT
    )
    endpoint: str | None = option(
        None,
        "Instead: a server that speaks /v1/completions, which is asked the prompts in turn.",
        SUBJECT,
    )
    state: PathName | None = option(
        None,
        "Folder that keeps what was seen: the same command goes on from it. One folder is one "
        "life.",
        SUBJECT,
    )
    every: float | None = option(
        None,
        "Seconds between looks at the log, 1 if not given, or between requests, 10 if not given.",
        BUDGET,
        Range(above=0, below=math.inf, words="seconds, above 0"),
    )
    once: bool = option(
        False, "End where the log ends, or when each prompt was asked once.", BUDGET
    )
    stay: bool = option(False, "Go on after an alarm: the metrics stay up.")
    metrics: str | None = option(None, "Serve numbers for Prometheus at PORT or HOST:PORT.")
    temperature: float | None = inherited(Law, "temperature")
    top_k: int | None = inherited(Law, "top_k")
    top_p: float | None = inherited(Law, "top_p")
    alpha: float = option(
        1e-6, "Probability that there is ever an alarm where nothing is wrong.", BUDGET
    )
    detect: float = option(0.05, "Deviation (TV) whose delay is told.", BUDGET)
    weights: int = option(
        0,
        "Score one request in N with weights rounded to few bits, too, in each of 14 formats: "
        "tells Q4_0 and others, which nothing else does. Not by default.",
    )
    seed: int = option(0, "Of the randomised PITs.", BUDGET)


@dataclass(frozen=True)
class MatrixOptions(Options):
    """Of a matrix of a server's parameters."""

    endpoint: str | None = option(
        None, "A server that speaks /v1/completions, such as http://localhost:8000.", SUBJECT
    )
    _: KW_ONLY
    target: str | None = option(
        None,
        "The model that it serves: a folder or a name that Transformers loads, or tiny-llama.",
        SUBJECT,
    )
    draft: str | None = option(
        None,
        "The engine's draft or a model near it, which shows parameters on one side alone.",
        MODELS,
    )
    prompts: PathName | None = option(
        None,
        "Prompts or conversations to send, JSONL or a text file with one a paragraph; of "
        "tiny-llama its own if not given.",
        SERVED,
    )
    cells: str | None = option(
        None,
        "Cells that are asked, comma-separated, such as top-k,seed; all if not given.",
        SUBJECT,
    )
    tokens: int = option(2048, "Emitted tokens of each cell.", BUDGET)
    max_tokens: int = option(64, "Limit of one completion.", SERVED)
    served_model: str | None = inherited(Server, "served_model")
    keep: PathName | None = option(
        None,
        "A folder for the answers of each cell; one that an earlier run began is gone on with.",
        SERVED,
    )
    extra_body: Mapping[str, Any] | str | None = inherited(Server, "extra_body")
    timeout: float | None = inherited(Server, "timeout")
    order: str | None = inherited(DeclaredLaw, "order")
    mask: str | Callable[..., Any] | None = option(
        None,
        "Structured output in a cell of its own: path/file.py:attr of a function that returns the "
        "ids that may come next, given those of the prompt and of the answer so far.",
        SERVED,
    )
    mask_body: Mapping[str, Any] | str | None = option(
        None, "Fields that ask the server for it, JSON.", SERVED
    )
    gamma: int | None = option(
        None, "The engine's draft length; several are tried if not given.", SERVED
    )
    row_tolerance: float | None = option(
        None,
        "TV of the engine's own rows from the rescored ones, on average; by default what the "
        "precision moves.",
        SERVED,
        Range(low=0, below=1),
        old="ball",
    )
    alpha: float = option(1e-6, "False-alarm rate of all cells together.", BUDGET)
    device: str | None = inherited(Compute, "device")
    dtype: Dtype | None = inherited(Compute, "dtype")
    threads: int | None = inherited(Compute, "threads")
    seed: int = option(0, "Seed of the randomised tests.", BUDGET)
