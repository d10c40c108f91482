"""What differs between two recorded runs, and matters."""

from collections.abc import Iterator
from typing import Any

import msgspec

from simverify.baselines.check import check_baseline
from simverify.baselines.items import Check
from simverify.baselines.sweeps import sweep_check
from simverify.errors import UsageError
from simverify.record.entry import Entry
from simverify.record.machine import memory_words
from simverify.results import Document, SweepRun

_TOLD = ("command", "title", "verdict", "words", "seed", "version", "machine", "python")
_OF_MACHINE = ("host", "system", "processor", "cores", "memory", "gpu")
_SHOWN = 12
"""Figures of a hash."""

_MOST_NAMES = 10
"""Cells that one of two sweeps alone has, each in a line."""


def differences(
    old: tuple[Entry, Document], new: tuple[Entry, Document], *, verbose: bool = False
) -> tuple[tuple[str, ...], Check | None]:
    """Return lines that say what differs, and the tests of the two where they compare.

    Documents that are equal but for ``meta`` are said to be, and nothing of them is tested.
    ``verbose``: name every cell that one of two sweeps alone has.
    """
    lines = list(_told(old[0], new[0]))
    if _plain(old[1]) == _plain(new[1]):
        return (*lines, "the documents are equal, but for times and machine"), None
    try:
        if isinstance(old[1], SweepRun) and isinstance(new[1], SweepRun):
            found = sweep_check(old[1], new[1])
            for names, which in ((found.only_old, "first"), (found.only_new, "second")):
                lines += _one_sided(names, which, len(names) if verbose else _MOST_NAMES)
            return tuple(lines), found.check
        return tuple(lines), check_baseline(old[1], new[1])
    except UsageError as error:
        return (*lines, str(error)), None


def _told(old: Entry, new: Entry) -> Iterator[str]:
    for name in _TOLD:
        what = "command line" if name == "words" else name
        yield from _moved(what, getattr(old, name), getattr(new, name))
    if (old.host is None) != (new.host is None):
        which = "second" if old.host is None else "first"
        yield f"machine and packages: known of the {which} run alone"
    elif old.host is not None:
        for name in _OF_MACHINE:
            a, b = getattr(old, name), getattr(new, name)
            shown = (memory_words(a), memory_words(b)) if name == "memory" else (a, b)
            yield from _moved(name, *shown)
        for name in old.packages | new.packages:
            yield from _moved(name, old.packages.get(name), new.packages.get(name))
    if None not in (old.sources_sha256, new.sources_sha256):
        yield from _moved("sources of simverify", old.sources_sha256, new.sources_sha256, _SHOWN)
    yield from _codes(old, new)


def _codes(old: Entry, new: Entry) -> Iterator[str]:
    """Yield what changed of the code that both runs were about, or that one alone tells of."""
    before = {code.spec: code for code in old.code}
    for code in new.code:
        was = before.get(code.spec)
        if was is not None:
            yield from _moved(f"code of {code.spec}", was.sha256, code.sha256, _SHOWN)
            yield from _moved(f"package of {code.spec}", was.package, code.package)
            yield from _moved(f"commit of {code.spec}", was.commit, code.commit)
    if bool(old.code) != bool(new.code):
        one, which = (old.code, "first") if old.code else (new.code, "second")
        yield f"code: known of the {which} run alone, {(one[0].sha256 or 'no hash')[:_SHOWN]}"


def _moved(what: str, old: object, new: object, longest: int | None = None) -> Iterator[str]:
    if old != new:
        a, b = (str(_or_none(value))[:longest] for value in (old, new))
        yield f"{what}: {a} -> {b}"


def _one_sided(names: tuple[str, ...], which: str, most: int) -> Iterator[str]:
    for name in names[:most]:
        yield f"{name}: in the {which} run alone"
    if names[most:]:
        yield f"{len(names) - most:,} more in the {which} run alone: --verbose"


def _or_none(value: object) -> object:
    return "none" if value in (None, "") else value


def _plain(run: Document) -> Any:
    plain = msgspec.to_builtins(run)
    return {key: value for key, value in plain.items() if key != "meta"}
