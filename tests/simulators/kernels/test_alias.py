"""Alias tables against the rows they stand for, in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from support.oracles.naive import draw_alias

from simverify.simulators.kernels.tables.alias import build_alias


def build(rows):
    rows = np.array(rows, dtype=np.float64)
    cut, alias = np.full_like(rows, np.nan), np.full(rows.shape, -1, np.int32)
    build_alias(rows, cut, alias)
    return cut, alias


def law(cut, alias):
    """Return the law of a draw from one table, in fractions: a column is uniform, so is its cut."""
    size = len(cut)
    mass = [Fraction(0)] * size
    for column in range(size):
        share = min(Fraction(float(cut[column])), Fraction(1))
        mass[column] += share / size
        mass[alias[column]] += (1 - share) / size
    return np.array(mass, dtype=np.float64)


def rows_of(kind):
    rng = np.random.default_rng(5)
    if kind == "dirichlet":
        return rng.dirichlet(np.full(64, 0.3), 20)
    if kind == "zeros":
        rows = rng.dirichlet(np.ones(9), 30) * (rng.random((30, 9)) < 0.5)
        rows[:, 4] += 0.01
        return rows / rows.sum(axis=1, keepdims=True)
    if kind == "large":
        return rng.dirichlet(np.full(5000, 0.05), 2)
    if kind == "uniform":
        return np.full((1, 7), 1 / 7)
    if kind == "tiny":
        return [[1e-300, 1.0, 0.0], [1 - 2e-16, 1e-16, 1e-16], [0.5, 0.5, 5e-324]]
    return np.eye(4)


@pytest.mark.parametrize("kind", ["dirichlet", "zeros", "large", "uniform", "tiny", "one-hot"])
def test_table_has_the_law_of_its_row(kind):
    rows = np.asarray(rows_of(kind))
    cut, alias = build(rows)
    size = rows.shape[1]
    assert ((cut >= 0) & (alias >= 0) & (alias < size)).all()
    assert (cut <= 1 + 1e-12).all()
    for row, *table in zip(rows, cut, alias, strict=True):
        got = law(*table)
        # A cut is at most V and is lowered at most V times, by half an ulp of itself at worst.
        np.testing.assert_allclose(got, row, rtol=0, atol=size * 2.0**-52)
        assert not got[row == 0].any(), "a token of probability 0 can be drawn"


def test_law_of_another_row_is_seen():
    rows = rows_of("dirichlet")
    cut, alias = build(rows)
    assert abs(law(cut[0], alias[0]) - rows[1]).max() > 0.05
    # One alias that points elsewhere is a wrong law.
    column = int(np.argmin(cut[0]))
    alias[0, column] = (alias[0, column] + 1) % 64
    assert abs(law(cut[0], alias[0]) - rows[0]).max() > 1e-3


def test_single_token():
    cut, alias = build([[1.0]])
    assert draw_alias(cut[0].tolist(), alias[0].tolist(), 1 - 2**-53) == 0


def test_extreme_uniforms_draw_possible_tokens():
    rows = rows_of("zeros")
    cut, alias = build(rows)
    for row, *table in zip(rows, cut.tolist(), alias.tolist(), strict=True):
        edges = [column / len(row) for column in range(len(row))]
        for u in (0.0, 1 - 2**-53, *edges, *np.nextafter(edges[1:], 0)):
            assert row[draw_alias(*table, float(u))] > 0
