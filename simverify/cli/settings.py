"""Options of commands: from the dataclasses of modes, the environment and pyproject.toml.

A name that nothing reads is an error.
"""

import inspect
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, make_dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from cyclopts import Group, Parameter, Token, config, convert

from simverify.checks import pick_name, read_toml
from simverify.cli.streams import print_error
from simverify.errors import UsageError
from simverify.options.modes import renamed
from simverify.options.option import (
    BUDGET,
    GROUPS,
    OTHERS,
    OUTPUT,
    Option,
    Options,
    flag,
    option_of,
)

_VARIABLE_PREFIX = "SIMVERIFY_"
_LIST_OPTIONS = ("--models", "--verifiers", "--engines", "--audits", "--cells")
"""Options that take several names: comma-separated, or a list in pyproject.toml."""


def option_sources(commands: Iterable[str]) -> list[Any]:
    """Sources of options after the command line, strongest first, for an app of ``commands``.

    ``SIMVERIFY_COMMAND_OPTION`` in the environment, then ``[tool.simverify.COMMAND]`` in the
    nearest pyproject.toml. Both raise ``UsageError`` on an unknown name, with the nearest one.
    """
    return [_check_environment, config.Env(_VARIABLE_PREFIX), partial(_read_pyproject, commands)]


def _check_environment(_app: object, command: tuple[str, ...], arguments: Iterable[Any]) -> None:
    if not command:
        return
    prefix = f"{_VARIABLE_PREFIX}{command[0].upper()}_"
    known = [prefix + name.upper().replace("-", "_") for name in _unset_options(arguments)]
    for variable in os.environ:
        if variable.startswith(prefix):
            pick_name(variable, known, "environment variable")


def _read_pyproject(
    commands: Iterable[str], _app: object, command: tuple[str, ...], arguments: Iterable[Any]
) -> None:
    """Hand the table of ``command`` to those of its options that have no value yet."""
    path = _nearest_pyproject(Path.cwd())
    if not command or path is None:
        return
    section = _config_table(read_toml(path), "tool", "simverify", path=path)
    for name in section:
        pick_name(name, (*commands, "pytest"), "name in [tool.simverify]")
    where = f"[tool.simverify.{command[0]}]"
    table = _config_table(section, command[0], path=path, above="tool.simverify.")
    options = _unset_options(arguments)
    seen = set()
    for key, value in table.items():
        name = pick_name(key.replace("_", "-"), options, f"name in {where}")
        if name in seen:
            raise UsageError(f"{path}: {where} has {name} twice, with a hyphen and without")
        seen.add(name)
        text = _option_text(options[name], value, f"{path}: {where} {key}")
        if not options[name].has_tokens:
            options[name].append(Token(keyword=f"{where} {key}", value=text, source=str(path)))


def _unset_options(arguments: Iterable[Any]) -> dict[str, Any]:
    return {a.name.removeprefix("--"): a for a in arguments if a.name.startswith("--")}


def _nearest_pyproject(folder: Path) -> Path | None:
    paths = (parent / "pyproject.toml" for parent in (folder, *folder.parents))
    return next((path for path in paths if path.is_file()), None)


def _config_table(
    document: Mapping[str, Any], *keys: str, path: Path, above: str = ""
) -> Mapping[str, Any]:
    table: Any = document
    for i, key in enumerate(keys):
        table = table.get(key, {})
        if not isinstance(table, dict):
            name = above + ".".join(keys[: i + 1])
            raise UsageError(f"{path}: {name} is {table!r}: expected a table, [{name}]")
    return table  # type: ignore[no-any-return]


def _option_text(option: Any, value: Any, where: str) -> str:
    """Return ``value`` as the command line would have it; ``UsageError`` if its type is wrong."""
    if option.name in _LIST_OPTIONS:
        names = value if isinstance(value, list) else [value]
        if all(isinstance(name, str) for name in names):
            if isinstance(value, list) and any("," in name or not name.strip() for name in names):
                raise UsageError(f"{where} is {value!r}: expected one name in each place")
            return _option_line(",".join(names), where)
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
    return _option_line(str(value).lower() if kind is bool else str(value), where)


