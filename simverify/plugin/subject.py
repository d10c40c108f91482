"""The code that a test audits: its name, and the command that repeats the audit."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simverify.api.audit import find_spec
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject, load_subject
from simverify.errors import UsageError


def find_subject(rule: Callable[..., Any] | str, request: pytest.FixtureRequest) -> Subject:
    """Return the code under audit, named by a SPEC wherever one can name it."""
    if isinstance(rule, str):
        return load_subject(rule)
    if not callable(rule):
        raise UsageError(f"got {rule!r}: expected a callable or a SPEC")
    found = find_spec(rule, _invocation_folder(request), beside=(request.module,))
    name = found or getattr(rule, "__qualname__", type(rule).__name__)
    return Subject(str(name), rule, None)


def reproduce_command(
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
        name = f"{_invocation_folder(request) / place}{colon}{attribute}"
    return settings.command(name, contract)


def _invocation_folder(request: pytest.FixtureRequest) -> Path:
    """Return the folder in which pytest was called."""
    return request.config.invocation_params.dir
