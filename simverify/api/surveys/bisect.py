"""``simverify.bisect``: which release, or which commit, changed the law."""

import shlex
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Literal

from simverify.api.surveys.options import BisectOptions
from simverify.api.surveys.table import sizes_of
from simverify.api.ways import called_from_python
from simverify.errors import OptionError
from simverify.results import BisectRun
from simverify.surveying.bisecting.commits import Commits
from simverify.surveying.bisecting.releases import Releases
from simverify.surveying.bisecting.run import bisect as search
from simverify.surveying.bisecting.sources import code_of
from simverify.surveying.settings import LIMIT

Say = Callable[[str], None]


def bisect(
    spec: str,
    good: str,
    bad: str,
    *,
    engine_path: str | PathLike[str] | None = None,
    package: str | None = None,
    contract: Literal["verify", "step", "tree", "draft"] | None = None,
    what: Literal["law", "verdict"] = "law",
    gamma: int | None = None,
    vocab: int | None = None,
    seconds: float | None = None,
    limit: float = LIMIT,
    seed: int = 0,
    progress: Say | None = None,
) -> BisectRun:
    """Find the first release, or commit, after ``good`` whose law differs from its.

    Every version is audited in an environment of its own, with the same seed: pip installs a
    release there, or what a commit asks for, which is checked out in a clone. One that cannot be
    installed is ``untestable``, and gone around.

    Parameters
    ----------
    spec
        An engine, ``module:attr``, or ``path/file.py:attr`` of a checkout.
    good, bad
        Releases, or commits; ``bad`` is the later one.
    engine_path
        A checkout with its git history, whose commits are searched; releases if not given.
    package
        What pip calls the package; by default the engine's, or the first part of a module's name.
    contract
        Of a module's or a file's attribute.
    what
        "law": the verdict, or the deviation or E[tau] on an instance, has changed; "verdict": the
        verdict alone.
    gamma, vocab, seconds, limit, seed
        As of :func:`simverify.table`, for each audit.
    progress
        Receives a line when an audit has ended.

    Returns
    -------
    BisectRun
        ``run.outcome``, ``run.first``, ``run.how``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A version that is unknown or cannot be judged, or ``good`` is not good.
    """
    options = BisectOptions(
        good=good, bad=bad, engine_path=None if engine_path is None else Path(engine_path),
        package=package, contract=contract, what=what, gamma=gamma, vocab=vocab, seconds=seconds,
        limit=limit, seed=seed,
    )  # fmt: skip
    with called_from_python():
        return run_bisect(spec, options, progress=progress)


def run_bisect(spec: str, options: BisectOptions, *, progress: Say | None = None) -> BisectRun:
    """As :func:`bisect`, with its options as the command line has them."""
    if options.good is None or options.bad is None:
        raise OptionError("{good} and {bad} are both needed: two releases, or two commits")
    if options.engine_path is not None and options.package is not None:
        raise OptionError("{package} is for releases: {engine_path} names commits")
    sizes, code = sizes_of(options), code_of(spec)
    if code.engine is not None and options.contract is not None:
        raise OptionError("{contract} is not for an engine, which has its own")
    return search(
        code,
        Releases(code, options.package)
        if options.engine_path is None
        else Commits(code, options.engine_path),
        options.good,
        options.bad,
        what=options.what,
        contract=options.contract,
        sizes=sizes,
        reproduce=_command(spec, options, sizes.given()),
        progress=progress,
    )


def _command(spec: str, options: BisectOptions, sizes: list[str]) -> str:
    words = ["simverify", "bisect", spec, "--good", str(options.good), "--bad", str(options.bad)]
    for name in ("engine_path", "package", "contract"):
        value = getattr(options, name)
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    words += ["--what", options.what] if options.what != BisectOptions.what else []
    return shlex.join([*words, *sizes])
