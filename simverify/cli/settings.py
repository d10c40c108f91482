"""Options from the environment and pyproject.toml; a name that nothing reads is an error."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cyclopts import Token, config, convert

from simverify.checks import pick, read_toml
from simverify.errors import UsageError

_PREFIX = "SIMVERIFY_"
_LISTS = ("--models", "--verifiers", "--engines", "--audits", "--cells")
"""Options that take several names: comma-separated, or a list in pyproject.toml."""


def sources(commands: Iterable[str]) -> list[Any]:
    """Sources of options after the command line, strongest first, for an app of ``commands``.

    ``SIMVERIFY_COMMAND_OPTION`` in the environment, then ``[tool.simverify.COMMAND]`` in the
    nearest pyproject.toml. Both raise ``UsageError`` on an unknown name, with the nearest one.
    """
    tables = (*commands, "pytest")
    return [_check_environment, config.Env(_PREFIX), partial(_read_pyproject, tables)]


def _check_environment(_app: object, command: tuple[str, ...], arguments: Iterable[Any]) -> None:
    if not command:
        return
    prefix = f"{_PREFIX}{command[0].upper()}_"
    known = [prefix + name.upper().replace("-", "_") for name in _options(arguments)]
    for variable in os.environ:
        if variable.startswith(prefix):
            pick(variable, known, "environment variable")


def _read_pyproject(
    tables: tuple[str, ...], _app: object, command: tuple[str, ...], arguments: Iterable[Any]
) -> None:
    """Hand the table of ``command`` to those of its options that have no value yet."""
    path = _nearest(Path.cwd())
    if not command or path is None:
        return
    section = _table(read_toml(path), "tool", "simverify", path=path)
    for name in section:
        pick(name, tables, "name in [tool.simverify]")
    where = f"[tool.simverify.{command[0]}]"
    table = _table(section, command[0], path=path, above="tool.simverify.")
    options = _options(arguments)
    seen = set()
    for key, value in table.items():
        name = pick(key.replace("_", "-"), options, f"name in {where}")
        if name in seen:
            raise UsageError(f"{path}: {where} has {name} twice, with a hyphen and without")
        seen.add(name)
        text = _text(options[name], value, f"{path}: {where} {key}")
        if not options[name].has_tokens:
            options[name].append(Token(keyword=f"{where} {key}", value=text, source=str(path)))


def _options(arguments: Iterable[Any]) -> dict[str, Any]:
    return {a.name.removeprefix("--"): a for a in arguments if a.name.startswith("--")}


def _nearest(folder: Path) -> Path | None:
    paths = (parent / "pyproject.toml" for parent in (folder, *folder.parents))
    return next((path for path in paths if path.is_file()), None)


def _table(
    document: Mapping[str, Any], *keys: str, path: Path, above: str = ""
) -> Mapping[str, Any]:
    table: Any = document
    for i, key in enumerate(keys):
        table = table.get(key, {})
        if not isinstance(table, dict):
            name = above + ".".join(keys[: i + 1])
            raise UsageError(f"{path}: {name} is {table!r}: expected a table, [{name}]")
    return table  # type: ignore[no-any-return]


def _text(option: Any, value: Any, where: str) -> str:
    """Return ``value`` as the command line would have it; ``UsageError`` if its type is wrong."""
    if option.name in _LISTS:
        names = value if isinstance(value, list) else [value]
        if all(isinstance(name, str) for name in names):
            if isinstance(value, list) and any("," in name or not name.strip() for name in names):
                raise UsageError(f"{where} is {value!r}: expected one name in each place")
            return _line(",".join(names), where)
        raise UsageError(f"{where} is {value!r}: expected a list of names, or comma-separated text")
    kinds: dict[type, tuple[tuple[type, ...], str]] = {
        bool: ((bool,), "true or false"),
        int: ((int,), "a whole number"),
        float: ((int, float), "a number"),
    }
    kind = next((kind for kind in kinds if option.hint in (kind, kind | None)), str)
    fits, expected = kinds.get(kind, ((str,), "text"))
    if not isinstance(value, fits) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{where} is {value!r}: expected {expected}")
    return _line(str(value).lower() if kind is bool else str(value), where)


def _line(text: str, where: str) -> str:
    if "\0" in text:
        raise UsageError(f"{where} is {text!r}: expected text without a null character")
    return text


def converted(kind: Any, tokens: Sequence[Token]) -> Any:
    """Return what stands for an option of that type; a whole number is written as one.

    cyclopts alone would round "2.5" to 2.
    """
    if kind not in (int, int | None):
        return convert(kind, tokens)
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None
