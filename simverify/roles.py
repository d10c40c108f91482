"""What each module of this package is to an audit, as the modules themselves say.

``__simverify_role__ = "..."`` at the top of a module holds for that module, in the ``__init__`` of
a package for all that lies within, unless that says otherwise. What lies directly under
``simverify`` says its role; deeper modules may. Marks are read from the sources, so nothing is
imported, and code under audit cannot change them.
"""

__simverify_role__ = "shared"


import importlib.util
import os
import re
from functools import cache
from pathlib import Path
from typing import Literal, cast, get_args

Role = Literal[
    "under test",  # audited like anyone else's code: rules, faults
    "adapter",  # puts an engine's function under the contracts
    "wrapper",  # what adapters share and wrap any code in
    "kernels",  # runs an engine's GPU kernels on the CPU
    "stand-in",  # takes the place of a library's functions and numbers while code is followed
    "machinery",  # neither audited nor called by what is
    "interface",  # machinery that no number of a result comes from
    "shared",  # the rest: code under test may call it
]

_MARK = re.compile(r'^__simverify_role__ = "(.*)"$', re.MULTILINE)
_PACKAGE = __name__.partition(".")[0]
_BESIDE = ("reports", "simulators", "stats")
"""Packages that a checkout has beside this one and an installed one within it; as in setup.py."""


@cache
def folders() -> dict[str, Path]:
    """Return the folder of ``simverify`` and of each package that may lie elsewhere, by name."""
    names = (_PACKAGE, *(f"{_PACKAGE}.{name}" for name in _BESIDE))
    specs = {name: importlib.util.find_spec(name) for name in names}
    if missing := [name for name, spec in specs.items() if spec is None]:
        raise RuntimeError(f"no package {', '.join(missing)}: name what there is in {__file__}")
    return {
        name: Path(next(iter(spec.submodule_search_locations or ())))
        for name, spec in specs.items()
        if spec is not None
    }


@cache
def role_of_module(name: str) -> Role | None:
    """Return the role of a module by its dotted name; None if it is not of this package."""
    if name.partition(".")[0] != _PACKAGE:
        return None
    parent, source = name.rpartition(".")[0], _source(name)
    if source is not None:
        if marks := sorted(set(_MARK.findall(source.read_text(encoding="utf-8")))):
            if len(marks) > 1 or marks[0] not in get_args(Role):
                roles = " and ".join(map(repr, marks))
                raise RuntimeError(f"{source} has the role {roles}: set {_CHOICE}")
            return cast("Role", marks[0])
        if parent in ("", _PACKAGE):
            raise RuntimeError(f"{source} has no role: set {_CHOICE}")
    return role_of_module(parent)


_CHOICE = f"__simverify_role__ to one of {', '.join(map(repr, get_args(Role)))}"


@cache
def role_of_file(file: str) -> Role | None:
    """Return the role of a source file, or of one that would lie there; None if not ours."""
    for name, folder in folders().items():
        if file.startswith(f"{folder}{os.sep}"):
            inside = file[len(str(folder)) + 1 :].removesuffix(".py").removesuffix("__init__")
            return role_of_module(".".join((name, *filter(None, inside.split(os.sep)))))
    return None


def _source(name: str) -> Path | None:
    """Return the file of a module, or of a package's ``__init__``; None if there is none."""
    package = max((x for x in folders() if f"{name}.".startswith(f"{x}.")), key=len)
    path = folders()[package].joinpath(*name[len(package) + 1 :].split("."))
    files = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((file for file in files if file.is_file()), None)
