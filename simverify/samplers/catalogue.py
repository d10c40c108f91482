"""All samplers and generators that are known, by name."""

import platform
from contextlib import suppress
from importlib import metadata

from simverify.checks import pick_name
from simverify.errors import UsageError
from simverify.samplers import array_libraries, compiled, runtimes, uniforms
from simverify.samplers.base import DrawFunction, Sampler, Streams, UniformGenerator

SAMPLERS: dict[str, Sampler] = {
    sampler.name: sampler
    for library in (array_libraries, runtimes, compiled)
    for sampler in library.SAMPLERS
}
"""``torch.distributions.Categorical`` is ``torch.multinomial-replacement``."""

GENERATORS: tuple[UniformGenerator, ...] = (
    *array_libraries.GENERATORS,
    *runtimes.GENERATORS,
    *compiled.GENERATORS,
)

STREAMS: tuple[Streams, ...] = (*array_libraries.STREAMS, *runtimes.STREAMS)

DRAW_FUNCTIONS: tuple[DrawFunction, ...] = tuple(
    draw
    for library in (uniforms, array_libraries, runtimes, compiled)
    for draw in library.DRAW_FUNCTIONS
)


def get_sampler(name: str) -> Sampler:
    """Return a sampler by name. Raises ``UsageError`` for one that does not exist."""
    if name in {one.name for one in GENERATORS}:
        library = name.partition(".")[0]
        raise UsageError(
            f"{name} draws uniform numbers, not tokens: see simverify generators {library}"
        )
    return SAMPLERS[pick_name(name, SAMPLERS, "sampler")]


def check_installed(sampler: Sampler) -> str:
    """Return the version of the library. Raises ``UsageError`` where it is not installed."""
    version = installed_version(sampler.package)
    if version is None:
        needed = compiled.needed_words(sampler.package) or (
            f"needs {sampler.package}, which is not installed: pip install {sampler.package}"
        )
        raise UsageError(f"{sampler.name} {needed}")
    return version


def installed_version(package: str) -> str | None:
    """Return the version of a library, "" being Python itself; None where it is not installed."""
    if not package:
        return platform.python_version()
    if compiled.needed_words(package):
        return compiled.compiled_version(package)
    for name in (package, f"{package}-cpu"):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None
