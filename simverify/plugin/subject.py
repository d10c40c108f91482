"""What a test puts on trial: its name, and the command that repeats the audit."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject, load_subject
from simverify.errors import UsageError


def find_subject(rule: Callable[..., Any] | str, request: pytest.FixtureRequest) -> Subject:
    """Return the code under audit, named by a SPEC wherever one can name it."""
    if isinstance(rule, str):
        return load_subject(rule)
    if not callable(rule):
        raise UsageError(f"got {rule!r}: expected a callable or a SPEC")
    name = _spec(rule, request) or getattr(rule, "__qualname__", type(rule).__name__)
    return Subject(str(name), rule, None)


def reproduce(
    subject: Subject, contract: Contract, settings: AuditSettings, request: pytest.FixtureRequest
) -> str:
    """Return the command that repeats the audit: ``simverify audit``, or the test itself.

    It works from any folder: files are named from the root.
    """
    name = subject.name
    if ":" not in name and subject.contract is None:
        file, separator, test = request.node.nodeid.partition("::")
        return shlex.join(["pytest", f"{request.config.rootpath / file}{separator}{test}"])
    place, colon, attribute = name.rpartition(":")
    if place.endswith(".py"):
        name = f"{_folder(request) / place}{colon}{attribute}"
    return settings.command(name, contract)


def _spec(rule: Callable[..., Any], request: pytest.FixtureRequest) -> str | None:
    """Return a SPEC that a new process can load: a name at the top of a module, or None."""
    home = sys.modules.get(getattr(rule, "__module__", None) or "")
    for module in (home, request.module):
        if not isinstance(module, ModuleType):
            continue
        file, name = module.__file__, _name_in(module, rule)
        if name is None or file is None or not file.endswith(".py"):
            continue
        return f"{os.path.relpath(file, _folder(request))}:{name}"
    return None


def _folder(request: pytest.FixtureRequest) -> Path:
    """Return the folder in which pytest was called."""
    return request.config.invocation_params.dir


def _name_in(module: ModuleType, rule: Callable[..., Any]) -> str | None:
    """Return the path of ``rule`` from the top of ``module``, if it has one."""
    qualified = str(getattr(rule, "__qualname__", ""))
    found: object = module
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if found is rule:
        return qualified
    return next((name for name, value in vars(module).items() if value is rule), None)
