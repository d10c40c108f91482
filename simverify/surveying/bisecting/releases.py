"""Releases of a package, as pip knows them: listed, and installed into folders of their own."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from packaging.version import InvalidVersion, Version

from simverify.checks import clean
from simverify.errors import UsageError
from simverify.surveying.bisecting.sources import Code, Layout, NotLaidOut

_PATIENCE = 600.0
"""Seconds for pip: a release may be large, or may have to be built."""

_LISTED = "Available versions:"


class Releases:
    """The releases of the package that holds the code. Dependencies are those installed here."""

    kind: Literal["releases"] = "releases"

    def __init__(self, code: Code, package: str | None = None) -> None:
        if code.is_file:
            raise UsageError(
                f"{code.spec}: a file has no releases: name the checkout that holds it by "
                "--engine-path"
            )
        engine = code.engine
        if engine is not None and engine.repository and package is None:
            raise UsageError(
                f"engine {engine.name!r} is no package: {engine.how_to_get}, and name the folder "
                "by --engine-path"
            )
        own = code.place.partition(".")[0] if engine is None else ""
        self._code = code
        self._name = package or own or (engine.distribution or engine.package if engine else "")

    @property
    def package(self) -> str:
        """Return what pip calls the package."""
        return self._name

    def between(self, good: str, bad: str) -> tuple[str, ...]:
        """Return the releases from ``good`` to ``bad`` in the order of their versions.

        Of pre-releases only ``good`` and ``bad`` themselves, unless one of them is one.
        """
        first, last = _version(good, "good"), _version(bad, "bad")
        if first >= last:
            how = "is" if first == last else "comes after"
            raise UsageError(f"good {good} {how} bad {bad}: name the older release as good")
        early = first.is_prerelease or last.is_prerelease
        known = {Version(text): text for text in self._listed(early=early)}
        for version, given in ((first, good), (last, bad)):
            if version not in known:
                some = sorted(known)
                span = f"the index has {known[some[0]]} to {known[some[-1]]}" if some else "none"
                raise UsageError(f"{self._name} has no release {given}: {span}")
        return tuple(known[v] for v in sorted(known) if first <= v <= last)

    def title(self, version: str) -> str:
        """Return nothing: a release's number is its name."""
        return ""

    @contextmanager
    def laid_out(self, version: str) -> Iterator[Layout]:
        """Install a release alone into a folder, which is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="simverify-") as folder:
            done = _pip(
                "install", "--quiet", "--no-deps", "--no-compile", "--target", folder,
                f"{self._name}=={version}",
            )  # fmt: skip
            if done.returncode != 0:
                raise NotLaidOut(f"pip: {_complaint(done)}")
            if self._code.engine is not None:
                yield Layout(Path(folder), (self._code.spec, "--engine-path", folder))
            else:
                yield self._code.imported_from(Path(folder), [""])

    def _listed(self, *, early: bool) -> list[str]:
        done = _pip("index", "versions", self._name, *(["--pre"] if early else []))
        if done.returncode != 0:
            raise UsageError(f"pip lists no release of {self._name}: {_complaint(done)}")
        lines = [line for line in done.stdout.splitlines() if line.startswith(_LISTED)]
        names = lines[0].removeprefix(_LISTED).split(",") if lines else []
        return [name.strip() for name in names if name.strip()]


def _version(text: str, name: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UsageError(
            f"{name} is {text!r}: expected a release, such as 1.2; of commits, name the checkout "
            "by --engine-path"
        ) from None


def _pip(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [*_pip_command(), *words, "--disable-pip-version-check", "--no-input"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        late = f"not done within {_PATIENCE:g} s"
        return subprocess.CompletedProcess(command, 1, "", late)


def _pip_command() -> Sequence[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if (pip := shutil.which("pip")) is not None:
        return [pip, "--python", sys.executable]
    raise UsageError("releases are listed and installed by pip, which is missing: install pip")


def _complaint(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    return clean(errors[-1].removeprefix("ERROR:").strip()) if errors else "it does not say why"
