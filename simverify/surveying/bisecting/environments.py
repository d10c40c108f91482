"""A virtual environment for each version, kept and used again.

What a version asks for is looked for in its own environment first. Behind it comes what is
installed here: simverify, what simverify needs, and what satisfies the version as it is. pip may
take no release of a package beside which simverify itself would not run.
"""

import hashlib
import json
import os
import shutil
import site
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

from simverify.errors import UsageError
from simverify.folders import cache_folder
from simverify.surveying.bisecting.pip import complaint, pip

PROJECT = "{project}"
"""Stands in pip's words for the folder of a version, which is elsewhere every time."""

_COMPLETE = "complete"
"""A file that an environment holds once all is installed in it."""

_BEHIND = "zz_installed_here.pth"


class NotLaidOut(Exception):
    """A release that cannot be installed, or a commit that cannot be checked out, and why."""


@dataclass(frozen=True)
class Environment:
    """``python``: its interpreter. ``packages``: the folder that it was installed into."""

    python: Path
    packages: Path


def steps_of(requirement: str, *, whole: bool) -> list[list[str]]:
    """Return pip's steps for a package by itself, and for all that it asks for too if ``whole``.

    In one step pip would take a package that is installed here for the one that is wanted.
    """
    alone = ["--no-deps", "--ignore-installed", requirement]
    return [alone, [requirement]] if whole else [alone]


def environment(
    steps: Sequence[Sequence[str]],
    key: str,
    project: Path | None = None,
    root: Path | None = None,
) -> Environment:
    """Return the environment of a version, made if it is not there.

    Parameters
    ----------
    steps
        The words of each ``pip install``, one after the other.
    key
        What it is called; in it stands all that ``steps`` leave open.
    project
        The folder that pip reads files of a version in, if it does.
    root
        The folder that keeps it; if None one of the user's cache.

    Raises ``NotLaidOut`` with pip's complaint where something cannot be installed.
    """
    root = root or cache_folder("environments")
    if root is None:
        raise UsageError("no folder to keep environments in: set SIMVERIFY_CACHE_DIR")
    root.mkdir(parents=True, exist_ok=True)
    place = root / _name(steps, key)
    if not (place / _COMPLETE).exists():
        _make(place, steps, project)
    return _environment(place)


def _environment(place: Path) -> Environment:
    paths = sysconfig.get_paths("venv", {"base": str(place), "platbase": str(place)})
    return Environment(Path(paths["scripts"]) / "python", Path(paths["purelib"]))


def _make(place: Path, steps: Sequence[Sequence[str]], project: Path | None) -> None:
    # Another process may make the same one: each makes its own, and the first that is done stays.
    made = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))
    try:
        venv.EnvBuilder(symlinks=os.name != "nt").create(made)
        here = _environment(made)
        lines = "".join(f"import site; site.addsitedir({folder!r})\n" for folder in _folders())
        (here.packages / _BEHIND).write_text(lines, encoding="utf-8")
        limits = made / "limits.txt"
        limits.write_text("".join(f"{line}\n" for line in limits_of("simverify")), encoding="utf-8")
        for words in steps:
            done = pip(
                "install", "--quiet", "--no-compile", "--constraint", str(limits),
                *(word.replace(PROJECT, str(project)) for word in words),
                python=here.python, folder=project,
            )  # fmt: skip
            if done.returncode != 0:
                raise NotLaidOut(f"pip: {complaint(done)}")
        (made / _COMPLETE).touch()
        if place.exists() and not (place / _COMPLETE).exists():
            shutil.rmtree(place)
        try:
            made.rename(place)
        except OSError:
            if not (place / _COMPLETE).exists():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def limits_of(name: str) -> Iterator[str]:
    """Yield, as lines of pip's constraints, which releases a distribution and its needs allow."""
    found: dict[str, set[str]] = {}
    _collect(name, found)
    for package, limits in sorted(found.items()):
        yield from sorted(f"{package}{limit}" for limit in limits if limit)


def _collect(name: str, found: dict[str, set[str]]) -> None:
    try:
        needs = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for need in map(Requirement, needs):
        if need.marker is not None and not need.marker.evaluate({"extra": ""}):
            continue
        known = need.name in found
        found.setdefault(need.name, set()).add(str(need.specifier))
        if not known:
            _collect(need.name, found)


def _folders() -> list[str]:
    own = [
        *site.getsitepackages(),
        *([site.getusersitepackages()] if site.ENABLE_USER_SITE else []),
    ]
    return [folder for folder in own if os.path.isdir(folder)]


def _name(steps: Sequence[Sequence[str]], key: str) -> str:
    """Name an environment by what decides what pip puts into it."""
    settings: Mapping[str, str] = {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
    installed = sorted(f"{one.name}=={one.version}" for one in distributions())
    told = [sys.version, sys.prefix, [list(words) for words in steps], key, settings, installed]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    plain = "".join(c if c.isalnum() or c in ".-" else "-" for c in key)[:60]
    return f"{plain}-{digest[:16]}"
