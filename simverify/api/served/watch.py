"""``simverify.watch``: an alarm when a server strays from its target, one rate for its life."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from simverify.api.real import RealModels
from simverify.api.served.server import extra_body_iv, server_of
from simverify.errors import OptionError
from simverify.options.modes import keywords
from simverify.options.option import words_of
from simverify.options.served import WatchOptions
from simverify.results import WatchRun

if TYPE_CHECKING:
    from simverify.emitted.watching.asking import Asker
    from simverify.models.real.transformer import TransformerPair


@keywords(WatchOptions)
def watch(options: WatchOptions) -> WatchRun:
    """Watch a log that grows, or a server, until it strays from the target.

    Returns
    -------
    WatchRun
        At an alarm, or with ``once`` at the end: ``run.verdict``, ``run.alarm``.

    Raises
    ------
    UsageError
        A value out of range, a state of another watch or that is damaged, a server that refuses.
    """
    watch_iv(options)
    return run_watch(options)


def watch_iv(options: WatchOptions) -> None:
    """Raise ``UsageError`` for options that are missing, out of range or do not go together."""
    if (options.outputs is None) == (options.endpoint is None):
        raise OptionError("name what to watch, one of them: {outputs} or {endpoint}")
    if options.target is None:
        raise OptionError("{target} is missing: emitted tokens are judged by the target's rows")
    if options.state is None:
        raise OptionError("{state} is missing: a folder that keeps what was seen")
    if options.endpoint is not None and options.prompts is None:
        raise OptionError("{prompts} is missing: an endpoint is asked to answer them")
    extra_body_iv(options)
    for name in ("prompts", "max_tokens", "served_model", "extra_body", "timeout"):
        if options.outputs is not None and getattr(options, name) is not None:
            raise OptionError(f"{{{name}}} is for {{endpoint}}: a log holds its prompts")


def run_watch(options: WatchOptions) -> WatchRun:
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
    real = RealModels.of(options)
    real.sampling()  # out of its range before anything is read
    options.say(settings.plan(proxy))
    pair = real.load()
    if options.weights and (kind := str(pair.target_model.dtype)) != "torch.float32":
        raise OptionError(
            f"{{weights}} is {options.weights} and the target computes in "
            f"{kind.removeprefix('torch.')}: what rounding of the rows may come to hides rounded "
            f"weights; {{dtype}} float32, or leave {{weights}} out"
        )
    assert options.state is not None
    folder = Path(options.state)
    asker = None if options.endpoint is None else _asker(options, pair, folder)
    log = Path(options.outputs or "") if asker is None else asker.file
    usual = 1.0 if asker is None else 10.0
    watched = Watched(
        name, log, folder, _command(options), asker, options.once, options.stay,
        usual if options.every is None else options.every,
    )  # fmt: skip
    with State(folder, key_of(pair, settings, name, proxy), settings, proxy) as state:
        running = Watch(watched, pair, settings, state, proxy=proxy, say=options.say)
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


def _asker(options: WatchOptions, pair: "TransformerPair", folder: Path) -> "Asker":
    from simverify.emitted import Endpoint
    from simverify.emitted.watching.asking import Asker
    from simverify.models.real.prompts import read_prompts

    assert options.endpoint is not None
    assert options.prompts is not None
    limit = Endpoint.max_tokens if options.max_tokens is None else options.max_tokens
    server = server_of(options, options.endpoint, limit)
    prompts = read_prompts(Path(options.prompts))
    return Asker(server, prompts, pair, folder / "answers.jsonl", options.say)


def _command(options: WatchOptions) -> str:
    """Return the command that goes on with this life."""
    first = ("outputs", "endpoint", "target", "state")
    words = [word for name in first for word in words_of(name, getattr(options, name))]
    words += options.words(without=(*first, "threads"))
    return shlex.join(["simverify", "watch", *words])
