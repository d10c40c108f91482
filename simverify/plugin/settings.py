"""Settings of the pytest plugin: where they come from, and the error for a wrong one.

The arguments of a call of the fixture win, then the marker's, which are the next nearest to
the test; then come the command line (``--simverify-max-paths``), the environment
(``SIMVERIFY_PYTEST_MAX_PATHS``), ``[tool.simverify.pytest]`` in the root's pyproject.toml
(``max-paths``) and the defaults of :class:`simverify.options.audit.AuditOptions`, which checks
ranges when an audit starts.
"""

import os
import tomllib
import warnings
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from simverify.checks import pick_name
from simverify.errors import UsageError
from simverify.options.audit import AuditOptions
from simverify.options.modes import renamed
from simverify.options.option import ADVANCED, BUDGET, INSTANCES, option_of

MARKER_NAME = "distribution"

_VARIABLE_PREFIX = "SIMVERIFY_PYTEST_"
_CONFIG_TABLE = ("tool", "simverify", "pytest")


_BOOLEAN_TEXTS = {"true": True, "false": False}


@dataclass(frozen=True)
class Setting:
    """A setting's type and the words for it; ``choices`` of a string."""

    kind: type
    expected: str
    help: str
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> object:
        """Value of a text from the command line or the environment; else ``ValueError``."""
        try:
            return self.check(_BOOLEAN_TEXTS[text] if self.kind is bool else self.kind(text))
        except (KeyError, ValueError):
            raise ValueError(f"got {text!r}, expected {self.expected}") from None

    def check(self, value: object) -> object:
        """Return ``value``; raises ``ValueError`` if it has the wrong type."""
        kinds = (int, float) if self.kind is float else (self.kind,)
        fits = isinstance(value, kinds) and (self.kind is bool or not isinstance(value, bool))
        if not fits or (self.choices and value not in self.choices):
            raise ValueError(f"got {value!r}, expected {self.expected}")
        return value


_EXPECTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
}


def _settings(groups: Container[str]) -> dict[str, Setting]:
    """Return the options of an audit that stand in ``groups``."""
    types = AuditOptions.types()
    found = {}
    for one in AuditOptions.options():
        option = option_of(one)
        if option.group in groups:
            hint = types[one.name]
            kind = next((kind for kind in _EXPECTED if hint in (kind, kind | None)), str)
            found[one.name] = Setting(kind, _EXPECTED[kind], option.help)
    return found


AUDIT_SETTINGS = _settings((BUDGET,))
"""What may be set for a whole run, and what the marker takes: budgets and error rates."""

FIXTURE_ARGUMENTS = {
    **AUDIT_SETTINGS,
    **_settings((INSTANCES,)),
    "tolerance": _settings((ADVANCED,))["tolerance"],
}
"""What the fixture takes: the settings, and what belongs to the code under audit."""

RUN_OPTIONS = {
    **AUDIT_SETTINGS,
    "inconclusive": Setting(
        str,
        "'fail' or 'warn'",
        "what an INCONCLUSIVE audit is: fail (the default) or warn",
        ("fail", "warn"),
    ),
}


def option_flag(name: str) -> str:
    """Return the command line's name of a setting."""
    return f"--simverify-{name.replace('_', '-')}"


def run_settings(config: pytest.Config) -> dict[str, Any]:
    """Return what is set for the whole run. Raises ``pytest.UsageError``, in one line."""
    chosen = _from_pyproject(config.rootpath / "pyproject.toml")
    chosen |= _from_environment(os.environ)
    for name, setting in RUN_OPTIONS.items():
        text = config.getoption(option_flag(name))
        if text is not None:
            chosen[name] = _check_value(option_flag(name), setting.read, text)
    return chosen


def settings_for_tests(item: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a test's markers, the nearest one's first; else ``UsageError``."""
    chosen: dict[str, Any] = {}
    for mark in item.iter_markers(MARKER_NAME):
        if mark.args:
            raise UsageError(
                f"@pytest.mark.{MARKER_NAME} got {mark.args[0]!r}: it takes keyword arguments "
                "only, "
                f"{', '.join(AUDIT_SETTINGS)}"
            )
        for key, value in mark.kwargs.items():
            name = pick_name(key, AUDIT_SETTINGS, f"argument of @pytest.mark.{MARKER_NAME}")
            try:
                AUDIT_SETTINGS[name].check(value)
            except ValueError as error:
                raise UsageError(f"@pytest.mark.{MARKER_NAME}: {name}: {error}") from None
            chosen.setdefault(name, value)
    return chosen


def call_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of the fixture; else ``UsageError``."""
    chosen = {}
    for key, value in renamed((AuditOptions,), given, _warn).items():
        name = pick_name(key, FIXTURE_ARGUMENTS, "argument of simverify_audit")
        try:
            FIXTURE_ARGUMENTS[name].check(value)
        except ValueError as error:
            raise UsageError(f"simverify_audit: {name}: {error}") from None
        chosen[name] = value
    return chosen


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now called {new}", FutureWarning, stacklevel=5)


def _from_pyproject(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        for part in _CONFIG_TABLE:
            table = table.get(part, {})
        entries = dict(table.items())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise pytest.UsageError(f"{path}: {error}") from None
    except AttributeError:
        raise pytest.UsageError(f"{path}: {'.'.join(_CONFIG_TABLE)} is not a table") from None
    known = {name.replace("_", "-"): name for name in RUN_OPTIONS}
    return _check_names(entries, known, f"key of [{'.'.join(_CONFIG_TABLE)}]", Setting.check)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    entries = {key: text for key, text in environment.items() if key.startswith(_VARIABLE_PREFIX)}
    known = {_VARIABLE_PREFIX + name.upper(): name for name in RUN_OPTIONS}
    return _check_names(entries, known, "environment variable", Setting.read)


def _check_names(
    entries: Mapping[str, Any],
    known: Mapping[str, str],
    kind: str,
    take: Callable[[Setting, Any], object],
) -> dict[str, Any]:
    chosen = {}
    for key, value in entries.items():
        try:
            name = known[pick_name(key, known, kind)]
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        chosen[name] = _check_value(f"{kind} {key}", partial(take, RUN_OPTIONS[name]), value)
    return chosen


def _check_value(where: str, take: Callable[[Any], object], value: object) -> object:
    try:
        return take(value)
    except ValueError as error:
        raise pytest.UsageError(f"{where}: {error}") from None
