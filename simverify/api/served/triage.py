"""``simverify.triage``: why the greedy answers of two engines differ."""

import json
import shlex
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simverify.api.real import RealModels
from simverify.api.served.options import TriageOptions, extra_body_iv, server_iv
from simverify.api.ways import called_from_python
from simverify.errors import OptionError
from simverify.results import TriageRun

if TYPE_CHECKING:
    from simverify.emitted.reading.requests import Request
    from simverify.emitted.triage.reading import Answer
    from simverify.models.real.transformer import TransformerPair

Say = Callable[[str], None]

_OF_SERVERS = ("prompts", "max_tokens", "served_model", "extra_body", "timeout", "keep")


def triage(
    a: str | PathLike[str],
    b: str | PathLike[str],
    *,
    target: str,
    draft: str | None = None,
    device: str | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    threads: int | None = None,
    prompts: str | PathLike[str] | None = None,
    max_tokens: int | None = None,
    served_model: str | None = None,
    extra_body: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    keep: str | PathLike[str] | None = None,
    progress: Say | None = None,
) -> TriageRun:
    """Say why two logs of greedy answers differ: rounding, or which fault.

    Parameters
    ----------
    a, b
        JSONL files, a request a line with prompt, and tokens (ids) or text; or addresses of servers
        that speak /v1/completions, which are asked at temperature 0.
    target
        The model that both should follow.
    draft
        The engine's draft, or a model near it: more faults can be told.
    device, dtype, threads
        Where and in what the target computes. ``dtype``: the coarser precision of the two engines.
    prompts, max_tokens, served_model, extra_body, timeout, keep
        Of servers: prompts, tokens of one completion, the model's name, fields of every request
        beside these, seconds that one answer may take, folder for their answers.
    progress
        Receives a line when something begins that may take a while.

    Returns
    -------
    TriageRun
        ``run.verdict``, ``run.counts``, ``run.cases``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A missing file, answers that were not greedy, no request in both logs.
    SimverifyError
        A model that does not load, a server that does not answer.
    """
    options = TriageOptions(
        target=target, draft=draft, device=device, dtype=dtype, threads=threads,
        prompts=None if prompts is None else Path(prompts), max_tokens=max_tokens,
        served_model=served_model, keep=None if keep is None else Path(keep),
        extra_body=None if extra_body is None else json.dumps(extra_body), timeout=timeout,
    )  # fmt: skip
    with called_from_python():
        options_iv(str(a), str(b), options)
        return run_triage(str(a), str(b), options, progress or (lambda _line: None))


def options_iv(a: str, b: str, options: TriageOptions) -> None:
    """Raise ``UsageError`` for options that do not go together."""
    asked = any(_address(name) for name in (a, b))
    if options.target is None:
        raise OptionError("{target} is missing: tokens are judged by the target's rows")
    if asked and options.prompts is None:
        raise OptionError("{prompts} is missing: a server is asked to answer them")
    extra_body_iv(options.extra_body)
    for name in _OF_SERVERS:
        if not asked and getattr(options, name) is not None:
            raise OptionError(f"{{{name}}} is for servers: both logs are files")


def run_triage(a: str, b: str, options: TriageOptions, say: Say) -> TriageRun:
    """Read or ask both, and say why they differ; the options were checked."""
    from simverify.emitted.triage import Source, paired
    from simverify.emitted.triage import triage as judge

    say(f"loading {options.target}")
    pair = _load(options, options.dtype or "float32")
    notes: list[str] = []
    logs = [_answers(name, side, pair, options, say, notes) for name, side in ((a, "a"), (b, "b"))]
    coarse = options.dtype in ("bfloat16", "float16")
    source = Source(
        a, b, _command(a, b, options), options.dtype is not None,
        lambda: _load(options, "float32" if coarse else "bfloat16"), tuple(notes),
    )  # fmt: skip
    return judge(paired(*logs), pair, source, proxy=options.draft is not None, progress=say)


def _load(
    options: TriageOptions, dtype: Literal["float32", "bfloat16", "float16"]
) -> "TransformerPair":
    return RealModels(
        target=options.target, draft=options.draft, temperature=0.0, device=options.device,
        dtype=dtype, threads=options.threads,
    ).load()  # fmt: skip


def _answers(
    name: str, side: str, pair: "TransformerPair", options: TriageOptions, say: Say,
    notes: list[str],
) -> "tuple[Answer, ...]":  # fmt: skip
    from simverify.emitted import Endpoint, ask
    from simverify.emitted.reading.chat import read_asked
    from simverify.emitted.triage import read_answers
    from simverify.emitted.triage.reading import Answer
    from simverify.results.reading.document import check_writable

    if not _address(name):
        return read_answers(Path(name), pair)
    assert options.prompts is not None
    prompts = read_asked(options.prompts)
    keep = None
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        keep = options.keep / f"{side}.jsonl"
        check_writable(keep)
    limit = Endpoint.max_tokens if options.max_tokens is None else options.max_tokens
    extra = extra_body_iv(options.extra_body)
    server = server_iv(name, options.served_model, limit, extra, options.timeout)
    found = ask(server, prompts, pair, limit * len(prompts), 1, keep=keep, progress=say)
    notes += [f"{side.upper()}: {note}" for note in found.notes]
    if keep is not None:
        return read_answers(keep, pair)
    return tuple(
        Answer(request, line, reason=_reason(request, pair))
        for line, request in enumerate(found.requests, 1)
    )


def _reason(request: "Request", pair: "TransformerPair") -> str | None:
    """Return how a server's answer ended; it was asked without stop strings."""
    if request.unfinished:
        return None
    return "stop" if request.restored or request.tokens[-1] in pair.eos else "length"


def _address(name: str) -> bool:
    return name.startswith(("http://", "https://"))


def _command(a: str, b: str, options: TriageOptions) -> str:
    """Return the command that judges the same answers again; where none are kept, asks anew."""
    kept = options.keep is not None
    names = [
        str(options.keep / f"{side}.jsonl") if options.keep is not None and _address(name) else name
        for name, side in ((a, "a"), (b, "b"))
    ]
    words = ["simverify", "triage", *names]
    for name, value in vars(options).items():
        asking = name in _OF_SERVERS
        if value is not None and name != "threads" and not (asking and kept):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)
