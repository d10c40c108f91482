"""``simverify.audit_against``: two servers, or two files of answers, against each other."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

from simverify.api.options import AuditOptions
from simverify.api.real import LawOptions
from simverify.api.served.options import extra_body_iv, server_iv
from simverify.api.ways import called_from_python
from simverify.errors import OptionError
from simverify.results import AgainstRun, AskedFor

Say = Callable[[str], None]

_OF_SERVERS = (
    "prompts", "repeats", "max_tokens", "served_model", "against_model", "keep", "concurrency",
    "timeout", "extra_body", "temperature", "top_k", "top_p",
)  # fmt: skip
_OF_TARGETS = (
    "target", "draft", "samples", "tokens", "max_tokens_total", "ball", "device", "dtype",
    "threads", *(field.name for field in fields(LawOptions) if field.name != "extra_body"),
)  # fmt: skip


def audit_against(
    first: str | PathLike[str],
    second: str | PathLike[str],
    *,
    prompts: str | PathLike[str] | None = None,
    repeats: int | None = None,
    max_tokens: int | None = None,
    served_model: str | None = None,
    against_model: str | None = None,
    keep: str | PathLike[str] | None = None,
    concurrency: int | None = None,
    timeout: float | None = None,
    extra_body: Mapping[str, Any] | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    alpha: float = 1e-6,
    detect: float | None = None,
    seed: int = 0,
    progress: Say | None = None,
) -> AgainstRun:
    """Judge whether two engines answer the same prompts by one law; no model is needed.

    Parameters
    ----------
    first, second
        Addresses of two servers that speak /v1/completions, or two JSONL files of answers.
    prompts
        Servers: the prompts to send.
    repeats
        Servers: how often each prompt is asked of each; by default a few prompts are chosen, and
        asked as often as ``detect`` needs.
    max_tokens, served_model, against_model
        Servers: tokens of one answer; the model's name at the first and at the second.
    keep
        Servers: a file that keeps the first's answers; the second's lie beside it.
    concurrency, timeout
        Servers: requests under way at a time; seconds that one answer may take.
    extra_body
        Servers: further fields of every request.
    temperature, top_k, top_p
        Servers: of the law that both are asked for.
    alpha, detect
        False-alarm rate of the run; mean TV of the laws of an answer's first two tokens that is
        found with power .9.
    seed
        Of the order in which a pair is sent, and of the tests.
    progress
        Receives a line when something begins that may take a while.

    Raises
    ------
    UsageError
        A value out of range, a missing file, answers that cannot be compared, a server that does
        not answer.
    """
    named = str(first)
    served = named.startswith(("http://", "https://"))
    options = AuditOptions(
        outputs=None if served else Path(first), endpoint=named if served else None,
        against=str(second), prompts=None if prompts is None else Path(prompts), repeats=repeats,
        max_tokens=max_tokens, served_model=served_model, against_model=against_model,
        keep=None if keep is None else Path(keep), concurrency=concurrency,
        timeout=timeout, temperature=temperature, top_k=top_k, top_p=top_p, alpha=alpha,
        detect=detect, seed=seed,
        extra_body=None if extra_body is None else json.dumps(extra_body),
    )  # fmt: skip
    with called_from_python():
        options_iv(options)
        return compare(options, progress or (lambda _line: None))


def compare(options: AuditOptions, say: Say) -> AgainstRun:
    """Compare two engines, whose options were checked."""
    from simverify.emitted.against import (
        AgainstSettings,
        Sources,
        audit_against,
        beside,
        paired,
        read_answers,
    )

    assert options.against is not None
    settings = AgainstSettings(
        repeats=options.repeats, alpha=options.alpha, seed=options.seed,
        detect=AgainstSettings.detect if options.detect is None else options.detect,
    )  # fmt: skip
    if options.endpoint is not None:
        return _of_servers(options, settings, say)
    assert options.outputs is not None
    pairs = paired(
        read_answers(options.outputs, "outputs"), read_answers(Path(options.against), "against")
    )
    first, second = str(options.outputs), options.against
    again = _command(options, str(options.outputs), options.against, settings.detect)
    together = beside(options.outputs) == Path(options.against)
    return audit_against(pairs, Sources(first, second, again, side_by_side=together), settings)


def _of_servers(options: AuditOptions, settings: object, say: Say) -> AgainstRun:
    from simverify.emitted.against import (
        AgainstSettings,
        Sources,
        ask_in_rounds,
        audit_against,
        beside,
        paired,
    )
    from simverify.emitted.against.settings import MAX_TOKENS
    from simverify.emitted.reading.chat import read_asked

    assert isinstance(settings, AgainstSettings)
    assert options.endpoint is not None
    assert options.against is not None
    assert options.prompts is not None
    law = options.real().sampling()
    limit = MAX_TOKENS if options.max_tokens is None else options.max_tokens
    extra = extra_body_iv(options.extra_body)
    endpoints = (
        server_iv(options.endpoint, options.served_model, limit, extra, options.timeout),
        server_iv(options.against, options.against_model, limit, extra, options.timeout),
    )
    # Once each: what is asked twice as often would be two prompts of one name.
    prompts = tuple(dict.fromkeys(read_asked(options.prompts)))
    say(settings.plan(len(prompts), limit))
    rounds = ask_in_rounds(
        endpoints,
        prompts,
        law,
        settings,
        concurrency=options.concurrency,
        keep=options.keep,
        say=say,
    )
    asked = rounds.asked
    first, second = options.endpoint, options.against
    if options.keep is None:
        again = _command(options, first, second, settings.detect)
    else:
        again = _command(options, str(options.keep), str(beside(options.keep)), settings.detect)
    sources = Sources(
        first, second, again, planned=rounds.planned, endpoint=True, side_by_side=True,
        notes=asked.notes,
        asked=AskedFor(temperature=law.temperature, top_k=law.top_k, top_p=law.top_p,
                       max_tokens=limit),
    )  # fmt: skip
    return audit_against(paired(asked.first, asked.second), sources, settings)


def options_iv(options: AuditOptions) -> None:
    """Raise ``UsageError`` for options that do not go together, or a file that cannot be kept."""
    if options.outputs is not None and options.endpoint is not None:
        raise OptionError("{outputs} and {endpoint} are two sources: name one, and {against}")
    assert options.against is not None
    served = options.against.startswith(("http://", "https://"))
    if served != (options.endpoint is not None):
        raise OptionError(
            "{against} is "
            + ("a server: name another as {endpoint}, or two files" if served
               else f"{options.against}: expected http://HOST:PORT, as for {{endpoint}}")
        )  # fmt: skip
    for name in _OF_TARGETS:
        if getattr(options, name) is not None:
            raise OptionError(f"{{against}} takes no {{{name}}}: two engines need no target")
    if options.endpoint is None:
        for name in _OF_SERVERS:
            if getattr(options, name) is not None:
                raise OptionError(f"{{{name}}} is for {{endpoint}}: two files hold what was asked")
        return
    if options.prompts is None:
        raise OptionError("{prompts} is missing: both are asked to answer them")
    if options.temperature == 0.0:
        raise OptionError(
            "{temperature} is 0: asked again an engine would copy itself, and nothing is drawn "
            "that could be tested; expected more"
        )
    if options.max_tokens == 1:
        raise OptionError(
            "{max_tokens} is 1: what speculation does shows from an answer's second token on; "
            "expected 2 or more"
        )
    if options.endpoint == options.against and options.served_model == options.against_model:
        say = "{endpoint} and {against} are one address: name two, or {against-model}"
        raise OptionError(say.replace("{against-model}", "{against_model}"))
    if options.keep is not None:
        from simverify.emitted.against import beside
        from simverify.results.reading.document import check_writable

        check_writable(options.keep)
        check_writable(beside(options.keep))


def _command(options: AuditOptions, first: str, second: str, detect: float) -> str:
    """Return the command that compares the same answers again; where none are kept, asks anew."""
    asks = options.endpoint is not None and options.keep is None
    words = [
        "simverify",
        "audit",
        "--endpoint" if asks else "--outputs",
        first,
        "--against",
        second,
    ]
    for name in _OF_SERVERS if asks else ():
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--alpha", repr(options.alpha), "--detect", repr(detect), "--seed", str(options.seed)]
    return shlex.join(words)
