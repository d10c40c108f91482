"""Folders that hold what simverify can make again, and folders of packages that are installed."""

import importlib.util
import os
import tempfile
from pathlib import Path

import platformdirs


def cache_folder(name: str) -> Path | None:
    """Return a writable folder for ``name``, or None if there is none (then nothing is kept).

    ``SIMVERIFY_CACHE_DIR`` names the root; otherwise it is the user's cache folder, or a
    folder of the user's own in the temporary one where the home is read-only.
    """
    if root := os.environ.get("SIMVERIFY_CACHE_DIR"):
        roots = [Path(root)]
    else:
        spare = Path(tempfile.gettempdir()) / f"simverify-{os.getuid()}"
        roots = [platformdirs.user_cache_path("simverify"), spare]
    return next((root / name for root in roots if _writable(root / name)), None)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid()


def find_package(name: str) -> Path | None:
    """Return the folder of an importable package, or the file of a module; None if absent.

    Nothing is imported.
    """
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # put into sys.modules by hand, without a spec
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return None if spec.origin is None else Path(spec.origin)


def find_source(spec: str) -> Path | None:
    """Return the file that ``spec``, module:attribute or path/file.py:attribute, names.

    None where it names none, as an engine does; no code is loaded. It need not be there.
    """
    where = spec.rpartition(":")[0]
    if not where or where.endswith(".py"):
        return Path(where) if where else None
    first, *rest = where.split(".")
    package = find_package(first) if first.isidentifier() else None
    if package is None:
        return None
    path = package.joinpath(*rest) if package.is_dir() else package
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
