"""The versions that a sweep's numbers come from; with others it does not go on."""

import hashlib
import importlib
import platform
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from simverify.results import SweepVersions

_PACKAGES = ("simverify", "simverify.simulators", "simverify.stats")
_APART = {"api", "cli", "plugin", "reports"}
"""What no number comes from."""


@lru_cache(maxsize=1)
def versions() -> SweepVersions:
    """Return the versions in use here."""
    return SweepVersions(
        simverify=version("simverify"),
        code=_code(),
        python=".".join(platform.python_version_tuple()[:2]),
        numpy=version("numpy"),
        numba=version("numba"),
        scipy=version("scipy"),
    )


def difference(there: SweepVersions, here: SweepVersions) -> str:
    """Return in words what differs first of two that are not the same."""
    for name in SweepVersions.__struct_fields__:
        one, other = getattr(there, name), getattr(here, name)
        if one != other and name != "code":
            return f"{name} {one} there, {other} here"
    return "other code of simverify there"


def _code() -> str:
    digest = hashlib.sha256()
    for package in _PACKAGES:
        found = importlib.import_module(package).__file__
        assert found is not None
        folder = Path(found).parent
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).parts
            # An installed package holds the other two within it, a checkout beside it.
            if parts[0] not in _APART | {"simulators", "stats"} or package != "simverify":
                digest.update("/".join((package, *parts)).encode() + b"\0")
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
