"""What an engine's function is to an audit, and how it is loaded."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from simverify.errors import SimverifyError, UsageError
from simverify.folders import find_package


@dataclass(frozen=True)
class Engine:
    """One function of an engine, adapted to a contract.

    Attributes
    ----------
    name : str
        What the command line calls it.
    package : str
        The package to import.
    source : str
        File of the function, relative to the package's folder; "" for a package of one file.
    function : str
        Name of the function in it.
    contract : {"verify", "step"}
        What the loaded callable is. In the coins tier it takes coins instead of a generator.
    tier : {"exact", "coins", "sampled"}
        Followed path by path; bisected in its coins; sampled.
    tolerance : float
        Largest deviation that its own arithmetic explains, at V and gamma up to 5.
    loader : Callable
        ``loader(path)`` imports the file and returns the callable.
    needs : tuple of str
        Further packages without which it cannot be loaded.
    distribution : str
        What to install; the package's name if not given.
    coin_bits : int
        In the coins tier: its coins are multiples of 2^-coin_bits.
    """

    name: str
    package: str
    source: str
    function: str
    contract: Literal["verify", "step"]
    tier: Literal["exact", "coins", "sampled"]
    tolerance: float
    loader: Callable[[Path], Callable[..., Any]]
    needs: tuple[str, ...] = ()
    distribution: str = ""
    coin_bits: int = 53

    @property
    def version(self) -> str | None:
        """Version of the installed distribution; None if there is none."""
        try:
            return version(self.distribution or self.package)
        except PackageNotFoundError:
            return None

    @property
    def where(self) -> str:
        """The function as ``module:name``."""
        rest = self.source.removesuffix(".py").removesuffix("__init__").strip("/")
        return ".".join([self.package, *rest.split("/")] if rest else [self.package]) + (
            f":{self.function}"
        )

    def load(self, checkout: Path | None = None) -> Callable[..., Any]:
        """Return the callable, from the installed package or from a ``checkout`` folder.

        Raises ``UsageError`` (exit code 2) if a package or the file is missing, and
        ``SimverifyError`` (exit code 4) if it is there and does not load.
        """
        missing = [name for name in self.needs if find_package(name) is None]
        path = self.find(checkout)
        if path is None or missing:
            raise UsageError(self._absent(checkout, missing))
        try:
            return self.loader(path)
        except SimverifyError:
            raise
        except Exception as error:
            raise SimverifyError(
                f"engine {self.name!r} does not load: {type(error).__name__}: {error} ({path})"
            ) from error

    def find(self, checkout: Path | None = None) -> Path | None:
        """Return the function's source file without importing the package; None if absent."""
        if checkout is None:
            place = find_package(self.package)
            places = [] if place is None else [place]
        else:
            places = [checkout / root / self.package for root in ("", "src", "python")]
        files = (place / self.source for place in places)
        return next((file for file in files if file.is_file()), None)

    def _absent(self, checkout: Path | None, missing: list[str]) -> str:
        if checkout is not None and not missing:
            return (
                f"engine {self.name!r}: no {self.package}/{self.source} in {checkout}, nor under "
                "src or python: name the checkout's top folder"
            )
        if not missing and find_package(self.package) is not None:
            return (
                f"engine {self.name!r}: {self.package} {self.version} has no {self.source}: "
                "install another version"
            )
        own = [] if find_package(self.package) else [self.distribution or self.package]
        absent = [*own, *missing]
        noun = "package" if len(absent) == 1 else "packages"
        return (
            f"engine {self.name!r} needs the {noun} {' and '.join(absent)}: "
            f"pip install {' '.join(absent)}"
        )


def load_file(path: Path, name: str) -> Any:
    """Import one file as module ``name``, without the package it lies in."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SimverifyError(f"{path} is not a Python file: name the engine's source")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
