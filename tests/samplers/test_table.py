"""The table of ``simverify generators``: what the installed libraries do today."""

from dataclasses import replace

import numpy as np
import pytest
from docs.examples import ROOT
from support.pages.scripts import load

from simverify.errors import UsageError
from simverify.samplers import compiled, judge, table, uniforms
from simverify.samplers.catalogue import (
    GENERATORS,
    SAMPLERS,
    STREAMS,
    check_installed,
    installed_version,
)

measuring = load(ROOT / "benchmarks" / "generators.py")
TABLE = table.measured_table()


def installed(package):
    """Skip where the table is of another version than the one that is here."""
    here = installed_version(package)
    if here != TABLE.versions[package]:
        pytest.skip(f"{package} {here} is not in the table")


def test_everything_is_in_the_table():
    uniform = {(one.name, dtype) for one in GENERATORS for dtype in one.dtypes}
    assert {(one.grid.name, one.grid.dtype) for one in TABLE.uniforms} == uniform
    samplers = {(one.name, dtype) for one in SAMPLERS.values() for dtype in one.dtypes}
    assert {(one.name, one.dtype) for one in TABLE.samplers} == samplers
    for one in TABLE.samplers:
        assert len(one.rows) == len(judge.ROWS) * len(table.VOCABULARIES)
    pairs = [(one.package, one.setting, *pair) for one in STREAMS for pair in one.pairs]
    assert [(one.package, one.setting, one.one, one.other) for one in TABLE.streams] == pairs


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda one: one.name)
def test_generators_are_what_the_table_says(generator):
    installed(generator.package)
    seeds = measuring.seeds_of(generator)
    for known in TABLE.uniforms:
        if known.grid.name == generator.name:
            assert uniforms.measure_grid(generator, known.grid.dtype) == known.grid
            assert known.seeds == seeds


@pytest.mark.parametrize("known", TABLE.samplers, ids=lambda one: f"{one.name}-{one.dtype}")
def test_samplers_are_what_the_table_says(known):
    installed(known.package)
    sampler = SAMPLERS[known.name]
    assert measuring.strange_rows(sampler, known.dtype) == known.strange
    for row in known.rows:
        if row.tv is None or row.vocab == max(table.VOCABULARIES):
            continue
        made = judge.make_row(row.row, row.vocab)
        law = judge.exact_law(sampler, made, known.dtype)
        given = sampler.cast(made, known.dtype)
        assert judge.total_variation(law, given) == pytest.approx(row.tv, rel=1e-6, abs=1e-15)
        assert int(((law == 0) & (given > 0)).sum()) == row.never


def test_a_version_that_is_not_in_the_table_is_said_so(monkeypatch):
    from simverify.reports import samplers as shown

    assert shown.version_words("numpy") == f"numpy {TABLE.versions['numpy']}"
    monkeypatch.setitem(TABLE.versions, "numpy", "1.0")
    assert "which is not in the table" in shown.version_words("numpy")
    assert table.known_versions("numpy") == ("1.0",)
    assert table.known_versions("no library") == ()


@pytest.mark.parametrize("streams", STREAMS, ids=lambda one: f"{one.package}-{one.setting}")
def test_streams_are_what_the_table_says(streams):
    installed(streams.package)
    known = [
        one
        for one in TABLE.streams
        if (one.package, one.setting) == (streams.package, streams.setting)
    ]
    assert list(uniforms.measure_streams(streams)) == known


def test_another_seed_shares_nothing():
    pairs = ("default_rng(5)", "default_rng(5)"), ("default_rng(5)", "default_rng(6)")
    streams = next(one for one in STREAMS if one.package == "numpy")
    measured = uniforms.measure_streams(replace(streams, pairs=pairs))
    assert [one.share for one in measured] == ["the same numbers", "distinct"]


def drawn(seed, count=1_024):
    return np.random.default_rng(seed).random(count)


def test_what_streams_share_is_told_apart():
    numbers = drawn(1)
    for other, words in (
        (numbers.copy(), "the same numbers"),
        (drawn(1, 1_100)[76:], "the second is the first from number 76 on"),
        (np.concatenate([drawn(2)[:1_000], numbers[:24]]), "24 numbers in common"),
        (drawn(2), "distinct"),
    ):
        assert uniforms.shared_words(numbers, other) == words


def test_words_that_become_one_are_counted():
    """A float32 of a word of 32 bits is 1 from 2^32 - 128 on, unless the library forbids it."""
    for library, one in (("libc++", 128 / 2**32), ("libstdc++", 0)):
        if installed_version(library) is not None:
            assert compiled._cpp_ends(library, "generate_canonical", "float32")[1] == one


def test_a_compiler_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(compiled, "_said", lambda *_arguments, **_more: None)
    monkeypatch.setattr(compiled, "compiled_version", compiled.compiled_version.__wrapped__)
    for name, needed in (
        ("libstdc++.discrete_distribution", "install g"),
        ("rust.rand.WeightedIndex", "install cargo"),
    ):
        with pytest.raises(UsageError, match=needed):
            check_installed(SAMPLERS[name])
