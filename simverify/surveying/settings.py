"""How a survey runs its audits: sizes, limits, how many at a time."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simverify.checks import ranges_iv
from simverify.engines import Engine
from simverify.errors import UsageError
from simverify.options.option import words_of
from simverify.options.surveys import SizeOptions

MAX_JOBS = 256


def audit_words(sizes: SizeOptions, engine: Engine | None = None) -> list[str]:
    """Return the options of an audit of these sizes; of an engine's, they are its own at most."""
    given = {
        "gamma": _least(sizes.gamma, None if engine is None else engine.gamma),
        "vocab": _least(sizes.vocab, None if engine is None else engine.vocab),
        "seconds": sizes.seconds,
        "seed": sizes.seed,
    }
    return [word for name, value in given.items() for word in words_of(name, value)]


def size_words(sizes: SizeOptions) -> list[str]:
    """Return the options that make these sizes, where they are no defaults."""
    default = SizeOptions()
    values = {name: getattr(sizes, name) for name in SizeOptions.names()}
    given = {name: value for name, value in values.items() if value != getattr(default, name)}
    return [
        word
        for name, value in given.items()
        for word in words_of(name, f"{value:g}" if name == "limit" else value)
    ]


@dataclass(frozen=True)
class TableSettings:
    """How a table is made.

    ``engines``: names; None for all. ``folders``: checkouts, or folders of checkouts. ``jobs``:
    audits at a time; None for one a core. ``audits``: a folder for each audit's own document.
    """

    sizes: SizeOptions
    engines: tuple[str, ...] | None = None
    folders: tuple[Path, ...] = ()
    jobs: int | None = None
    audits: Path | None = None

    def __post_init__(self) -> None:
        jobs = self.jobs
        ranges_iv((("jobs", jobs, jobs is None or 1 <= jobs <= MAX_JOBS, f"1 to {MAX_JOBS}"),))
        folders_iv(self.folders)
        names = self.engines or ()
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"engine {name!r} is named twice: name each once")

    @property
    def at_a_time(self) -> int:
        """So many audits run side by side."""
        return self.jobs or cores()

    def command(self) -> str:
        """Return the command that makes the table again, run where the checkouts are."""
        words = ["simverify", "table"]
        words += ["--engines", ",".join(self.engines)] if self.engines else []
        if self.folders:
            words += ["--engine-path", ",".join(folder.name or "." for folder in self.folders)]
        return shlex.join([*words, *size_words(self.sizes)])


def folders_iv(folders: Sequence[Path]) -> None:
    """Raise ``UsageError`` for the first that is no folder."""
    for folder in folders:
        if not folder.is_dir():
            what = "is a file" if folder.is_file() else "does not exist"
            raise UsageError(f"{folder} {what}: name a checkout, or a folder of checkouts")


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _least(*sizes: int | None) -> int | None:
    return min((size for size in sizes if size is not None), default=None)
