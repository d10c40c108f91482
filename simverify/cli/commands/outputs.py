"""``simverify audit --outputs`` and ``--endpoint``: tokens that another engine emitted."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from simverify.cli.common import EXIT_CODES, deliver, json_text_iv, output_console, progress
from simverify.errors import UsageError


@dataclass(frozen=True)
class OutputOptions:
    """Options of the output tier alone, named as on the command line; None: not given."""

    outputs: Path | None = None
    endpoint: str | None = None
    target: str | None = None
    draft: str | None = None
    prompts: Path | None = None
    samples: int | None = None
    tokens: int | None = None
    max_tokens: int | None = None
    served_model: str | None = None
    keep: Path | None = None
    ball: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    device: str | None = None
    dtype: str | None = None
    threads: int | None = None


def audit_emitted(
    options: OutputOptions,
    alpha: float,
    detect: float | None,
    seed: int,
    json: str | None,
    report: Path | None,
    quiet: bool,
) -> int:
    """Judge the tokens of a file or of a server; return the exit code."""
    _options_iv(options, json)
    from simverify.emitted import (
        Endpoint,
        OutputSettings,
        Source,
        ask,
        audit_outputs,
        read_requests,
    )
    from simverify.models.real.prompts import read_prompts
    from simverify.models.real.sampling import Sampling
    from simverify.models.real.transformer import load_pair, use_threads
    from simverify.reports.others.output_view import print_outputs

    name = options.endpoint if options.outputs is None else str(options.outputs)
    assert name is not None
    assert options.target is not None
    if json is not None or report is not None:
        json_text_iv(name)
        json_text_iv(str(options.keep))
    settings = OutputSettings(
        tokens=options.tokens, alpha=alpha, ball=options.ball, seed=seed,
        detect=OutputSettings.detect if detect is None else detect,
    )  # fmt: skip
    temperature = 1.0 if options.temperature is None else options.temperature
    sampling = Sampling(temperature, options.top_k, options.top_p)
    proxy = options.draft is not None
    plan = settings.plan(proxy)
    server = None
    if options.endpoint is not None:
        limit = Endpoint.max_tokens if options.max_tokens is None else options.max_tokens
        server = Endpoint(options.endpoint, options.served_model, limit)
        assert options.prompts is not None
        prompts = read_prompts(options.prompts)
    with _interrupted(options.keep), progress(quiet) as say:
        say(plan)
        use_threads(options.threads)
        pair = load_pair(
            options.target, options.draft, sampling=sampling, device=options.device or "cpu",
            dtype="bfloat16" if options.dtype == "bfloat16" else "float32",
        )  # fmt: skip
        planned = settings.planned(proxy)
        notes: tuple[str, ...] = ()
        if server is None:
            assert options.outputs is not None
            requests = read_requests(options.outputs, pair)
        else:
            found = ask(
                server, prompts, pair, planned, options.samples, keep=options.keep, progress=say
            )
            requests, notes = found.requests, found.notes
        again = _command(options, planned, alpha, settings.detect, seed)
        source = Source(name, again, endpoint=server is not None, notes=notes)
        run = audit_outputs(requests, pair, source, settings, proxy=proxy, progress=say)
    if deliver(run, json, report):
        print_outputs(run, output_console())
    return EXIT_CODES[run.verdict]


@contextmanager
def _interrupted(keep: Path | None) -> Iterator[None]:
    """Let an interrupt say where answers are, not that nothing was written."""
    try:
        yield
    except KeyboardInterrupt:
        if keep is None or not keep.exists():
            raise
        raise KeyboardInterrupt(
            f"interrupted; answers are kept in {keep}: the same command goes on from there"
        ) from None


def _options_iv(options: OutputOptions, json: str | None) -> None:
    if options.outputs is not None and options.endpoint is not None:
        raise UsageError("--outputs and --endpoint are two sources: name one")
    if options.target is None:
        raise UsageError("--target is missing: emitted tokens are judged by the target's rows")
    asking = {
        "--prompts": options.prompts, "--samples": options.samples,
        "--max-tokens": options.max_tokens, "--served-model": options.served_model,
        "--keep": options.keep,
    }  # fmt: skip
    if options.endpoint is not None and options.prompts is None:
        raise UsageError("--prompts is missing: an endpoint is asked to answer them")
    for name, value in asking.items():
        if options.outputs is not None and value is not None:
            raise UsageError(f"{name} is for --endpoint: a file of outputs holds its prompts")
    if (keep := options.keep) is not None:
        from simverify.results.reading.document import check_writable

        if json is not None and keep.resolve() == Path(json).resolve():
            raise UsageError(f"--keep and --json are both {keep}: name two files")
        check_writable(keep)


def _given(options: OutputOptions) -> dict[str, str]:
    """Return what was given, by its name on the command line."""
    values = {f.name: getattr(options, f.name) for f in fields(options)}
    return {
        f"--{name.replace('_', '-')}": str(value)
        for name, value in values.items()
        if value is not None
    }


def _command(options: OutputOptions, planned: int, alpha: float, detect: float, seed: int) -> str:
    """Return the command that judges the same answers again; where none are kept, asks anew."""
    words = ["simverify", "audit"]
    if options.keep is not None:
        options = replace(
            options, outputs=options.keep, tokens=planned, endpoint=None, prompts=None,
            samples=None, max_tokens=None, served_model=None, keep=None,
        )  # fmt: skip
    given = _given(options)
    given.pop("--threads", None)
    given |= {"--alpha": repr(alpha), "--detect": repr(detect), "--seed": str(seed)}
    for name, value in given.items():
        words += [f"{name}={value}"] if value.startswith("-") else [name, value]
    return shlex.join(words)