def _option_line(text: str, where: str) -> str:
    if "\0" in text:
        raise UsageError(f"{where} is {text!r}: expected text without a null character")
    return text


def convert_option(kind: Any, tokens: Sequence[Token]) -> Any:
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


# The options of a command, from the dataclasses of its modes.


_GROUPS = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS)}

IN_OUTPUT = _GROUPS[OUTPUT]
"""The group of a command's own options, which say where its result goes."""

IN_BUDGET = _GROUPS[BUDGET]
IN_OTHERS = _GROUPS[OTHERS]


def command_options(modes: Sequence[type[Options]], *, without: Sequence[str] = ()) -> Any:
    """Return a dataclass of what a command may be given; None is not given.

    An option of several modes is one option here, whose help says what it means in each.
    ``without``: options that the command takes in another way.
    """
    fields: list[Any] = []
    names = dict.fromkeys(name for mode in modes for name in mode.names() if name not in without)
    for name in names:
        kind: Any = _type(modes, name)
        fields.append((name, Annotated[kind | None, _parameter(modes, name)], field(default=None)))
        if (old := _first(modes, name).old) is not None:
            hidden = Annotated[kind | None, Parameter(show=False)]
            fields.append((old, hidden, field(default=None)))
    given = make_dataclass("Given", fields, frozen=True, kw_only=True)
    given.__module__ = __name__  # cyclopts takes what comes from `types` for no class of ours
    return given


def argument_parameters(
    modes: Sequence[type[Options]], arguments: Mapping[str, str], *, optional: bool
) -> Iterator[inspect.Parameter]:
    """Yield the parameters of ``arguments``, options by position, each with its help or "" ."""
    for name, words in arguments.items():
        kind: Any = Annotated[_type(modes, name) | None, _parameter(modes, name, words)]
        default = None if optional else inspect.Parameter.empty
        shown = "spec" if name == "rule" else name
        yield inspect.Parameter(
            shown, inspect.Parameter.POSITIONAL_ONLY, default=default, annotation=kind
        )


def keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """Return a parameter that is given by its name."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _parameter(modes: Sequence[type[Options]], name: str, words: str = "") -> Parameter:
    groups = [option_of(mode.option(name)).group for mode in _owners(modes, name)]
    return Parameter(help=words or _help(modes, name), group=_GROUPS[min(groups, key=GROUPS.index)])


def given_by(modes: Sequence[type[Options]], options: object) -> dict[str, Any]:
    """Return what was given, by today's names; the command is told once of an old one."""
    return renamed(modes, vars(options), _say_new_name)


def _say_new_name(old: str, new: str) -> None:
    print_error(f"simverify: {flag(old)} is now called {flag(new)}")


def _owners(modes: Sequence[type[Options]], name: str) -> list[type[Options]]:
    return [mode for mode in modes if name in mode.names()]


def _first(modes: Sequence[type[Options]], name: str) -> Option:
    return option_of(_owners(modes, name)[0].option(name))


def _help(modes: Sequence[type[Options]], name: str) -> str:
    """Return the help of an option: what it is first, and then what else it is in other modes."""
    first, *others = _owners(modes, name)
    words = option_of(first.option(name)).help
    default = first.option(name).default
    meanings: dict[str, list[str]] = {}
    for mode in others:
        meanings.setdefault(option_of(mode.option(name)).help, []).append(mode.name())
    meanings.pop(words, None)
    for text, titles in meanings.items():
        of = ", ".join(titles)
        words += f" {of[0].upper()}{of[1:]}: {text[0].lower()}{text[1:]}"
    return words if default in (None, False, "") else f"{words} [default: {default}]"


def _type(modes: Sequence[type[Options]], name: str) -> Any:
    """Return the type that a word of the command line becomes."""
    hint = _owners(modes, name)[0].types()[name]
    if get_origin(hint) is Literal:
        return hint
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    origins = [get_origin(kind) or kind for kind in kinds]
    if Literal in origins:
        return kinds[0]
    if PathLike in origins:
        return str if _first(modes, name).verbatim else Path
    return kinds[0] if len(kinds) == 1 and Sequence not in origins else str
