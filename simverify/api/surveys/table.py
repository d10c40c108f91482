"""``simverify.table``: every engine that is here on trial, side by side."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

from simverify.api.surveys.options import SizeOptions, TableOptions
from simverify.api.ways import called_from_python
from simverify.errors import OptionError, quoted
from simverify.results import TableRun
from simverify.surveying.settings import LIMIT, AuditSizes, TableSettings
from simverify.surveying.table import make_table

Say = Callable[[str], None]
Folder = str | PathLike[str]


def table(
    engines: Sequence[str] | str | None = None,
    *,
    engine_path: Sequence[Folder] | Folder | None = None,
    jobs: int | None = None,
    audits: Folder | None = None,
    gamma: int | None = None,
    vocab: int | None = None,
    seconds: float | None = None,
    limit: float = LIMIT,
    seed: int = 0,
    progress: Say | None = None,
) -> TableRun:
    """Audit every engine that is installed or lies under ``engine_path``, in parallel processes.

    An engine that does not load, crashes or takes too long has a row that says so.

    Parameters
    ----------
    engines
        Names of engines, all that are known by default. One that is named and is not here counts
        as not loaded.
    engine_path
        Checkouts, or folders of checkouts under their repositories' names.
    jobs
        Audits at a time; by default one a core.
    audits
        A folder that keeps each audit's own result file, as NAME.json.
    gamma, vocab
        Largest draft length (1 to 4) and vocabulary (2 to 12) of the instances; an engine's own
        limits hold too.
    seconds
        Limit of each tier of an audit, which only aborts, to INCONCLUSIVE.
    limit
        Seconds of wall clock after which an audit is stopped.
    seed
        Of every audit: the same seed gives the same table.
    progress
        Receives a line when an audit has ended.

    Returns
    -------
    TableRun
        ``run.rows``, ``run.verdict``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A name that is unknown, a folder that does not exist, a value out of range, no engine.
    """
    names = engines if engines is None or isinstance(engines, str) else ",".join(engines)
    paths: Sequence[Folder] = (
        [engine_path] if isinstance(engine_path, str | PathLike) else engine_path or []
    )
    options = TableOptions(
        engines=names, jobs=jobs, audits=None if audits is None else Path(audits),
        gamma=gamma, vocab=vocab, seconds=seconds, limit=limit, seed=seed,
    )  # fmt: skip
    with called_from_python():
        settings = settings_of(options, [Path(path) for path in paths])
    return make_table(settings, progress=progress)


def settings_of(options: TableOptions, folders: Sequence[Path] | None = None) -> TableSettings:
    """Return the settings of a table; ``folders`` take the place of what ``engine_path`` names.

    Raises ``UsageError`` for a value out of range, or a folder that does not exist.
    """
    if folders is None:
        folders = [Path(word) for word in listed(options.engine_path, "engine_path")]
    names = None if options.engines is None else tuple(listed(options.engines, "engines"))
    return TableSettings(
        sizes=sizes_of(options), engines=names, folders=tuple(folders), jobs=options.jobs,
        audits=options.audits,
    )  # fmt: skip


def sizes_of(options: SizeOptions) -> AuditSizes:
    """Return what every audit of a survey is given."""
    return AuditSizes(
        gamma=options.gamma, vocab=options.vocab, seconds=options.seconds, limit=options.limit,
        seed=options.seed,
    )  # fmt: skip


def listed(text: str | None, option: str) -> list[str]:
    """Return the words of a comma-separated option; ``OptionError`` if one is empty."""
    words = [] if text is None else [word.strip() for word in text.split(",")]
    if not all(words):
        raise OptionError(f"{{{option}}} is {quoted(text)}: expected names, comma-separated")
    return words
