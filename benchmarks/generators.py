"""Measures the table of ``simverify generators`` on the libraries that are installed.

``python benchmarks/generators.py --write`` writes ``simverify/samplers/table.json``, where entries
of libraries that are not installed stay. Without it, it says whether that file is still right. It
takes ten minutes, most of it races that are sampled. Libraries that do not fit into one environment
are measured one by one, with ``--only``.
"""

import argparse
import math
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np

from simverify.samplers import catalogue, judge, uniforms
from simverify.samplers.base import DrawFunction, Sampler, SeedRefused, UniformGenerator
from simverify.samplers.catalogue import (
    DRAW_FUNCTIONS,
    GENERATORS,
    SAMPLERS,
    STREAMS,
    installed_version,
)

FILE = Path(catalogue.__file__).with_name("table.json")
LEAST_TV = 0.03
"""What sampled rows are to find, where that takes no more than the numbers below."""

NUMBERS = 300_000_000
"""Random numbers of a sampled row at most, some ten seconds."""


SEEDS = {"-1": -1, "2^32": 1 << 32, "2^32 + 1": (1 << 32) + 1, "2^64": 1 << 64}
"""Compared with the seeds 0 and 1."""


def seeds_of(generator: UniformGenerator) -> dict[str, str]:
    """Return what seeds are, and what comes without one in two processes."""
    dtype = generator.dtypes[0]
    usual = {seed: generator.draw(dtype, 8, seed).tolist() for seed in (0, 1)}
    words = {}
    for name, seed in SEEDS.items():
        try:
            drawn = generator.draw(dtype, 8, seed).tolist()
        except SeedRefused as error:
            words[name] = str(error)
            continue
        except Exception as error:
            words[name] = f"raises {type(error).__name__}"
            continue
        words[name] = next((f"same as {x}" for x, y in usual.items() if y == drawn), "distinct")
    if not generator.unseeded:
        return words | {"no seed": "a seed is required"}
    command = [sys.executable, "-c", generator.unseeded]
    first, second = (subprocess.check_output(command, text=True) for _ in range(2))
    return words | {
        "no seed": "the same in each process" if first == second else "differs in each process"
    }


STRANGE = {
    "all zero": [0.0] * 8,
    "all NaN": [math.nan] * 8,
    "one NaN": [math.nan, *[1 / 7] * 7],
    "sums to 2": [0.25] * 8,
    "one negative": [-0.1, 0.2, *[0.15] * 6],
}


def strange_rows(sampler: Sampler, dtype: str) -> dict[str, str]:
    """Return what comes of rows that are no distributions."""
    words = {}
    for name, row in STRANGE.items():
        try:
            with np.errstate(all="ignore"):
                tokens = sampler.draw(np.array(row), dtype, 1_000, 0)
        except Exception as error:
            words[name] = f"raises {type(error).__name__}"
            continue
        seen = np.unique(tokens)
        words[name] = f"token {seen[0]}" if len(seen) == 1 else f"{len(seen)} tokens"
    return words


def measured(sampler: Sampler, dtype: str) -> catalogue.MeasuredSampler:
    """Measure a sampler in one type."""
    rows = []
    for vocab in catalogue.VOCABULARIES:
        for kind in judge.ROWS:
            judged = judge.judge_row(
                sampler, kind, dtype, vocab, seed=0, alpha=1e-6, detect=LEAST_TV
            )
            print(f"{sampler.name} {dtype} {vocab} {kind}: {judged.tv}", file=sys.stderr)
            rows.append(
                catalogue.MeasuredRow(
                    row=kind,
                    vocab=vocab,
                    tv=judged.tv,
                    never=judged.never,
                    never_mass=judged.never_mass,
                    detectable=judged.detectable,
                    rejected=judged.tier == "sampled" and judged.verdict == "FAIL",
                )
            )
    return catalogue.MeasuredSampler(
        sampler.name,
        sampler.package,
        dtype,
        sampler.method,
        tuple(rows),
        strange_rows(sampler, dtype),
    )


def measured_draw(draw: DrawFunction) -> catalogue.MeasuredDraw:
    """Measure a function that draws integers, permutations or normal numbers."""
    calls = tuple(judge.judge_call(draw, call) for call in draw.calls)
    unusual = {call: judge.unusual_words(draw, call) for call in draw.unusual_calls}
    return catalogue.MeasuredDraw(draw.name, draw.package, draw.method, calls, unusual)


def installed(packages: set[str]) -> dict[str, str]:
    """Return the versions of those that are installed, "" for Python itself."""
    versions = {}
    for package in sorted(packages):
        here = installed_version(package)
        if here is None:
            print(f"{package} is not installed: its entries stay", file=sys.stderr)
        else:
            versions[package] = here
    return versions


def main() -> int:
    """Measure what is installed, and write it or compare it."""
    parser = argparse.ArgumentParser(description="Measure generators and samplers of libraries.")
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}")
    parser.add_argument("--only", metavar="PACKAGE", help="measure one library alone")
    parser.add_argument("--into", type=Path, default=FILE, help="write another file")
    options = parser.parse_args()
    judge.MAX_SAMPLED_NUMBERS = NUMBERS
    before = catalogue.measured_table() if FILE.exists() else catalogue.MeasuredTable({}, (), ())
    every = {one.package for one in (*GENERATORS, *SAMPLERS.values(), *DRAW_FUNCTIONS)}
    here = installed(every if options.only is None else {options.only})
    known = {(one.grid.name, one.grid.dtype): one for one in before.uniforms}
    entries = {(one.name, one.dtype): one for one in before.samplers}
    draws = {one.name: one for one in before.draws}
    made = catalogue.MeasuredTable(
        versions={x: y for x, y in sorted((before.versions | here).items()) if x in every},
        uniforms=tuple(
            catalogue.MeasuredGenerator(uniforms.measure_grid(one, dtype), seeds_of(one))
            if one.package in here
            else known[one.name, dtype]
            for one in GENERATORS
            for dtype in one.dtypes
            if one.package in here or (one.name, dtype) in known
        ),
        samplers=tuple(
            measured(one, dtype) if one.package in here else entries[one.name, dtype]
            for one in SAMPLERS.values()
            for dtype in one.dtypes
            if one.package in here or (one.name, dtype) in entries
        ),
        streams=tuple(
            pair
            for one in STREAMS
            for pair in (
                uniforms.measure_streams(one)
                if one.package in here
                else (
                    x
                    for x in before.streams
                    if (x.package, x.setting) == (one.package, one.setting)
                )
            )
        ),
        draws=tuple(
            measured_draw(one) if one.package in here else draws[one.name]
            for one in DRAW_FUNCTIONS
            if one.package in here or one.name in draws
        ),
    )
    text = msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"
    if options.write:
        options.into.write_bytes(text)
        return 0
    same = FILE.read_bytes() == text
    print("as in the table" if same else "differs from the table: run with --write, and compare")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
