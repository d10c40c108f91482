"""``simverify.audit_outputs``: tokens that some other engine emitted, in a file or on a server."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simverify.api.options import AuditOptions
from simverify.api.real import RealModels
from simverify.api.served.options import server_iv
from simverify.api.ways import called_from_python
from simverify.errors import OptionError, UsageError
from simverify.results import OutputRun

if TYPE_CHECKING:
    from simverify.emitted import Mask

Say = Callable[[str], None]
_SOURCES = ("outputs", "endpoint")


def audit_outputs(
    outputs: str | PathLike[str] | None = None,
    *,
    target: str,
    endpoint: str | None = None,
    draft: str | None = None,
    prompts: str | PathLike[str] | None = None,
    samples: int | None = None,
    tokens: int | None = None,
    max_tokens: int | None = None,
    served_model: str | None = None,
    keep: str | PathLike[str] | None = None,
    concurrency: int | None = None,
    max_tokens_total: int | None = None,
    timeout: float | None = None,
    ball: float | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
    repetition_penalty: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    logit_bias: Mapping[int, float] | None = None,
    bad_words: Sequence[str | Sequence[int]] | None = None,
    min_tokens: int | None = None,
    order: str | None = None,
    mask: str | Callable[..., Any] | None = None,
    extra_body: Mapping[str, Any] | None = None,
    device: str | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    threads: int | None = None,
    alpha: float = 1e-6,
    detect: float | None = None,
    seed: int = 0,
    progress: Say | None = None,
) -> OutputRun:
    """Judge tokens that an engine emitted by the target model that it should follow.

    Parameters
    ----------
    outputs
        A JSONL file: a request a line, with prompt, and tokens (ids) or text.
    target
        The model whose law the tokens should follow: a folder or a name that Transformers
        loads, or "tiny-llama", which ships.
    endpoint
        Instead of ``outputs``: a server that speaks /v1/completions.
    draft
        A proxy for the engine's draft, which makes more deviations visible.
    prompts, samples, max_tokens, served_model, keep
        Endpoint: prompts to send, completions of each at most, tokens of one completion, the
        model's name there, a file that keeps every answer.
    concurrency, max_tokens_total, timeout
        Endpoint: requests under way at a time; tokens that the server may emit in all; seconds
        that one answer may take.
    tokens
        Emitted tokens that are judged, fixed beforehand; by default what the power needs.
    ball
        TV of the engine's own rows from the rescored ones, on average.
    temperature, top_k, top_p, min_p, typical_p
        Of the law that the engine was asked for.
    repetition_penalty, presence_penalty, frequency_penalty
        Likewise; the first counts the prompt too, the others what was emitted alone.
    logit_bias, bad_words, min_tokens
        Likewise; words are texts or lists of ids.
    order
        In which these act: transformers, vllm, sglang, llamacpp, mlx-lm, or some of them.
    mask
        A function of the prompt's ids and the answer's so far that returns the ids which may come
        next, or None for all; or a file's, path/file.py:attr.
    extra_body
        Endpoint: further fields of every request.
    device, dtype, threads
        Where and in what the target computes.
    alpha, detect
        False-alarm rate of the run; deviation (mean one-token TV) found with power .9.
    seed
        Of the randomised tests.
    progress
        Receives a line when something begins that may take a while.

    Returns
    -------
    OutputRun
        ``run.verdict``, ``run.passed``, ``run.findings``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A value out of range, a missing file, answers that cannot be judged.
    SimverifyError
        A model that does not load, a server that does not answer.
    """
    options = AuditOptions(
        outputs=None if outputs is None else Path(outputs), endpoint=endpoint, target=target,
        draft=draft, prompts=None if prompts is None else Path(prompts), samples=samples,
        tokens=tokens, max_tokens=max_tokens, served_model=served_model,
        keep=None if keep is None else Path(keep), concurrency=concurrency,
        max_tokens_total=max_tokens_total, timeout=timeout, ball=ball, temperature=temperature,
        top_k=top_k, top_p=top_p, device=device, dtype=dtype, threads=threads, alpha=alpha,
        detect=detect, seed=seed, min_p=min_p, typical_p=typical_p,
        repetition_penalty=repetition_penalty, presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty, logit_bias=_json(logit_bias, "logit_bias"),
        bad_words=_json(bad_words, "bad_words"), min_tokens=min_tokens, order=order,
        mask=getattr(mask, "__qualname__", None) if callable(mask) else mask,
        extra_body=_json(extra_body, "extra_body"),
    )  # fmt: skip
    own = None
    if callable(mask):
        from simverify.emitted import Mask

        own = Mask(str(options.mask), mask)
    with called_from_python():
        options_iv(options)
        return judge(options, progress or (lambda _line: None), own)


def judge(options: AuditOptions, say: Say, mask: "Mask | None" = None) -> OutputRun:
    """Judge the tokens of a file or of a server, whose options were checked."""
    from simverify.emitted import (
        Begun,
        Endpoint,
        OutputSettings,
        Request,
        Source,
        ask,
        audit_outputs,
        contradictions,
        read_requests,
    )
    from simverify.emitted.law.words import NAMES
    from simverify.emitted.reading.chat import prompt_ids, read_asked
    from simverify.emitted.reading.textual import changed_tokens, text_words

    name = options.endpoint if options.outputs is None else str(options.outputs)
    assert name is not None
    settings = OutputSettings(
        tokens=options.tokens, alpha=options.alpha, ball=options.ball, seed=options.seed,
        detect=OutputSettings.detect if options.detect is None else options.detect,
    )  # fmt: skip
    real = options.real()
    real.sampling()  # out of its range before anything is read
    options.ranges()
    proxy = options.draft is not None
    plan = settings.plan(proxy)
    server = None
    if options.endpoint is not None:
        limit = Endpoint.max_tokens if options.max_tokens is None else options.max_tokens
        extra = json.loads(options.extra_body or "{}")
        server = server_iv(options.endpoint, options.served_model, limit, extra, options.timeout)
        assert options.prompts is not None
        prompts = read_asked(options.prompts)
    say(plan)
    pair = real.load()
    law = options.declared(pair, mask)
    pair = replace(pair, sampling=law)
    planned = settings.planned(proxy)
    notes: tuple[str, ...] = ()
    begun, spent = None, False
    if server is None:
        assert options.outputs is not None
        requests = read_requests(options.outputs, pair)
        given = {name: getattr(law, name) for name in NAMES if getattr(options, name) is not None}
        notes = tuple(contradictions([request.law for request in requests], given))
        for note in notes:
            say(note)
    else:

        def text_alone(_first: Request) -> None:
            blank = [Request(prompt_ids(own, pair), (), from_text=True) for own in prompts]
            say(text_words(*changed_tokens(blank, pair, settings.seed), settings, proxy))

        begun = Begun(pair, settings, proxy, say)
        found = ask(
            server, prompts, pair, planned, options.samples, keep=options.keep, progress=say,
            text_alone=text_alone, concurrency=options.concurrency,
            budget=options.max_tokens_total, enough=begun.enough,
        )  # fmt: skip
        requests, notes, spent = found.requests, found.notes, found.spent
    again = _command(options, planned, settings.detect)
    source = Source(
        name, again, endpoint=server is not None, notes=notes, budget=options.max_tokens_total,
        spent=spent,
    )  # fmt: skip
    return audit_outputs(requests, pair, source, settings, proxy=proxy, begun=begun, progress=say)


def options_iv(options: AuditOptions) -> None:
    """Raise ``UsageError`` for options that do not go together, or a file that cannot be kept."""
    if options.outputs is not None and options.endpoint is not None:
        raise OptionError("{outputs} and {endpoint} are two sources: name one")
    if options.outputs is None and options.endpoint is None:
        raise OptionError("name what to judge: {outputs} or {endpoint}")
    if options.target is None:
        raise OptionError("{target} is missing: emitted tokens are judged by the target's rows")
    if options.endpoint is not None and options.prompts is None:
        raise OptionError("{prompts} is missing: an endpoint is asked to answer them")
    for name in ("repeats", "against_model"):
        if getattr(options, name) is not None:
            raise OptionError(f"{{{name}}} is for {{against}}: name another engine too")
    for name in (
        "prompts", "samples", "max_tokens", "served_model", "keep", "concurrency",
        "max_tokens_total", "timeout", "extra_body",
    ):  # fmt: skip
        if options.outputs is not None and getattr(options, name) is not None:
            why = "is for {endpoint}: a file of outputs holds its prompts"
            raise OptionError(f"{{{name}}} {why}")
    if options.keep is not None:
        from simverify.results.reading.document import check_writable

        check_writable(options.keep)


def _json(value: Any, name: str) -> str | None:
    """What an option holds as JSON, as the command line has it."""
    if value is None:
        return None
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} is {value!r}: expected what JSON can hold") from None


def _given(options: AuditOptions) -> dict[str, str]:
    """Return what was given, by its name on the command line: sources, models, and the rest."""
    models = [field.name for field in fields(RealModels)]
    values = {name: vars(options)[name] for name in (*_SOURCES, *models, *vars(options))}
    return {
        f"--{name.replace('_', '-')}": str(value)
        for name, value in values.items()
        if value is not None and value is not False
    }


def _command(options: AuditOptions, planned: int, detect: float) -> str:
    """Return the command that judges the same answers again; where none are kept, asks anew."""
    words = ["simverify", "audit"]
    if options.keep is not None:
        options = replace(
            options, outputs=options.keep, tokens=planned, endpoint=None, prompts=None,
            samples=None, max_tokens=None, served_model=None, keep=None, concurrency=None,
            max_tokens_total=None, timeout=None, extra_body=None,
        )  # fmt: skip
    given = _given(options)
    given.pop("--threads", None)
    rates = {
        "--alpha": repr(options.alpha),
        "--detect": repr(detect),
        "--seed": str(options.seed),
    }
    for name in rates:
        given.pop(name, None)
    for name, value in (given | rates).items():
        words += [f"{name}={value}"] if value.startswith("-") else [name, value]
    return shlex.join(words)
