"""What each engine would need to be audited, and which of them are here."""

from collections.abc import Iterator

from simverify.surveying.settings import TableSettings
from simverify.surveying.table import Candidate, candidates


def needs(settings: TableSettings) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each engine's name, and in words where it is, or how to get it."""
    for one in candidates(settings.engines, settings.folders):
        alone = ("runs on an NVIDIA GPU alone",) if one.engine.gpu else ()
        yield one.engine.name, (_where(one), f"get it by: {one.engine.how_to_get}", *alone)


def _where(one: Candidate) -> str:
    engine, place = one.engine, one.place
    if place is None and one.missing:
        return f"installed, needs {' and '.join(one.missing)} too"
    if place is None:
        return "not here"
    if place.folder is None:
        versions = f"; adapter for {engine.versions}" if engine.versions else ""
        name, found = engine.provider or ("", "no version")
        other = "" if name in ("", engine.distribution or engine.package) else f"{name} "
        return f"here: {other}{found} installed{versions}"
    lacks = f"; needs {' and '.join(place.missing)} too" if place.missing else ""
    return f"here: {named(place.version, place.commit)} in {place.folder}{lacks}"


def named(version: str | None, commit: str | None) -> str:
    """Return a version, else a commit cut short, else "checkout"."""
    if version is not None or commit is None:
        return version or "checkout"
    return commit[:10] + (" edited" if commit.endswith(" edited") else "")
