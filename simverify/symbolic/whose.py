"""Whose code a frame runs: this package's machinery, a library's, or the code's under audit."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

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


def users_line() -> str:
    """``file:line`` of the innermost frame that is neither ours nor a library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not is_ours(module) and not is_library(module):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if module == "simverify.symbolic.enumeration.engine":
            return ""
        frame = frame.f_back
    return ""


def user_line(error: BaseException) -> str:
    """`` (file:line)`` of the innermost user code in the traceback, or nothing."""
    trace = error.__traceback__
    found = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        module = trace.tb_frame.f_globals.get("__name__", "")
        if is_users_file(file) and not (is_ours(module) or is_library(module)):
            found = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found
