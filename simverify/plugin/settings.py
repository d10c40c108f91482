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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from simverify.checks import pick_name
from simverify.errors import UsageError
from simverify.options.audit import AuditOptions
from simverify.options.modes import renamed
from simverify.options.option import ADVANCED, BUDGET, INSTANCES, PROCESSING, option_of

MARKER_NAME = "distribution"

_VARIABLE_PREFIX = "SIMVERIFY_PYTEST_"
_CONFIG_TABLE = ("tool", "simverify", "pytest")
_BOOLEAN_TEXTS = {"true": True, "false": False}
_EXPECTED = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


@dataclass(frozen=True)
class Setting:
    """A setting's type and the words for it; ``choices`` of a string."""

    kind: type
    help: str
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> object:
        """Return the value of a text from the command line or the environment."""
        try:
            return self.check(_BOOLEAN_TEXTS[text] if self.kind is bool else self.kind(text))
        except (KeyError, ValueError):
            raise self._error(text) from None

    def check(self, value: object) -> object:
        """Return ``value``; raise ``ValueError`` if it has the wrong type."""
        kinds = (int, float) if self.kind is float else (self.kind,)
        fits = isinstance(value, kinds) and (self.kind is bool or not isinstance(value, bool))
        if not fits or (self.choices and value not in self.choices):
            raise self._error(value)
        return value

    def _error(self, value: object) -> ValueError:
        expected = " or ".join(map(repr, self.choices)) or _EXPECTED[self.kind]
        return ValueError(f"got {value!r}, expected {expected}")


def _settings(*groups: str) -> dict[str, Setting]:
    """Return the options of an audit that are in ``groups``."""
    hints = AuditOptions.types()
    settings = {}
    for field in AuditOptions.options():
        if (option := option_of(field)).group in groups:
            hint = hints[field.name]
            kind = next((kind for kind in _EXPECTED if hint in (kind, kind | None)), str)
            settings[field.name] = Setting(kind, option.help)
    return settings


AUDIT_SETTINGS = _settings(BUDGET)
"""What may be set for a whole run, and what the marker takes: budgets and error rates."""

FIXTURE_ARGUMENTS = {
    **AUDIT_SETTINGS,
    **_settings(INSTANCES, PROCESSING),
    "tolerance": _settings(ADVANCED)["tolerance"],
}
"""What the fixture takes: the settings, and what belongs to the code under audit."""

RUN_OPTIONS = {
    **AUDIT_SETTINGS,
    "inconclusive": Setting(
        str, "what an INCONCLUSIVE audit is: fail (the default) or warn", ("fail", "warn")
    ),
}


def option_flag(name: str) -> str:
    """Return the command line's name of a setting."""
    return f"--simverify-{name.replace('_', '-')}"


def run_settings(config: pytest.Config) -> dict[str, Any]:
    """Return what is set for the whole run. Raises ``pytest.UsageError``, in one line."""
    flags = {option_flag(name): name for name in RUN_OPTIONS}
    texts = {flag: text for flag in flags if (text := config.getoption(flag)) is not None}
    return (
        _from_pyproject(config.rootpath / "pyproject.toml")
        | _from_environment(os.environ)
        | _check_names(texts, flags, "option", Setting.read)
    )


def settings_for_tests(item: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a test's markers, the nearest one's first; else ``UsageError``."""
    where = f"@pytest.mark.{MARKER_NAME}"
    chosen: dict[str, Any] = {}
    for mark in item.iter_markers(MARKER_NAME):
        if mark.args:
            raise UsageError(
                f"{where} got {mark.args[0]!r}: it takes keyword arguments only, "
                f"{', '.join(AUDIT_SETTINGS)}"
            )
        chosen = _check_arguments(where, mark.kwargs, AUDIT_SETTINGS) | chosen
    return chosen


def call_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of the fixture; else ``UsageError``."""
    given = renamed((AuditOptions,), given, _warn)
    return _check_arguments("simverify_audit", given, FIXTURE_ARGUMENTS)


def _check_arguments(
    where: str, given: Mapping[str, Any], settings: Mapping[str, Setting]
) -> dict[str, Any]:
    for key, value in given.items():
        name = pick_name(key, settings, f"argument of {where}")
        try:
            settings[name].check(value)
        except ValueError as error:
            raise UsageError(f"{where}: {name}: {error}") from None
    return dict(given)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now called {new}", FutureWarning, stacklevel=5)


def _from_pyproject(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    table_name = ".".join(_CONFIG_TABLE)
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        for part in _CONFIG_TABLE:
            table = table.get(part, {})
        entries = dict(table.items())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise pytest.UsageError(f"{path}: {error}") from None
    except AttributeError:
        raise pytest.UsageError(f"{path}: {table_name} is not a table") from None
    known = {name.replace("_", "-"): name for name in RUN_OPTIONS}
    return _check_names(entries, known, f"key of [{table_name}]", Setting.check)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    entries = {key: text for key, text in environment.items() if key.startswith(_VARIABLE_PREFIX)}
    known = {_VARIABLE_PREFIX + name.upper(): name for name in RUN_OPTIONS}
    return _check_names(entries, known, "environment variable", Setting.read)


def _check_names(
    entries: Mapping[str, Any],
    known: Mapping[str, str],
    kind: str,
    check: Callable[[Setting, Any], object],
) -> dict[str, Any]:
    """Return the values of ``entries`` by the settings that ``known`` names."""
    chosen = {}
    for key, value in entries.items():
        try:
            name = known[pick_name(key, known, kind)]
            chosen[name] = check(RUN_OPTIONS[name], value)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        except ValueError as error:
            raise pytest.UsageError(f"{kind} {key}: {error}") from None
    return chosen
