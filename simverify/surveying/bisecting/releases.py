"""Releases of a package, as pip knows them: listed, and each put into its own environment."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from packaging.version import InvalidVersion, Version

from simverify.errors import UsageError
from simverify.surveying.bisecting.environments import environment, steps_of
from simverify.surveying.bisecting.pip import complaint, pip
from simverify.surveying.bisecting.sources import Code, Layout

_LISTED = "Available versions:"


class Releases:
    """The releases of the package that holds the code."""

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
        """Install a release into an environment, with what it asks for where it is imported."""
        steps = steps_of(f"{self._name}=={version}", whole=self._code.is_imported)
        made = environment(steps, f"{self._name}-{version}")
        if self._code.engine is not None:
            yield self._code.engine_in(made.packages, made.packages).within(made)
        else:
            found = self._code.imported_from(made.packages, [""])
            yield found.within(made)

    def _listed(self, *, early: bool) -> list[str]:
        done = pip("index", "versions", self._name, *(["--pre"] if early else []))
        if done.returncode != 0:
            raise UsageError(f"pip lists no release of {self._name}: {complaint(done)}")
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
