"""What was measured of generators and samplers, by version: the table that simverify brings."""

from functools import cache
from importlib.resources import files

import msgspec

from simverify.samplers.judge import JudgedCall
from simverify.samplers.uniforms import StreamPair, UniformGrid

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
