"""``simverify.audit_outputs``: tokens that some other engine emitted, in a file or on a server."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from simverify.api.real import RealModels, declared_law, law_iv
from simverify.api.served.server import server_of
from simverify.errors import OptionError
from simverify.options.modes import keywords
from simverify.options.outputs import OutputOptions
from simverify.results import OutputRun


@keywords(OutputOptions)
def audit_outputs(options: OutputOptions) -> OutputRun:
    """Judge tokens that an engine emitted by the target model that it should follow.

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
    outputs_iv(options)
    return judge(options)


def judge(options: OutputOptions) -> OutputRun:
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

    say = options.say
    name = options.endpoint if options.outputs is None else str(options.outputs)
    assert name is not None
    settings = OutputSettings(
        tokens=options.tokens, alpha=options.alpha, ball=options.row_tolerance,
        seed=options.seed,
        detect=OutputSettings.detect if options.detect is None else options.detect,
    )  # fmt: skip
    real = RealModels.of(options)
    real.sampling()  # out of its range before anything is read
    law_iv(options)
    proxy = options.draft is not None
    plan = settings.plan(proxy)
    server = None
    if options.endpoint is not None:
        limit = Endpoint.max_tokens if options.max_tokens is None else options.max_tokens
        server = server_of(options, options.endpoint, limit)
        assert real.prompts is not None
        prompts = read_asked(real.prompts)
    say(plan)
    pair = real.load()
    law = declared_law(options, pair)
    pair = replace(pair, sampling=law)
    planned = settings.planned(proxy)
    notes: tuple[str, ...] = ()
    begun, spent = None, False
    if server is None:
        assert options.outputs is not None
        requests = read_requests(Path(options.outputs), pair)
        given = {name: getattr(law, name) for name in NAMES if getattr(options, name) is not None}
        notes = tuple(contradictions([request.law for request in requests], given))
        for note in notes:
            say(note)
    else:

        def text_alone(_first: Request) -> None:
            blank = [Request(prompt_ids(own, pair), (), from_text=True) for own in prompts]
            say(text_words(*changed_tokens(blank, pair, settings.seed), settings, proxy))

        begun = Begun(pair, settings, proxy, say)
        keep = None if options.keep is None else Path(options.keep)
        found = ask(
            server, prompts, pair, planned, options.samples, keep=keep, progress=say,
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


def outputs_iv(options: OutputOptions) -> None:
    """Raise ``UsageError`` for options that do not go together, or a file that cannot be kept."""
    if options.outputs is not None and options.endpoint is not None:
        raise OptionError("{outputs} and {endpoint} are two sources: name one")
    if options.outputs is None and options.endpoint is None:
        raise OptionError("name what to judge: {outputs} or {endpoint}")
    if options.target is None:
        raise OptionError("{target} is missing: emitted tokens are judged by the target's rows")
    if options.endpoint is not None and options.prompts is None:
        raise OptionError("{prompts} is missing: an endpoint is asked to answer them")
    for name in _ASKING[1:]:
        if options.outputs is not None and getattr(options, name) is not None:
            why = "is for {endpoint}: a file of outputs holds its prompts"
            raise OptionError(f"{{{name}}} {why}")
    if options.keep is not None:
        from simverify.results.reading.document import check_writable

        check_writable(Path(options.keep))


_ASKING = (
    "endpoint", "prompts", "samples", "max_tokens", "served_model", "keep", "concurrency",
    "max_tokens_total", "timeout", "extra_body",
)  # fmt: skip
"""Options of a server, which a file of its answers does not need."""


def _command(options: OutputOptions, planned: int, detect: float) -> str:
    """Return the command that judges the same answers again; where none are kept, asks anew."""
    if options.keep is not None:
        asked_no_more: dict[str, Any] = dict.fromkeys(_ASKING)
        options = replace(options, **asked_no_more, outputs=options.keep, tokens=planned)
    words = replace(options, detect=detect).words(
        always=("alpha", "detect", "seed"), without=("threads",)
    )
    return shlex.join(["simverify", "audit", *words])
