"""``simverify.bisect``: which release, or which commit, changed the law."""

import shlex
from pathlib import Path

from simverify.errors import OptionError
from simverify.options.modes import keywords
from simverify.options.surveys import BisectOptions, SizeOptions
from simverify.results import BisectRun
from simverify.surveying.bisecting.commits import Commits
from simverify.surveying.bisecting.releases import Releases
from simverify.surveying.bisecting.run import bisect as search
from simverify.surveying.bisecting.sources import code_of
from simverify.surveying.settings import size_words


@keywords(BisectOptions)
def bisect(options: BisectOptions) -> BisectRun:
    """Find the first release, or commit, after ``good`` whose law differs from its.

    Every version is audited in an environment of its own, with the same seed: pip installs a
    release there, or what a commit asks for, which is checked out in a clone. One that cannot be
    installed is ``untestable``, and gone around.

    Returns
    -------
    BisectRun
        ``run.outcome``, ``run.first``, ``run.how``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A version that is unknown or cannot be judged, or ``good`` is not good.
    """
    return run_bisect(options)


def run_bisect(options: BisectOptions) -> BisectRun:
    """As :func:`bisect`, whose errors name options as the command line does."""
    if options.good is None or options.bad is None:
        raise OptionError("{good} and {bad} are both needed: two releases, or two commits")
    if options.engine_path is not None and options.package is not None:
        raise OptionError("{package} is for releases: {engine_path} names commits")
    code = code_of(str(options.spec))
    if code.engine is not None and options.contract is not None:
        raise OptionError("{contract} is not for an engine, which has its own")
    return search(
        code,
        Releases(code, options.package)
        if options.engine_path is None
        else Commits(code, Path(options.engine_path)),
        options.good,
        options.bad,
        what=options.what,
        contract=options.contract,
        sizes=options,
        reproduce=_command(options),
        progress=options.progress,
    )


def _command(options: BisectOptions) -> str:
    words = ["--good", str(options.good), "--bad", str(options.bad)]
    words += options.words(without=("spec", "good", "bad", *SizeOptions.names()))
    return shlex.join(["simverify", "bisect", str(options.spec), *words, *size_words(options)])
