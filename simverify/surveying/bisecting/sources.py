"""What is bisected: releases or commits, in order, each laid out where an audit can load it."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from simverify.engines import Engine, engine_names, unloaded_engine
from simverify.errors import UsageError
from simverify.surveying.bisecting.environments import Environment, NotLaidOut


@dataclass(frozen=True)
class Layout:
    """How a version is audited: the words after ``simverify audit``, and folders for Python.

    ``folder``: where it lies for now, which no document names. ``python``: the interpreter.
    """

    folder: Path
    words: tuple[str, ...]
    python_path: tuple[Path, ...] = ()
    python: str = sys.executable

    def within(self, environment: Environment | None) -> "Layout":
        """Return the same in an environment, whose packages come before all that is inherited."""
        if environment is None:
            return self
        path = (*self.python_path, environment.packages)
        return replace(self, python_path=path, python=str(environment.python))


class Source(Protocol):
    """Where versions come from. ``package``: whose they are, as users know it."""

    @property
    def kind(self) -> Literal["releases", "commits"]:
        """What its versions are."""

    @property
    def package(self) -> str:
        """Return the package's name, or the repository's."""

    def between(self, good: str, bad: str) -> tuple[str, ...]:
        """Return the versions from ``good`` to ``bad``, both included, oldest first.

        Raises ``UsageError`` if there is no such version, or ``bad`` does not come after ``good``.
        """

    def title(self, version: str) -> str:
        """Return what a version calls itself beside its name, or nothing."""

    def laid_out(self, version: str) -> AbstractContextManager[Layout]:
        """Lay out a version while the block runs; raises ``NotLaidOut``."""


@dataclass(frozen=True)
class Code:
    """What a SPEC names: an engine, or an attribute of a module or of a file."""

    spec: str
    engine: Engine | None
    place: str
    attribute: str

    @property
    def is_file(self) -> bool:
        """Whether it is an attribute of a file."""
        return self.engine is None and self.place.endswith(".py")

    @property
    def is_imported(self) -> bool:
        """Whether its package is imported whole, so that it needs what that asks for.

        Most adapters take a function out of its file, and say what else they need.
        """
        return self.engine is None or self.engine.whole

    def engine_in(self, place: Path, folder: Path) -> Layout:
        """Return how the engine is audited from a checkout or from packages; ``folder``: all of it.

        Raises ``NotLaidOut`` if the function's file is not there.
        """
        assert self.engine is not None
        if self.engine.find(place) is None:
            raise NotLaidOut(f"it has no {self.engine.file}")
        return Layout(folder, (self.spec, "--engine-path", str(place)))

    def imported_from(self, folder: Path, below: Sequence[str]) -> Layout:
        """Return how a module of ``folder`` is audited, or of one of those ``below`` it.

        Raises ``NotLaidOut`` if none has it: Python would go on and import the one installed here.
        """
        package = self.place.partition(".")[0]
        files = (f"{package}/__init__.py", f"{package}.py")
        roots = (folder / root for root in below)
        held = tuple(root for root in roots if any((root / file).is_file() for file in files))
        if not held:
            raise NotLaidOut(f"it has no package {package!r}")
        return Layout(folder, (self.spec,), held)


def code_of(spec: str) -> Code:
    """Return what ``spec`` names; raises ``UsageError`` for what has no other versions."""
    place, colon, attribute = spec.rpartition(":")
    if colon:
        if not place or not attribute:
            raise UsageError(f"{spec!r}: expected module:attribute or path/file.py:attribute")
        return Code(spec, None, place, attribute)
    if spec not in engine_names():
        raise UsageError(
            f"{spec!r} is no engine, and no module:attribute: its versions cannot be told"
        )
    engine = unloaded_engine(spec)
    if engine.package == "simverify":
        raise UsageError(f"{spec!r} is simverify's own, which cannot audit its other versions")
    return Code(spec, engine, "", "")


def halves(open_places: list[int]) -> Iterator[int]:
    """Yield the places, the middle first and then those nearest to it."""
    middle = (len(open_places) - 1) / 2
    yield from sorted(open_places, key=lambda x: abs(open_places.index(x) - middle))
