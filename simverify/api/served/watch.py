"""``simverify.watch``: an alarm when a server strays from its target, one rate for its life."""

import json
import math
import shlex
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simverify.api.real import RealModels
from simverify.api.served.options import WatchOptions, extra_body_iv, server_iv
from simverify.api.ways import called_from_python
from simverify.errors import OptionError, UsageError
from simverify.results import WatchRun

if TYPE_CHECKING:
    from simverify.emitted.watching.asking import Asker
    from simverify.models.real.transformer import TransformerPair

Say = Callable[[str], None]


def watch(
    outputs: str | PathLike[str] | None = None,
    *,
    target: str,
    state: str | PathLike[str],
    endpoint: str | None = None,
    prompts: str | PathLike[str] | None = None,
    max_tokens: int | None = None,
    served_model: str | None = None,
    extra_body: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    draft: str | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    device: str | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    threads: int | None = None,
    every: float | None = None,
    once: bool = False,
    metrics: str | None = None,
    alpha: float = 1e-6,
    detect: float = 0.05,
    weights: int = 0,
    seed: int = 0,
    progress: Say | None = None,
) -> WatchRun:
    """Watch a log that grows, or a server, until it strays from the target.

    Parameters
    ----------
    outputs
        A JSONL file: a request a line, with prompt and tokens (ids).
    target, draft
        The model whose law the tokens should follow; a proxy for the engine's draft.
    state
        Folder that keeps what was seen; a later call goes on from it.
    endpoint, prompts, max_tokens, served_model, extra_body, timeout
        Instead of ``outputs``: a server, what it is asked, tokens of one completion, its model,
        fields of every request beside these, seconds that one answer may take.
    temperature, top_k, top_p
        Of the law that the engine is asked for.
    device, dtype, threads
        Where and in what the target computes.
    every, once
        Seconds between looks or requests; whether to end where the log ends.
    metrics
        PORT or HOST:PORT at which numbers are served for Prometheus.
    alpha, detect
        Probability that there is ever a false alarm; deviation whose delay is told.
    weights
        One request in so many is scored with weights rounded to few bits, too; 0 for none.
    seed
        Of the randomised PITs.
    progress
        Receives a line when something happens.

    Returns
    -------
    WatchRun
        At an alarm, or with ``once`` at the end: ``run.verdict``, ``run.alarm``.

    Raises
    ------
    UsageError
        A value out of range, a state of another watch or that is damaged, a server that refuses.
    """
    options = WatchOptions(
        outputs=None if outputs is None else Path(outputs), endpoint=endpoint, state=Path(state),
        target=target, draft=draft, prompts=None if prompts is None else Path(prompts),
        max_tokens=max_tokens, served_model=served_model, temperature=temperature, top_k=top_k,
        top_p=top_p, device=device, dtype=dtype, threads=threads, every=every, once=once,
        metrics=metrics, alpha=alpha, detect=detect, weights=weights, seed=seed, timeout=timeout,
        extra_body=None if extra_body is None else json.dumps(extra_body),
    )  # fmt: skip
    with called_from_python():
        options_iv(options)
        return run_watch(options, progress or (lambda _line: None))


def options_iv(options: WatchOptions) -> None:
    """Raise ``UsageError`` for options that are missing, out of range or do not go together."""
    if (options.outputs is None) == (options.endpoint is None):
        raise OptionError("name what to watch, one of them: {outputs} or {endpoint}")
    if options.target is None:
        raise OptionError("{target} is missing: emitted tokens are judged by the target's rows")
    if options.state is None:
        raise OptionError("{state} is missing: a folder that keeps what was seen")
    if options.endpoint is not None and options.prompts is None:
        raise OptionError("{prompts} is missing: an endpoint is asked to answer them")
    extra_body_iv(options.extra_body)
    for name in ("prompts", "max_tokens", "served_model", "extra_body", "timeout"):
        if options.outputs is not None and getattr(options, name) is not None:
            raise OptionError(f"{{{name}}} is for {{endpoint}}: a log holds its prompts")
    if options.every is not None and not (0 < options.every < math.inf):
        raise UsageError(f"every is {options.every}: expected seconds, above 0")


def run_watch(options: WatchOptions, say: Say) -> WatchRun:
    """Watch as the options say, which were checked."""
    from simverify.emitted.watching.canary import WatchSettings
    from simverify.emitted.watching.metrics import address_of, serve
    from simverify.emitted.watching.run import Watch
    from simverify.emitted.watching.state import State
    from simverify.emitted.watching.telling import Watched, key_of

    settings = WatchSettings(options.alpha, options.detect, options.seed, options.weights)
    address = None if options.metrics is None else address_of(options.metrics)
    proxy = options.draft is not None
    name = options.endpoint or str(options.outputs)
    real = RealModels(
        target=options.target, draft=options.draft, temperature=options.temperature,
        top_k=options.top_k, top_p=options.top_p, device=options.device, dtype=options.dtype,
        threads=options.threads,
    )  # fmt: skip
    real.sampling()  # out of its range before anything is read
    say(settings.plan(proxy))
    pair = real.load()
    if options.weights and (kind := str(pair.target_model.dtype)) != "torch.float32":
        raise OptionError(
            f"{{weights}} is {options.weights} and the target computes in "
            f"{kind.removeprefix('torch.')}: what rounding of the rows may come to hides rounded "
            f"weights; {{dtype}} float32, or leave {{weights}} out"
        )
    folder = options.state
    assert folder is not None
    asker, log = None, options.outputs
    if options.endpoint is not None:
        asker = _asker(options, pair, folder, say)
        log = asker.file
    assert log is not None
    usual = 1.0 if asker is None else 10.0
    watched = Watched(
        name, log, folder, _command(options), asker, options.once, options.stay,
        usual if options.every is None else options.every,
    )  # fmt: skip
    with State(folder, key_of(pair, settings, name, proxy), settings, proxy) as state:
        running = Watch(watched, pair, settings, state, proxy=proxy, say=say)
        labels = {"source": name, "target": str(options.target)}
        end = None if address is None else serve(*address, running.metrics, labels)
        try:
            return running.run()
        except KeyboardInterrupt as interrupt:
            how = "interrupted" if type(interrupt) is KeyboardInterrupt else "ended by SIGTERM"
            raise KeyboardInterrupt(f"{how}; {running.fate}") from None
        finally:
            if asker is not None:
                asker.leave()
            if end is not None:
                end()


def _asker(options: WatchOptions, pair: "TransformerPair", folder: Path, say: Say) -> "Asker":
    from simverify.emitted import Endpoint
    from simverify.emitted.watching.asking import Asker
    from simverify.models.real.prompts import read_prompts

    assert options.endpoint is not None
    assert options.prompts is not None
    limit = Endpoint.max_tokens if options.max_tokens is None else options.max_tokens
    extra = extra_body_iv(options.extra_body)
    server = server_iv(options.endpoint, options.served_model, limit, extra, options.timeout)
    return Asker(server, read_prompts(options.prompts), pair, folder / "answers.jsonl", say)


def _command(options: WatchOptions) -> str:
    """Return the command that goes on with this life."""
    words = ["simverify", "watch"]
    first = ("outputs", "endpoint", "target", "state")
    names = (*first, *(name for name in vars(options) if name not in (*first, "threads")))
    for name in names:
        value = getattr(options, name)
        if value is not None and value is not False and value != getattr(WatchOptions, name):
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if value is True else [flag, str(value)]
    return shlex.join(words)
