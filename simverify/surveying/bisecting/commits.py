"""Commits of a checkout: listed, and checked out in a clone that leaves the checkout alone."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from simverify.checks import clean
from simverify.engines.places import find_place, git
from simverify.errors import UsageError
from simverify.surveying.bisecting.environments import NotLaidOut
from simverify.surveying.bisecting.projects import wanted
from simverify.surveying.bisecting.sources import Code, Layout


class Commits:
    """The commits of the repository around ``folder``, along the first parents.

    What is not committed is not looked at.
    """

    kind: Literal["commits"] = "commits"

    def __init__(self, code: Code, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder: name a checkout with its git history")
        place = None if code.engine is None else find_place(code.engine, [folder])
        start = folder if place is None or place.folder is None else place.folder
        top = git(start, "rev-parse", "--show-toplevel")
        if top is None:
            raise UsageError(f"{start} has no git history: clone the repository, with its commits")
        self._code = code
        self._top = Path(top).resolve()
        self._below = (
            _inside(Path(code.place), self._top) if code.is_file else _inside(start, self._top)
        )

    @property
    def package(self) -> str:
        """Return the name of the repository's folder."""
        return self._top.name

    def between(self, good: str, bad: str) -> tuple[str, ...]:
        """Return the commits from ``good`` to ``bad``, whole hashes, oldest first."""
        first, last = self._commit(good, "good"), self._commit(bad, "bad")
        if first == last:
            raise UsageError(f"good {good} and bad {bad} are one commit, {first[:10]}")
        if git(self._top, "merge-base", "--is-ancestor", first, last) is None:
            back = git(self._top, "merge-base", "--is-ancestor", last, first) is not None
            how = "comes after" if back else "is no ancestor of"
            raise UsageError(f"good {good} {how} bad {bad}: name an older commit as good")
        self._holds_iv(good, bad)
        listed = git(self._top, "rev-list", "--reverse", "--first-parent", f"{first}..{last}")
        return (first, *(listed or last).splitlines())

    def title(self, version: str) -> str:
        """Return the commit's subject."""
        return clean(git(self._top, "show", "--no-patch", "--format=%s", version) or "", 200)

    @contextmanager
    def laid_out(self, version: str) -> Iterator[Layout]:
        """Check a commit out in a clone, which is gone afterwards.

        Where it is imported, what the commit asks for is installed into an environment.
        """
        with tempfile.TemporaryDirectory(prefix="simverify-") as folder:
            clone = Path(folder) / self._top.name
            _git("clone", "--quiet", "--shared", "--no-checkout", str(self._top), str(clone))
            _git("-C", str(clone), "checkout", "--quiet", "--detach", version)
            place = clone / self._below
            made = wanted(clone, place, version) if self._code.is_imported else None
            if self._code.is_file:
                layout = Layout(clone, (f"{place}:{self._code.attribute}",))
            elif self._code.engine is not None:
                layout = self._code.engine_in(place, clone)
            else:
                layout = self._code.imported_from(place, ["", "src", "python"])
            yield layout.within(made)

    def _holds_iv(self, *commits: str) -> None:
        """Raise ``UsageError`` if this is no checkout of the engine: none of its places has it."""
        engine = self._code.engine
        if engine is None or engine.find(self._top / self._below) is not None:
            return
        places = [(self._below / root / engine.file).as_posix() for root in ("", "src", "python")]
        names = [f"{commit}:{place}" for commit in commits for place in places]
        if all(git(self._top, "cat-file", "-e", name) is None for name in names):
            wanted = engine.repository or engine.distribution or engine.package
            raise UsageError(
                f"{self._top} has no {engine.file}, nor had it at {' or '.join(commits)}: name the "
                f"top of a checkout of {wanted}"
            )

    def _commit(self, text: str, name: str) -> str:
        found = git(self._top, "rev-parse", "--verify", "--quiet", f"{text}^{{commit}}")
        if found is None:
            raise UsageError(f"{name} is {text!r}, which is no commit of {self._top}")
        return found


def _inside(path: Path, top: Path) -> Path:
    whole = path.resolve()
    if not whole.is_relative_to(top):
        raise UsageError(f"{path} does not lie in {top}: name the checkout that holds it")
    return whole.relative_to(top)


def _git(*words: str) -> None:
    # Large files, which no verifier is, stay where they are.
    environment = os.environ | {"GIT_LFS_SKIP_SMUDGE": "1"}
    done = subprocess.run(
        ["git", *words], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        raise NotLaidOut(f"git: {clean(lines[-1]) if lines else 'it does not say why'}")
