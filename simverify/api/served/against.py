"""``simverify.audit_against``: two servers, or two files of answers, against each other."""

import shlex
from dataclasses import replace
from pathlib import Path

from simverify.api.real import RealModels
from simverify.api.served.server import is_address, server_of
from simverify.errors import OptionError
from simverify.options.modes import keywords
from simverify.options.outputs import AgainstOptions, TwoEngineOptions
from simverify.results import AgainstRun, AskedFor

_OF_SERVERS = (
    "prompts", "repeats", "max_tokens", "served_model", "against_model", "keep", "concurrency",
    "timeout", "extra_body", "temperature", "top_k", "top_p",
)  # fmt: skip


@keywords(TwoEngineOptions)
def audit_against(options: TwoEngineOptions) -> AgainstRun:
    """Judge whether two engines answer the same prompts by one law; no model is needed.

    Returns
    -------
    AgainstRun
        ``run.verdict``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A value out of range, a missing file, answers that cannot be compared, a server that does
        not answer.
    """
    served = is_address(options.first)
    asked = {name: value for name, value in vars(options).items() if name not in _TWO}
    both = AgainstOptions(
        **asked,
        outputs=None if served else options.first,
        endpoint=str(options.first) if served else None,
        against=str(options.second),
    )
    against_iv(both)
    return compare(both)


_TWO = ("first", "second")


def compare(options: AgainstOptions) -> AgainstRun:
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
        return _of_servers(options, settings)
    assert options.outputs is not None
    outputs = Path(options.outputs)
    pairs = paired(read_answers(outputs, "outputs"), read_answers(Path(options.against), "against"))
    first, second = str(options.outputs), options.against
    again = _command(options, str(options.outputs), options.against, settings.detect)
    together = beside(outputs) == Path(options.against)
    return audit_against(pairs, Sources(first, second, again, side_by_side=together), settings)


def _of_servers(options: AgainstOptions, settings: object) -> AgainstRun:
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
    real = RealModels.of(options)
    law = real.sampling()
    assert real.prompts is not None
    limit = MAX_TOKENS if options.max_tokens is None else options.max_tokens
    endpoints = (
        server_of(options, options.endpoint, limit),
        server_of(replace(options, served_model=options.against_model), options.against, limit),
    )
    # Once each: what is asked twice as often would be two prompts of one name.
    prompts = tuple(dict.fromkeys(read_asked(real.prompts)))
    options.say(settings.plan(len(prompts), limit))
    keep = None if options.keep is None else Path(options.keep)
    rounds = ask_in_rounds(
        endpoints,
        prompts,
        law,
        settings,
        concurrency=options.concurrency,
        keep=keep,
        say=options.say,
    )
    asked = rounds.asked
    first, second = options.endpoint, options.against
    if keep is None:
        again = _command(options, first, second, settings.detect)
    else:
        again = _command(options, str(keep), str(beside(keep)), settings.detect)
    sources = Sources(
        first, second, again, planned=rounds.planned, endpoint=True, side_by_side=True,
        notes=asked.notes,
        asked=AskedFor(temperature=law.temperature, top_k=law.top_k, top_p=law.top_p,
                       max_tokens=limit),
    )  # fmt: skip
    return audit_against(paired(asked.first, asked.second), sources, settings)


def against_iv(options: AgainstOptions) -> None:
    """Raise ``UsageError`` for options that do not go together, or a file that cannot be kept."""
    if options.outputs is not None and options.endpoint is not None:
        raise OptionError("{outputs} and {endpoint} are two sources: name one, and {against}")
    if options.outputs is None and options.endpoint is None:
        raise OptionError("{against} is one of two: name the other, as {outputs} or {endpoint}")
    assert options.against is not None
    served = is_address(options.against)
    if served != (options.endpoint is not None):
        raise OptionError(
            "{against} is "
            + ("a server: name another as {endpoint}, or two files" if served
               else f"{options.against}: expected http://HOST:PORT, as for {{endpoint}}")
        )  # fmt: skip
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

        check_writable(Path(options.keep))
        check_writable(beside(Path(options.keep)))


def _command(options: AgainstOptions, first: str, second: str, detect: float) -> str:
    """Return the command that compares the same answers again; where none are kept, asks anew."""
    asks = options.endpoint is not None and options.keep is None
    words = replace(options, detect=detect).words(
        always=("alpha", "detect", "seed"),
        without=("outputs", "endpoint", "against", *(() if asks else _OF_SERVERS)),
    )
    source = "--endpoint" if asks else "--outputs"
    return shlex.join(["simverify", "audit", source, first, "--against", second, *words])
