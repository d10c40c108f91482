"""Installed packages, found without importing them."""

import importlib.util
from pathlib import Path


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
