"""What a test puts on trial: its name, and the command that repeats the audit."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from simverify.audit.settings import AuditSettings
from simverify.audit.spec import Contract, Subject, load_subject
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
    """Return the command that repeats the audit: ``simverify audit``, or the test itself."""
    if ":" not in subject.name and subject.contract is None:
        return shlex.join(["pytest", request.node.nodeid])
    return settings.command(subject.name, contract)


def _spec(rule: Callable[..., Any], request: pytest.FixtureRequest) -> str | None:
    """Return a SPEC that a new process can load: a name at the top of a module, or None."""
    home = sys.modules.get(getattr(rule, "__module__", None) or "")
    for module in (home, request.module):
        if not isinstance(module, ModuleType):
            continue
        file, name = module.__file__, _name_in(module, rule)
        if name is None or file is None or not file.endswith(".py"):
            continue
        # A file of a package may have relative imports, so it loads by its module's name.
        if (Path(file).parent / "__init__.py").is_file():
            return f"{module.__name__}:{name}"
        return f"{os.path.relpath(file, request.config.invocation_params.dir)}:{name}"
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
