"""Modes: which one the options ask for, and a function's keywords from its dataclasses."""

import functools
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from simverify.checks import pick_name
from simverify.errors import OptionError, UsageError
from simverify.options.option import Options, is_given, option_of

P = ParamSpec("P")
Run = TypeVar("Run", covariant=True)


class Function(Protocol[P, Run]):
    """A function of the keywords of a mode, or of one object that holds its options."""

    @property
    def run(self) -> Callable[[Any], Run]:
        """The function of an object alone, whose errors name options as the command line does."""
        ...

    @overload
    def __call__(self, options: Options, /) -> Run: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Run: ...


def keywords(
    usual: Callable[P, Options], *others: type[Options]
) -> Callable[[Callable[[Any], Run]], Function[P, Run]]:
    """Give a function of an options object the keywords of its modes.

    ``usual``: the dataclass whose keywords are shown, as types, in ``help()`` and by editors. The
    function is handed an object of the first of ``others`` whose options were given, else of the
    first one, or of ``usual`` where there are none.
    """

    def decorate(run: Callable[[Any], Run]) -> Function[P, Run]:
        assert isinstance(usual, type)
        modes: tuple[type[Options], ...] = others or (usual,)
        shown = inspect.signature(usual)
        places = [p.name for p in shown.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]

        @functools.wraps(run)
        def call(*args: Any, **given: Any) -> Run:
            with _named_as_keywords():
                if args and isinstance(args[0], Options):
                    return run(_one_object(args, given, modes, run.__name__))
                if len(args) > len(places):
                    raise TypeError(
                        f"{run.__name__}() takes {len(places)} positional arguments: the others "
                        "are keywords"
                    )
                for name, value in zip(places, args, strict=False):
                    if name in given:
                        raise TypeError(f"{run.__name__}() got {name!r} twice")
                    given[name] = value
                progress = given.pop("progress", None)
                return run(options_of(modes, renamed(modes, given, _warn), progress=progress))

        # Whoever reads it looks for the options first.
        last = sorted(shown.parameters.values(), key=lambda p: (p.kind, p.name == "progress"))
        result = inspect.signature(run).return_annotation
        vars(call)["__signature__"] = shown.replace(parameters=last, return_annotation=result)
        vars(call)["run"] = run
        call.__doc__ = _documented(run.__doc__ or "", usual)
        return cast("Function[P, Run]", call)

    return decorate


def options_of(modes: Sequence[type[Options]], given: Mapping[str, Any], **more: Any) -> Options:
    """Return the options of the mode that ``given`` ask for, by name; None is not given.

    Raises ``OptionError`` for an option of another mode, and ``UsageError`` for one of none.
    """
    return made(mode_of(modes, given), modes, given, **more)


def mode_of(modes: Sequence[type[Options]], given: Mapping[str, Any]) -> type[Options]:
    """Return the mode that ``given`` ask for: the first is taken where nothing asks for another."""
    return next((mode for mode in modes[1:] if mode.is_asked_for(given)), modes[0])


Mode = TypeVar("Mode", bound=Options)


def made(
    mode: type[Mode], modes: Sequence[type[Options]], given: Mapping[str, Any], **more: Any
) -> Mode:
    """Return the options of ``mode``; the one error for those of another says whose they are."""
    names = mode.names()
    for name, value in given.items():
        if name in names or not is_given(value):
            continue
        owners = [other for other in modes if name in other.names()]
        if not owners:
            pick_name(name, names, "option")
        if owners[0] is modes[0]:
            owners = owners[:1]
        whose = " or ".join(owner.title for owner in owners)
        raise OptionError(f"{{{name}}} is not for {mode.name()}: it is for {whose}")
    return mode(**{n: v for n, v in given.items() if n in names and v is not None}, **more)


def renamed(
    modes: Sequence[type[Options]], given: Mapping[str, Any], warn: Callable[[str, str], None]
) -> dict[str, Any]:
    """Return ``given`` with today's names; ``warn`` is told each old one with the new one, once."""
    options = [one for mode in modes for one in mode.options()]
    news = {old: one.name for one in options if (old := option_of(one).old) is not None}
    values = {name: value for name, value in given.items() if name not in news}
    for old, new in news.items():
        if is_given(given.get(old)):
            warn(old, new)
            if is_given(values.get(new)):
                raise OptionError(f"{{{old}}} is the old name of {{{new}}}: give one of them")
            values[new] = given[old]
    return values


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now called {new}", FutureWarning, stacklevel=4)


def _one_object(
    args: Sequence[Any], given: Mapping[str, Any], modes: Sequence[type[Options]], name: str
) -> Options:
    options: Options = args[0]
    if len(args) > 1 or given:
        raise TypeError(f"{name}() takes its options as one object or as keywords, not as both")
    if not isinstance(options, tuple(modes)):
        known = ", ".join(mode.__name__ for mode in modes)
        raise UsageError(f"{name} got {type(options).__name__}: expected one of {known}")
    return options


@contextmanager
def _named_as_keywords() -> Iterator[None]:
    """Let errors name options as keywords, not as the command line does."""
    try:
        yield
    except OptionError as error:
        raise UsageError(error.in_python) from None


def _documented(text: str, mode: type[Options]) -> str:
    """Return a docstring with its section of parameters, before what it returns."""
    lines = ["Parameters", "----------"]
    for one in mode.options():
        lines += [one.name, textwrap.indent(textwrap.fill(option_of(one).help, 92), "    ")]
    lines += ["progress", "    Receives a line when something begins that may take a while.", "\n"]
    head, mark, tail = inspect.cleandoc(text).partition("Returns\n-------")
    return head + ("" if head.endswith("\n") else "\n\n") + "\n".join(lines) + mark + tail
