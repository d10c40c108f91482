"""The engines by name: those of the catalogue, those of third parties, and which are installed."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from simverify.checks import pick_name
from simverify.engines import catalogue
from simverify.engines.base import Engine, file_sha256
from simverify.errors import SimverifyError
from simverify.folders import find_package

ENTRY_POINT_GROUP = "simverify.verifiers"
"""Entry points of other distributions: a ``verify`` callable, or an :class:`Engine`."""


def _catalogue() -> Iterator[Engine]:
    """Yield the engines that stand at the top of the catalogue's files, alone or in tuples."""
    for file in pkgutil.iter_modules(catalogue.__path__, f"{catalogue.__name__}."):
        for value in vars(importlib.import_module(file.name)).values():
            values = value if isinstance(value, tuple) else (value,)
            yield from (one for one in values if isinstance(one, Engine))


ENGINES: dict[str, Engine] = {engine.name: engine for engine in _catalogue()}


@dataclass(frozen=True)
class InstalledEngine:
    """A row of ``simverify engines``; ``version`` and ``sha256`` are None where it is absent.

    ``sha256`` is the function's source file's; ``missing`` what else it needs.
    """

    name: str
    package: str
    function: str
    contract: str
    tier: str
    version: str | None
    sha256: str | None
    missing: tuple[str, ...]


def get_engine(name: str) -> Engine:
    """Return the engine of that name, built in or added by an installed distribution.

    Raises ``UsageError`` with the nearest name if it is unknown, and ``SimverifyError`` if an
    entry point does not load.
    """
    known = pick_name(name, engine_names(), "engine")
    return ENGINES[known] if known in ENGINES else _from_entry_point(_entry_points()[known])


def engine_names() -> list[str]:
    """Return the names of all engines that are known, installed or not."""
    return [*ENGINES, *_entry_points()]


def installed_engines() -> tuple[InstalledEngine, ...]:
    """Return every known engine with its version and hash, importing none of the built-in ones.

    An entry point's source is found without importing it; its tier is known once it is loaded.
    """
    return tuple(_installed_engine(unloaded_engine(name)) for name in engine_names())


def unloaded_engine(name: str) -> Engine:
    """As :func:`get_engine`, and no code of another distribution runs.

    Of an entry point that names an :class:`Engine`, what that says is not known yet.
    """
    known = pick_name(name, engine_names(), "engine")
    return ENGINES[known] if known in ENGINES else _unloaded_engine(_entry_points()[known])


def _installed_engine(engine: Engine) -> InstalledEngine:
    path, provider = engine.find(), engine.provider
    return InstalledEngine(
        name=engine.name,
        package=engine.distribution or engine.package if provider is None else provider[0],
        function=engine.where,
        contract=engine.contract,
        tier=engine.tier,
        version=None if provider is None else provider[1],
        sha256=None if path is None else file_sha256(path),
        missing=engine.lacking,
    )


def _entry_points() -> dict[str, EntryPoint]:
    """Entry points by name; a built-in name cannot be taken over."""
    return {
        point.name: point
        for point in entry_points(group=ENTRY_POINT_GROUP)
        if point.name not in ENGINES
    }


def _from_entry_point(point: EntryPoint) -> Engine:
    try:
        loaded = point.load()
    except Exception as error:
        raise SimverifyError(
            f"engine {point.name!r} ({point.value}) does not load: {type(error).__name__}: {error}"
        ) from error
    if isinstance(loaded, Engine):
        return loaded
    if not callable(loaded):
        raise SimverifyError(
            f"engine {point.name!r} ({point.value}) is a {type(loaded).__name__}: an entry point "
            f"in {ENTRY_POINT_GROUP} names a verify callable or an Engine"
        )
    return _unloaded_engine(point)


def _unloaded_engine(point: EntryPoint) -> Engine:
    """Take an entry point for a ``verify`` callable, which is what it is unless it says more."""
    package, *rest = point.module.split(".")
    folder = find_package(package)
    source = ""
    if folder is not None and folder.is_dir():
        files = ("/".join([*rest, "__init__.py"]), "/".join(rest) + ".py")
        source = next((file for file in files if (folder / file).is_file()), files[0])
    return Engine(
        name=point.name,
        package=package,
        source=source,
        function=point.attr,
        contract="verify",
        tier="exact",
        tolerance=1e-9,
        loader=lambda path: point.load(),
        whole=True,
        distribution="" if point.dist is None else point.dist.name,
    )
