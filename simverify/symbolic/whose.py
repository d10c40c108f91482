"""Whose code a frame runs: this package's machinery, a library's, or the code's under audit."""

import os
import sys
from pathlib import Path

_ON_TRIAL = ("backends", "faults", "verifiers")
"""Rooms of this package whose code is put under audit like anyone else's."""

_HOME = Path(__file__).parents[1]
_MACHINERY = tuple(
    f"{folder}{os.sep}"
    for folder in sorted(_HOME.iterdir())
    if folder.is_dir() and folder.name not in _ON_TRIAL
)
_LIBRARIES = frozenset({"numba", "numpy", "scipy", "torch"}) | sys.stdlib_module_names


def is_ours(module: str) -> bool:
    """Whether a module of that dotted name is this package's own machinery."""
    package, _, rest = module.partition(".")
    return package == "simverify" and rest.partition(".")[0] not in _ON_TRIAL


def is_library(module: str) -> bool:
    """Whether a module of that dotted name belongs to Python or to what draws are made with."""
    return module.partition(".")[0] in _LIBRARIES


def is_users_file(file: str) -> bool:
    """Whether a source file can be the code's under audit: neither ours nor an installed one."""
    installed = "site-packages" in file or "/lib/python3" in file or file.startswith("<")
    return not installed and not file.startswith(_MACHINERY)
