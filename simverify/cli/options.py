"""The options of a command, from the dataclasses of its modes."""

from collections.abc import Sequence
from dataclasses import field, make_dataclass
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from cyclopts import Group, Parameter

from simverify.cli.streams import say_error
from simverify.options.modes import renamed
from simverify.options.option import (
    COMPARED,
    GROUPS,
    OTHERS,
    OUTPUT,
    SUBJECT,
    Option,
    Options,
    flag,
    option_of,
)

_GROUPS = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS)}

IN_SUBJECT = _GROUPS[SUBJECT]
IN_COMPARED = _GROUPS[COMPARED]
IN_OTHERS = _GROUPS[OTHERS]
IN_OUTPUT = _GROUPS[OUTPUT]
"""The group of a command's own options, which say where its result goes."""

Json = Annotated[str | None, Parameter(allow_leading_hyphen=True, group=IN_OUTPUT)]
Report = Annotated[Path | None, Parameter(group=IN_OUTPUT)]
Switch = Annotated[bool, Parameter(group=IN_OUTPUT)]


def command_options(modes: Sequence[type[Options]], *, without: Sequence[str] = ()) -> Any:
    """Return a dataclass of what a command may be given; None is not given.

    An option of several modes is one option here, whose help says what it means in each.
    ``without``: options that the command takes in another way.
    """
    names = dict.fromkeys(name for mode in modes for name in mode.names() if name not in without)
    shown = {name: (_type(modes, name), _help(modes, name), _group(modes, name)) for name in names}
    made = [
        _field(name, kind, Parameter(help=words, group=group))
        for name, (kind, words, group) in shown.items()
    ]
    for name in names:
        old = _first(modes, name).old
        if old is not None:
            made.append(_field(old, shown[name][0], Parameter(show=False)))
    given = make_dataclass("Given", made, frozen=True, kw_only=True)
    given.__module__ = __name__  # cyclopts takes what comes from `types` for no class of ours
    return given


def _field(name: str, kind: Any, parameter: Parameter) -> tuple[str, Any, Any]:
    optional = kind | None
    return name, Annotated[optional, parameter], field(default=None)


def given_by(modes: Sequence[type[Options]], options: object) -> dict[str, Any]:
    """Return what was given, by today's names; the command is told once of an old one."""
    return renamed(modes, vars(options), _say_new_name)


def _say_new_name(old: str, new: str) -> None:
    say_error(f"simverify: {flag(old)} is now called {flag(new)}")


def _owners(modes: Sequence[type[Options]], name: str) -> list[type[Options]]:
    return [mode for mode in modes if name in mode.names()]


def _first(modes: Sequence[type[Options]], name: str) -> Option:
    return option_of(_owners(modes, name)[0].option(name))


def _group(modes: Sequence[type[Options]], name: str) -> Group:
    groups = [option_of(mode.option(name)).group for mode in _owners(modes, name)]
    return _GROUPS[min(groups, key=GROUPS.index)]


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
    return words if default is None or default is False else f"{words} [default: {default}]"


def _type(modes: Sequence[type[Options]], name: str) -> Any:
    """Return the type that a word of the command line becomes."""
    hint = _owners(modes, name)[0].types()[name]
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    if get_origin(hint) is Literal:
        return hint
    if any(get_origin(kind) is Literal for kind in kinds):
        return kinds[0]
    if any((get_origin(kind) or kind) is PathLike for kind in kinds):
        return str if _first(modes, name).verbatim else Path
    return kinds[0] if len(kinds) == 1 else str
