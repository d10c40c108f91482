"""The options of served engines: audits of output, two engines, triage, watch, matrix."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, get_args

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
        "Tokens that another engine emitted: a JSONL file, one request per line, with prompt and "
        "tokens (ids) or text.",
        OTHERS,
    )
    _: KW_ONLY
    endpoint: str | None = option(
        "A server that speaks /v1/completions, such as http://localhost:8000.", OTHERS
    )


@dataclass(frozen=True, kw_only=True)
class _Judged(Models, Source):
    tokens: int | None = option(
        "Number of emitted tokens to judge, fixed beforehand; by default, as many as the promised "
        "power needs.",
        BUDGET,
    )


@dataclass(frozen=True, kw_only=True)
class DeclaredLaw(Options):
    """What an engine was asked for beside temperature, top-k and top-p."""

    min_p: float | None = option(
        "Keep tokens whose probability is at least this fraction of the largest.", SERVED
    )
    typical_p: float | None = option(
        "Keep the tokens with the most typical surprise, up to this share of the probability.",
        SERVED,
    )
    repetition_penalty: float | None = option(
        "Divide the scores of tokens in the prompt or the answer by this.", SERVED
    )
    presence_penalty: float | None = option(
        "Subtract this from the scores of tokens in the answer.", SERVED
    )
    frequency_penalty: float | None = option(
        "Subtract this from a token's score for each time that the answer contains it.", SERVED
    )
    logit_bias: Mapping[int, float] | str | None = option(
        'Values to add to the scores of tokens, as JSON such as {"5": -100}.', SERVED
    )
    bad_words: Sequence[str | Sequence[int]] | str | None = option(
        'Texts or token ids that are never emitted, as JSON such as ["word", [5, 6]].', SERVED
    )
    min_tokens: int | None = option("Number of tokens to emit before a request may end.", SERVED)
    order: str | None = option(
        "Order in which the parameters are applied: transformers (the default), vllm, sglang, "
        "llamacpp, mlx-lm, or a list of parameters, such as top-p,temperature.",
        SERVED,
    )
    mask: str | Callable[..., Any] | None = option(
        "Function that returns the token ids that may come next, as path/file.py:attr. It gets "
        "the ids of the prompt and of the answer so far.",
        SERVED,
    )
    extra_body: Mapping[str, Any] | str | None = inherited(Server, "extra_body")


@dataclass(frozen=True, kw_only=True)
class _Asked(Options):
    concurrency: int | None = option(
        "Server: requests in flight at once, 8 by default. When one is answered, the next is sent.",
        SERVED,
    )
    max_tokens_total: int | None = option(
        "Server: total number of tokens that it may emit. If they run out first, the run is "
        "INCONCLUSIVE.",
        SERVED,
    )
    timeout: float | None = inherited(Server, "timeout")
    samples: int | None = option(
        "Server: maximum number of completions per prompt; by default, as many as the judged "
        "tokens need.",
        SERVED,
    )
    max_tokens: int | None = inherited(Server, "max_tokens")
    served_model: str | None = inherited(Server, "served_model")
    keep: PathName | None = option(
        "Server: write every answer to this file, which --outputs can read. If an earlier run "
        "began the file, this run continues it.",
        SERVED,
    )
    row_tolerance: float | None = option(
        "Row tolerance: mean TV allowed between the engine's rows and the rescored ones; by "
        "default, what computing rows again shows.",
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
        "A proxy for the engine's draft, which makes more deviations visible.", MODELS
    )
    counters: PathName | None = option(
        "The engine's own counters of drafts, read after its answers: a metrics page of vLLM or "
        "SGLang. With --draft, which must then be the engine's own, the first drafts are held "
        "against the optimum.",
        SERVED,
    )
    counters_before: PathName | None = option(
        "The same page, read before the first request; by default, the counters began at 0.",
        SERVED,
    )
    alpha: float = inherited(Sizes, "alpha", 1e-6)
    detect: float | None = option(
        "Deviation (mean one-token TV) to detect with power .9; .04 by default.", BUDGET, DETECT
    )
    seed: int = inherited(Sizes, "seed", 0)


DRAFTED = Range(low=1, high=16)
Speculation = Literal["draft", "lookup", "none"]
LocalEngineName = Literal[
    "openvino-genai",
    "onnxruntime-genai",
    "ctranslate2",
    "node-llama-cpp",
    "mistralrs",
    "transformers-generate-server",
    "vllm-server",
    "sglang-server",
    "llama-server",
]
LOCAL_ENGINES: tuple[str, ...] = get_args(LocalEngineName)
"""Engines that an audit starts, asks and stops."""


@dataclass(frozen=True)
class EngineOptions(DeclaredLaw, _Asked, Compute, Law, Models):
    """Of an engine that is started here, on the bundled pair or on models of its own format."""

    title: ClassVar[str] = "an engine that is started here"

    rule: str = option("The engine: " + ", ".join(LOCAL_ENGINES) + ".", SUBJECT, default="")
    _: KW_ONLY
    model: PathName | None = option(
        "Engine that is started: its target, in its own format. --target is then the same model "
        "for Transformers. By default, the bundled pair is written for it.",
        OTHERS,
    )
    draft: str | None = option("The engine's draft, in its own format, with --model.", MODELS)
    speculation: Speculation | None = option(
        "Engine that is started: how it drafts. By default with a draft model, if it can.", OTHERS
    )
    own_seed: bool = option(
        "Engine that is started: leave seeds to its default, which may be one for all requests. "
        "Otherwise each request gets its own.",
        OTHERS,
        default=False,
    )
    gamma: int = option("Draft length, 1 to 16.", OTHERS, DRAFTED, default=4)
    tokens: int | None = inherited(OutputOptions, "tokens")
    target: str | None = inherited(OutputOptions, "target")
    alpha: float = inherited(Sizes, "alpha", 1e-6)
    detect: float | None = inherited(OutputOptions, "detect")
    seed: int = inherited(Sizes, "seed", 0)

    @classmethod
    def is_asked_for(cls, given: Mapping[str, Any]) -> bool:
        """Tell whether the engine that is named is one that is started here."""
        return given.get("rule") in LOCAL_ENGINES


@dataclass(frozen=True, kw_only=True)
class _AskedOfBoth(Options):
    prompts: PathName | None = inherited(Models, "prompts")
    repeats: int | None = option(
        "Two servers: how often each prompt is sent to each server. By default, a few prompts are "
        "chosen and sent as often as the power needs.",
        SERVED,
    )
    max_tokens: int | None = inherited(Server, "max_tokens")
    served_model: str | None = inherited(Server, "served_model")
    against_model: str | None = option(
        "Name of the model at --against; by default, the first that the server lists.", SERVED
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
        "Deviation (mean TV of an answer's first two tokens) to detect with power .9; .1 by "
        "default.",
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
        "Compare with another server (with --endpoint) or another file (with --outputs) instead "
        "of a target.",
        OTHERS,
    )


@dataclass(frozen=True)
class TwoEngineOptions(_AskedOfBoth):
    """As :class:`AgainstOptions`, for Python: each of the two is a server or a file."""

    first: PathName = option(
        "Address of a server, or a JSONL file of answers.", SUBJECT, default=""
    )
    second: PathName = option("The other server or file.", SUBJECT, default="")


@dataclass(frozen=True, kw_only=True)
class _Followed(Server, Compute, Models):
    """The target that an engine should follow, and how a server is asked."""

    dtype: Dtype | None = option(
        "Precision that the engine computes in; of two engines, the coarser one.", MODELS
    )
    prompts: PathName | None = option(
        "Server: prompts, as JSONL or a text file with one per paragraph.", SERVED
    )


@dataclass(frozen=True)
class TriageOptions(_Followed):
    """Of a triage of two logs of greedy answers."""

    a: PathName = option(
        "A JSONL file, one request per line, with prompt and tokens (ids) or text; or the address "
        "of a server that speaks /v1/completions, which is asked at temperature 0.",
        SUBJECT,
        verbatim=True,
        default="",
    )
    b: PathName = option("The other file or server.", SUBJECT, verbatim=True, default="")
    _: KW_ONLY
    keep: PathName | None = option(
        "Folder for the answers of servers, a.jsonl and b.jsonl. If an earlier run began them, "
        "this run continues them.",
        SERVED,
    )


@dataclass(frozen=True, kw_only=True)
class WatchOptions(_Followed, Source):
    """Of a watch over a log or a server."""

    outputs: PathName | None = option(
        "A growing log: JSONL, one request per line, with prompt and tokens (ids).", SUBJECT
    )
    endpoint: str | None = option(
        "Instead of a log, a server that speaks /v1/completions. It is sent the prompts in turn.",
        SUBJECT,
    )
    state: PathName | None = option(
        "Folder for the state of the watch. The same command continues from it. One folder holds "
        "one monitoring period.",
        SUBJECT,
    )
    every: float | None = option(
        "Seconds between looks at the log (1 by default) or between requests (10 by default).",
        BUDGET,
        Range(above=0, below=math.inf, words="seconds, above 0"),
    )
    once: bool = option(
        "Stop at the end of the log, or when each prompt was sent once.", BUDGET, default=False
    )
    stay: bool = option("Keep running after an alarm, so that the metrics stay up.", default=False)
    metrics: str | None = option("Serve metrics for Prometheus at PORT or HOST:PORT.")
    temperature: float | None = inherited(Law, "temperature")
    top_k: int | None = inherited(Law, "top_k")
    top_p: float | None = inherited(Law, "top_p")
    alpha: float = option(
        "Probability of ever raising an alarm when nothing is wrong.", BUDGET, default=1e-6
    )
    detect: float = option(
        "Deviation (TV) for which the detection delay is reported.", BUDGET, default=0.05
    )
    weights: int = option(
        "Also score one request in N with weights rounded to few bits, in each of 14 formats. "
        "Nothing else detects Q4_0 and similar formats. 0 turns this off.",
        default=0,
    )
    seed: int = option("Seed of the randomised PITs.", BUDGET, default=0)


@dataclass(frozen=True)
class MatrixOptions(Options):
    """Of a matrix of a server's parameters."""

    endpoint: str | None = option(
        "A server that speaks /v1/completions, such as http://localhost:8000.", SUBJECT
    )
    _: KW_ONLY
    target: str | None = option(
        "The model that the server runs: a folder or a name that Transformers loads, or "
        "tiny-llama.",
        SUBJECT,
    )
    draft: str | None = option(
        "The engine's draft, or a similar model. It reveals parameters that act on one side alone.",
        MODELS,
    )
    prompts: PathName | None = option(
        "Prompts or conversations to send: JSONL, or a text file with one per paragraph. By "
        "default, tiny-llama uses its own.",
        SERVED,
    )
    cells: str | None = option(
        "Cells to test, comma-separated, such as top-k,seed; all by default.", SUBJECT
    )
    tokens: int = option("Emitted tokens per cell.", BUDGET, default=2048)
    max_tokens: int = option("Token limit of one completion.", SERVED, default=64)
    served_model: str | None = inherited(Server, "served_model")
    keep: PathName | None = option(
        "Folder for the answers of each cell. If an earlier run began it, this run continues it.",
        SERVED,
    )
    extra_body: Mapping[str, Any] | str | None = inherited(Server, "extra_body")
    timeout: float | None = inherited(Server, "timeout")
    order: str | None = inherited(DeclaredLaw, "order")
    mask: str | Callable[..., Any] | None = option(
        "Test structured output in a cell of its own. Name a function, path/file.py:attr, that "
        "gets the ids of the prompt and of the answer so far and returns the ids that may come "
        "next.",
        SERVED,
    )
    mask_body: Mapping[str, Any] | str | None = option(
        "Request fields that ask the server for the structured output, as JSON.", SERVED
    )
    gamma: int | None = option("The engine's draft length; by default, several are tried.", SERVED)
    row_tolerance: float | None = option(
        "Row tolerance: mean TV allowed between the engine's rows and the rescored ones; by "
        "default, what the precision can change.",
        SERVED,
        Range(low=0, below=1),
        old="ball",
    )
    alpha: float = option("False-alarm rate of all cells together.", BUDGET, default=1e-6)
    device: str | None = inherited(Compute, "device")
    dtype: Dtype | None = inherited(Compute, "dtype")
    threads: int | None = inherited(Compute, "threads")
    seed: int = option("Seed of the randomised tests.", BUDGET, default=0)
