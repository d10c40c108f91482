"""The options of what is asked of servers, or read from their logs: triage, watch, matrix."""

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from simverify.options.option import (
    BUDGET,
    MODELS,
    SERVED,
    SUBJECT,
    Dtype,
    Options,
    PathName,
    Range,
    inherited,
    option,
)
from simverify.options.outputs import DeclaredLaw, Source
from simverify.options.parts import Compute, Law, Models, Server


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
