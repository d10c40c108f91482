"""The options of ``triage`` and ``watch``: names, types, defaults, explanations."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from simverify.emitted import Endpoint


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The target that an engine should follow, and how a server is asked; None: not given.

    Attributes
    ----------
    target
        The model whose law the engine should follow: a folder or a name that Transformers
        loads, or tiny-llama, which ships.
    draft
        The engine's draft, or a model near it, which makes more visible.
    device
        Where the target computes; cpu by default.
    dtype
        The precision that the engine computes in, or the coarser one of two.
    threads
        Threads of torch.
    prompts
        Of a server: prompts, JSONL or a text file with one a paragraph.
    max_tokens
        Of a server: limit of one completion, 128 if not given.
    served_model
        Of a server: name of the model there; by default the first that it lists.
    extra_body
        Of a server: fields of every request beside these, JSON.
    timeout
        Of a server: seconds that one answer may take, 300 if not given.
    """

    target: str | None = None
    draft: str | None = None
    device: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    threads: int | None = None
    prompts: Path | None = None
    max_tokens: int | None = None
    served_model: str | None = None
    extra_body: str | None = None
    timeout: float | None = None


@dataclass(frozen=True, kw_only=True)
class TriageOptions(TargetOptions):
    """Options of a triage; None: not given.

    Attributes
    ----------
    keep
        Folder for the answers of servers, a.jsonl and b.jsonl; what an earlier run began is
        gone on with.
    """

    keep: Path | None = None


@dataclass(frozen=True, kw_only=True)
class WatchOptions(TargetOptions):
    """Options of a watch; None: not given.

    Attributes
    ----------
    outputs
        A log that grows: JSONL with prompt and tokens (ids), a request a line.
    endpoint
        Instead: a server that speaks /v1/completions, which is asked the prompts in turn.
    state
        Folder that keeps what was seen: the same command goes on from it. One folder is one life.
    every
        Seconds between looks at the log, 1 if not given, or between requests, 10 if not given.
    once
        End where the log ends, or when each prompt was asked once.
    stay
        Go on after an alarm: the metrics stay up.
    metrics
        Serve numbers for Prometheus at PORT or HOST:PORT.
    temperature
        Of the law that the engine was asked for; 1 if not given.
    top_k
        Tokens that this law keeps; all by default.
    top_p
        Share of its probability that is kept; all by default.
    alpha
        Probability that there is ever an alarm where nothing is wrong.
    detect
        Deviation (TV) whose delay is told.
    weights
        Score one request in N with weights rounded to few bits, too, in each of 14 formats: tells
        Q4_0 and others, which nothing else does. Not by default.
    seed
        Of the randomised PITs.
    """

    outputs: Path | None = None
    endpoint: str | None = None
    state: Path | None = None
    every: float | None = None
    once: bool = False
    stay: bool = False
    metrics: str | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    alpha: float = 1e-6
    detect: float = 0.05
    weights: int = 0
    seed: int = 0


def extra_body_iv(text: str | None) -> dict[str, Any]:
    """Return the fields of an ``extra_body``; ``UsageError`` for what is no object."""
    from simverify.emitted.law.words import object_iv

    found: dict[str, Any] = object_iv(text or "{}", "extra-body", dict)
    return found


def server_iv(
    address: str, model: str | None, limit: int, extra: dict[str, Any], timeout: float | None
) -> "Endpoint":
    """Return a server as options name it; ``UsageError`` for an address that is none."""
    from simverify.emitted import Endpoint

    seconds = Endpoint.timeout if timeout is None else timeout
    return Endpoint(address, model, limit, extra, seconds)
