"""All samplers and generators that are known, by name."""

import platform
from contextlib import suppress
from importlib import metadata

from simverify.checks import pick_name
from simverify.errors import UsageError
from simverify.samplers import array_libraries, runtimes
from simverify.samplers.base import Sampler, UniformGenerator

SAMPLERS: dict[str, Sampler] = {
    sampler.name: sampler for sampler in (*array_libraries.SAMPLERS, *runtimes.SAMPLERS)
}
"""``torch.distributions.Categorical`` is ``torch.multinomial-replacement``."""

GENERATORS: tuple[UniformGenerator, ...] = (*array_libraries.GENERATORS, *runtimes.GENERATORS)


def get_sampler(name: str) -> Sampler:
    """Return a sampler by name. Raises ``UsageError`` for one that does not exist."""
    return SAMPLERS[pick_name(name, SAMPLERS, "sampler")]


def check_installed(sampler: Sampler) -> str:
    """Return the version of the library. Raises ``UsageError`` where it is not installed."""
    version = installed_version(sampler.package)
    if version is None:
        raise UsageError(
            f"{sampler.name} needs {sampler.package}, which is not installed: pip install "
            f"{sampler.package}"
        )
    return version


def installed_version(package: str) -> str | None:
    """Return the version of a library, "" being Python itself; None where it is not installed."""
    if not package:
        return platform.python_version()
    for name in (package, f"{package}-cpu"):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None
