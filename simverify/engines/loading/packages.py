"""A package or a file imported whole from where it lies: code that cannot be taken apart."""

import importlib
import importlib.util
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from simverify.errors import SimverifyError
from simverify.symbolic.whose import put_on_trial


def import_package(folder: Path, on_trial: Sequence[str]) -> ModuleType:
    """Import a package from its folder, put some of its files under audit, and quiet its advice.

    Parameters
    ----------
    folder
        The package's own folder, installed or in a checkout.
    on_trial
        Files whose lines are the code under audit, relative to the folder; what else it has is a
        library.

    Raises ``SimverifyError`` if a package of that name was imported from elsewhere before: Python
    keeps the first.
    """
    found = sys.modules.get(folder.name)
    if found is None:
        sys.path.insert(0, str(folder.parent))
        try:
            found = importlib.import_module(folder.name)
        finally:
            sys.path.remove(str(folder.parent))
    place = Path(str(found.__file__)).parent
    if place.resolve() != folder.resolve():
        raise SimverifyError(
            f"{folder.name} of {place} is imported already, and {folder} is asked for: "
            "audit it in a process of its own"
        )
    # Advice to whoever writes the call, which is ours, and once more in every process.
    logging.getLogger(folder.name).setLevel(logging.ERROR)
    for file in on_trial:
        put_on_trial(place / file)
    return found


def load_file(path: Path, name: str) -> Any:
    """Import one file as module ``name``, without the package it lies in."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SimverifyError(f"{path} is not a Python file: name the engine's source")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
