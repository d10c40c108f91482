"""The table of ``simverify generators``: what the installed libraries do today."""

import pytest
from docs.examples import ROOT
from support.pages.scripts import load

from simverify.samplers import judge, table, uniforms
from simverify.samplers.catalogue import GENERATORS, SAMPLERS, installed_version

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
