"""What is put on trial from Python: a SPEC, or a callable with the name that finds it again."""

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from simverify.auditing.subject import Subject, load_subject
from simverify.errors import OptionError, UsageError

_HANDED_OVER: dict[str, Callable[..., Any]] = {}
"""Callables by the names under which they were audited: a replay calls them again."""


def subject_of(
    rule: Callable[..., Any] | str,
    checkout: str | None = None,
    *,
    seconds: float = 0.0,
    taken: str | None = None,
) -> tuple[str, Callable[[], Subject]]:
    """Return the name of the code under audit, and what loads it.

    ``taken``: a name that other code has.

    Raises ``UsageError`` for what is neither a SPEC nor callable.
    """
    if isinstance(rule, str):
        _HANDED_OVER.pop(rule, None)
        return rule, partial(load_subject, rule, checkout, seconds=seconds)
    if not callable(rule):
        raise UsageError(f"got {rule!r}: expected a callable or a SPEC")
    if checkout is not None:
        raise OptionError("{engine_path} is the checkout of an engine, which a SPEC names")
    name = spec_of(rule, Path.cwd()) or str(getattr(rule, "__qualname__", type(rule).__name__))
    if name == taken and _HANDED_OVER.get(name) is not rule:
        name += " (the other)"
    _HANDED_OVER[name] = rule
    return name, partial(Subject, name, rule, None)


def again(
    spec: str, checkout: str | None, modules: dict[str, Any] | None = None
) -> Callable[[], Subject]:
    """Return what loads the code of a run: the callable that was audited, or its SPEC.

    ``modules``: those that are loaded already.
    """
    if spec in _HANDED_OVER:
        return partial(Subject, spec, _HANDED_OVER[spec], None)
    return partial(load_subject, spec, checkout, modules=modules)


def spec_of(rule: Callable[..., Any], folder: Path, beside: Iterable[object] = ()) -> str | None:
    """Return a SPEC that a new process can load: a name at the top of a module's file, or None.

    Files are named from ``folder``; ``beside``: modules to look in, after the rule's own.
    """
    home = sys.modules.get(getattr(rule, "__module__", None) or "")
    for module in (home, *beside):
        if not isinstance(module, ModuleType):
            continue
        file, name = getattr(module, "__file__", None), _name_in(module, rule)
        if name is None or file is None or not file.endswith(".py"):
            continue
        return f"{os.path.relpath(file, folder)}:{name}"
    return None


def _name_in(module: ModuleType, rule: Callable[..., Any]) -> str | None:
    """Return the path of ``rule`` from the top of ``module``, if it has one."""
    qualified = str(getattr(rule, "__qualname__", ""))
    found: object = module
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if found is rule:
        return qualified
    return next((name for name, value in vars(module).items() if value is rule), None)
