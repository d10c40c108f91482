"""``simverify.triage``: why the greedy answers of two engines differ."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from simverify.api.real import RealModels
from simverify.api.served.server import extra_body_iv, is_address, server_of
from simverify.errors import OptionError
from simverify.options.modes import keywords
from simverify.options.option import Dtype
from simverify.options.served import TriageOptions
from simverify.results import TriageRun

if TYPE_CHECKING:
    from simverify.emitted.reading.requests import Request
    from simverify.emitted.triage.reading import Answer
    from simverify.models.real.transformer import TransformerPair

_OF_SERVERS = ("prompts", "max_tokens", "served_model", "extra_body", "timeout", "keep")


@keywords(TriageOptions)
def triage(options: TriageOptions) -> TriageRun:
    """Say why two logs of greedy answers differ: rounding, or which fault.

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
    triage_iv(options)
    return run_triage(options)


def triage_iv(options: TriageOptions) -> None:
    """Raise ``UsageError`` for options that do not go together."""
    asked = is_address(options.a) or is_address(options.b)
    if options.target is None:
        raise OptionError("{target} is missing: tokens are judged by the target's rows")
    if asked and options.prompts is None:
        raise OptionError("{prompts} is missing: a server is asked to answer them")
    extra_body_iv(options)
    for name in _OF_SERVERS:
        if not asked and getattr(options, name) is not None:
            raise OptionError(f"{{{name}}} is for servers: both logs are files")


def run_triage(options: TriageOptions) -> TriageRun:
    """Read or ask both, and say why they differ; the options were checked."""
    from simverify.emitted.triage import Source, paired
    from simverify.emitted.triage import triage as judge

    options.say(f"loading {options.target}")
    pair = _load(options, options.dtype or "float32")
    notes: list[str] = []
    a, b = str(options.a), str(options.b)
    logs = [_answers(name, side, pair, options, notes) for name, side in ((a, "a"), (b, "b"))]
    coarse = options.dtype in ("bfloat16", "float16")
    source = Source(
        a, b, _command(options), options.dtype is not None,
        lambda: _load(options, "float32" if coarse else "bfloat16"), tuple(notes),
    )  # fmt: skip
    return judge(paired(*logs), pair, source, proxy=options.draft is not None, progress=options.say)


def _load(options: TriageOptions, dtype: Dtype) -> "TransformerPair":
    return RealModels(
        target=options.target, draft=options.draft, temperature=0.0, device=options.device,
        dtype=dtype, threads=options.threads,
    ).load()  # fmt: skip


def _answers(
    name: str, side: str, pair: "TransformerPair", options: TriageOptions, notes: list[str]
) -> "tuple[Answer, ...]":
    from simverify.emitted import Endpoint, ask
    from simverify.emitted.reading.chat import read_asked
    from simverify.emitted.triage import read_answers
    from simverify.emitted.triage.reading import Answer
    from simverify.results.reading.document import check_writable

    if not is_address(name):
        return read_answers(Path(name), pair)
    assert options.prompts is not None
    prompts = read_asked(Path(options.prompts))
    keep = None
    if options.keep is not None:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
        keep = Path(options.keep) / f"{side}.jsonl"
        check_writable(keep)
    limit = Endpoint.max_tokens if options.max_tokens is None else options.max_tokens
    server = server_of(options, name, limit)
    found = ask(server, prompts, pair, limit * len(prompts), 1, keep=keep, progress=options.say)
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


def _command(options: TriageOptions) -> str:
    """Return the command that judges the same answers again; where none are kept, asks anew."""
    keep = None if options.keep is None else Path(options.keep)
    names = [
        str(keep / f"{side}.jsonl") if keep is not None and is_address(name) else str(name)
        for name, side in ((options.a, "a"), (options.b, "b"))
    ]
    asking = () if keep is None else _OF_SERVERS
    words = options.words(without=("a", "b", "threads", *asking))
    return shlex.join(["simverify", "triage", *names, *words])
