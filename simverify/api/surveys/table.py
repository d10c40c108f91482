"""``simverify.table``: every engine that is here on trial, side by side."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from simverify.errors import OptionError, quoted
from simverify.options.modes import keywords
from simverify.options.option import PathName
from simverify.options.surveys import TableOptions
from simverify.results import TableRun
from simverify.surveying.settings import TableSettings
from simverify.surveying.table import make_table


@keywords(TableOptions)
def table(options: TableOptions) -> TableRun:
    """Audit every engine that is installed or lies under ``engine_path``, in parallel processes.

    An engine that does not load, crashes or takes too long has a row that says so.

    Returns
    -------
    TableRun
        ``run.rows``, ``run.verdict``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A name that is unknown, a folder that does not exist, a value out of range, no engine.
    """
    return make_table(settings_of(options), progress=options.progress)


def settings_of(options: TableOptions) -> TableSettings:
    """Return the settings of a table.

    Raises ``UsageError`` for a value out of range, or a folder that does not exist.
    """
    names = None if options.engines is None else tuple(_listed(options.engines, "engines"))
    folders = [Path(name) for name in _listed(options.engine_path, "engine_path")]
    return TableSettings(
        sizes=options, engines=names, folders=tuple(folders), jobs=options.jobs,
        audits=None if options.audits is None else Path(options.audits),
    )  # fmt: skip


def _listed(given: Sequence[PathName] | PathName | None, option: str) -> list[str]:
    """Return the names of an option; ``OptionError`` if one of a comma-separated text is empty."""
    if given is None:
        return []
    if isinstance(given, PathLike) or not isinstance(given, str):
        return [str(name) for name in ([given] if isinstance(given, PathLike) else given)]
    words = [word.strip() for word in given.split(",")]
    if not all(words):
        raise OptionError(f"{{{option}}} is {quoted(given)}: expected names, comma-separated")
    return words
