"""All samplers and generators that are known, by name, and what was measured of them."""

import platform
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.resources import files

import msgspec

from simverify.checks import pick_name
from simverify.errors import UsageError
from simverify.samplers import array_libraries, compiled, runtimes, uniforms
from simverify.samplers.base import DrawFunction, Sampler, Streams, UniformGenerator
from simverify.samplers.judge import JudgedCall
from simverify.samplers.uniforms import StreamPair, UniformGrid

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


# What was measured, by version: the table that simverify brings.


VOCABULARIES = (32, 32_000, 152_000)


class MeasuredRow(msgspec.Struct, frozen=True):
    """What a sampler makes of a row; see :class:`simverify.results.SamplerRow`.

    ``tv`` is None where the distribution could not be computed; then ``detectable`` is what the
    tests, which found nothing, would find, unless ``rejected``.
    """

    row: str
    vocab: int
    tv: float | None
    never: int | None
    never_mass: float | None
    detectable: float | None = None
    rejected: bool = False


class MeasuredSampler(msgspec.Struct, frozen=True):
    """A sampler in one type. ``strange``: what it makes of rows that are no distributions."""

    name: str
    package: str
    dtype: str
    method: str
    rows: tuple[MeasuredRow, ...]
    strange: dict[str, str]


class MeasuredGenerator(msgspec.Struct, frozen=True):
    """A generator in one type. ``seeds``: what it makes of unusual seeds; without one, too."""

    grid: UniformGrid
    seeds: dict[str, str]


class MeasuredDraw(msgspec.Struct, frozen=True):
    """A :class:`~simverify.samplers.base.DrawFunction`, with what its unusual calls give."""

    name: str
    package: str
    method: str
    calls: tuple[JudgedCall, ...]
    unusual_calls: dict[str, str]


class MeasuredTable(msgspec.Struct, frozen=True):
    """All of it. ``versions``: by what pip calls the library, "" for Python itself."""

    versions: dict[str, str]
    uniforms: tuple[MeasuredGenerator, ...]
    samplers: tuple[MeasuredSampler, ...]
    streams: tuple[StreamPair, ...] = ()
    draws: tuple[MeasuredDraw, ...] = ()


@cache
def measured_table() -> MeasuredTable:
    """Return the table; ``benchmarks/generators.py --write`` makes it."""
    text = files("simverify.samplers").joinpath("table.json").read_bytes()
    return msgspec.json.decode(text, type=MeasuredTable)


def known_versions(package: str) -> tuple[str, ...]:
    """Return the versions of a library that are in the table."""
    known = measured_table().versions.get(package)
    return () if known is None else (known,)
