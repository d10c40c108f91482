"""How a survey runs its audits: sizes, limits, how many at a time."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simverify.checks import MAX_SECONDS, ranges_iv
from simverify.engines import Engine
from simverify.errors import UsageError

MAX_GAMMA, MAX_VOCAB = 4, 12
MAX_JOBS = 256
LIMIT = 600.0
"""Seconds of wall clock for one audit: ten times what one should take."""


@dataclass(frozen=True)
class AuditSizes:
    """What every audit of a survey is given; None: the audit's own, or the engine's.

    ``gamma``, ``vocab``: the largest of the instances. ``seconds``: limit of each tier.
    ``limit``: seconds of wall clock, after which an audit is stopped.
    """

    gamma: int | None = None
    vocab: int | None = None
    seconds: float | None = None
    limit: float = LIMIT
    seed: int = 0

    def __post_init__(self) -> None:
        gamma, vocab, seconds = self.gamma, self.vocab, self.seconds
        ranges_iv(
            (
                ("gamma", gamma, gamma is None or 1 <= gamma <= MAX_GAMMA, f"1 to {MAX_GAMMA}"),
                ("vocab", vocab, vocab is None or 2 <= vocab <= MAX_VOCAB, f"2 to {MAX_VOCAB}"),
                ("seconds", seconds, seconds is None or 0 < seconds <= MAX_SECONDS,
                 f"more than 0, {MAX_SECONDS:g} at most"),
                ("limit", self.limit, 0 < self.limit <= MAX_SECONDS,
                 f"more than 0, {MAX_SECONDS:g} at most"),
                ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
            )
        )  # fmt: skip

    def words(self, engine: Engine | None = None) -> list[str]:
        """Return the options of an audit; of an engine's, sizes are its own at most."""
        own_gamma = None if engine is None else engine.gamma
        own_vocab = None if engine is None else engine.vocab
        given = {
            "--gamma": _least(self.gamma, own_gamma),
            "--vocab": _least(self.vocab, own_vocab),
            "--seconds": self.seconds,
            "--seed": self.seed,
        }
        return [w for name, x in given.items() if x is not None for w in (name, str(x))]

    def given(self) -> list[str]:
        """Return the options that make these sizes, where they are no defaults."""
        default = AuditSizes()
        return [
            word
            for name, value in vars(self).items()
            if value != getattr(default, name)
            for word in (f"--{name}", f"{value:g}" if name == "limit" else str(value))
        ]


@dataclass(frozen=True)
class TableSettings:
    """How a table is made.

    ``engines``: names; None for all. ``folders``: checkouts, or folders of checkouts. ``jobs``:
    audits at a time; None for one a core. ``audits``: a folder for each audit's own document.
    """

    sizes: AuditSizes
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
        return shlex.join([*words, *self.sizes.given()])


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
