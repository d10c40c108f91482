"""Where an engine's source lies: the installed package, or a checkout with its commit."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from simverify.engines.base import Engine


@dataclass(frozen=True)
class Place:
    """An engine's file, and what it belongs to.

    ``folder``: the checkout, as ``--engine-path`` takes it; None for an installed package.
    ``commit``: of the checkout's git folder, if it has one. ``missing``: packages that the engine
    needs besides and that are not installed.
    """

    file: Path
    folder: Path | None
    version: str | None
    commit: str | None
    missing: tuple[str, ...]

    @property
    def top(self) -> Path:
        """The folder below which its files are named."""
        return self.folder or self.file.parent


def find_place(engine: Engine, folders: Sequence[Path]) -> Place | None:
    """Return where ``engine`` is: in the first of ``folders`` that holds it, or installed.

    ``folders``: checkouts, or folders of checkouts, each under its repository's name or under its
    owner's and its own, with ``@`` and seven figures of the commit behind it where there are
    several. None if it is nowhere. A repository's own clone goes before files without a history
    that lie as its would.
    """
    missing = engine.lacking
    bare = None
    for folder in folders:
        for top in _tops(engine, folder):
            file = engine.find(top)
            if file is None or _is_another(engine, file, folder):
                continue
            version = _version_beside(engine, file, top)
            place = Place(file, top, version, _commit(file, folder), missing)
            if not engine.repository or place.commit is not None:
                return place
            bare = bare or place
    if bare is not None:
        return bare
    file = engine.find()
    return None if file is None else Place(file, None, engine.version, None, missing)


def checkout_of(engine: Engine, folder: Path) -> Path:
    """Return the checkout of ``engine`` in ``folder``, found as :func:`find_place` does.

    ``folder`` itself where it holds none that is known by its name or its history, as a fork.
    """
    place = find_place(engine, [folder])
    return folder if place is None or place.folder is None else place.folder


def git(folder: Path, *words: str) -> str | None:
    """Return what git prints in ``folder``; None where it is not installed, or fails."""
    if shutil.which("git") is None:
        return None
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def _tops(engine: Engine, folder: Path) -> list[Path]:
    """Return what may be the engine's checkout, the likeliest first.

    Where it is the top of a repository that the code lies in, any repository may have a file of
    that name: then the folder has to be called as the repository is.
    """
    owner, _, name = engine.repository.removesuffix(".git").rpartition("/")
    inside = [place / name for place in (folder / owner.rpartition("/")[2], folder)] if name else []
    # Two engines may be two commits of one repository.
    pinned, called = f"{name}@{engine.commit[:7]}", folder.resolve().name
    inside = [place.with_name(pinned) for place in inside] + inside
    known = called in (name, pinned) or (engine.package and not called.startswith(f"{name}@"))
    itself = [folder] if known or not name else []
    return [top for top in (*inside, *itself) if top.is_dir()]


def _is_another(engine: Engine, file: Path, folder: Path) -> bool:
    """Whether the git folder around ``file`` says that it was cloned from another repository."""
    if not engine.repository or _top(file, folder) is None:
        return False
    origin = git(file.parent, "remote", "get-url", "origin")
    return bool(origin) and _tail(str(origin)) != _tail(engine.repository)


def _tail(address: str) -> list[str]:
    """Return owner and name, in small letters, whichever way the repository is reached."""
    return address.lower().removesuffix("/").removesuffix(".git").replace(":", "/").split("/")[-2:]


def _top(file: Path, folder: Path) -> Path | None:
    """Return the top of the git repository of ``file``, if it is not one around ``folder``."""
    found = git(file.parent, "rev-parse", "--show-toplevel")
    if not found:
        return None
    top = Path(found).resolve()
    return top if top.is_relative_to(folder.resolve()) else None


def _commit(file: Path, folder: Path) -> str | None:
    """Return the commit of the checkout that holds ``file``, and whether the file was edited."""
    if _top(file, folder) is None:
        return None
    commit = git(file.parent, "rev-parse", "HEAD")
    same = git(file.parent, "diff", "--quiet", "HEAD", "--", str(file.resolve())) is not None
    tracked = git(file.parent, "ls-files", "--error-unmatch", str(file.resolve())) is not None
    return commit if commit is None or (same and tracked) else f"{commit} edited"


def _version_beside(engine: Engine, file: Path, top: Path) -> str | None:
    """Return the version that a package installed into ``top`` says it has."""
    name = canonicalize_name(engine.distribution or engine.package or "none")
    places = [str(top), *(str(path) for path in file.parents if path.parent == top)]
    for found in distributions(path=places):
        named = found.metadata["Name"]
        if named and canonicalize_name(named) == name:
            return found.version
    return None
