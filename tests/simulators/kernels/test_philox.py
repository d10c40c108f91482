"""Philox against the Random123 vectors, and every draw at its address."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from support.oracles import naive
from support.oracles.naive import draw_alias

from simverify.models.base import MarkovModel
from simverify.models.markov import markov
from simverify.simulators.kernels import philox
from simverify.simulators.kernels.markov import build_alias
from simverify.simulators.run import markov_tables, stack_rows

# Alias tables against the rows they stand for, in fractions.


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


# Random123, kat_vectors: philox 4x32, 10 rounds; counter, key, output.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text):
    return tuple(int(word, 16) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_known_answers(counter, key, output):
    arguments = [np.uint64(word) for word in words(counter) + words(key)]
    assert philox.philox(*arguments) == words(output)
    assert naive.philox(words(counter), words(key)) == words(output)
    # The vectors tell the words of a key apart.
    swapped = [*arguments[:4], arguments[5] + np.uint64(1), arguments[4]]
    assert philox.philox(*swapped) != words(output)


ADDRESSES = [
    (0, 0, philox.DRAFT, 0),
    (7, 1000, philox.ACCEPT, 3),
    (2**64 - 1, 2**32 - 2, philox.CORRECTION, 11),  # trials on both sides of 2**32
    (2**63 + 12345, 2**62, philox.PIT, 40),
    (2**32 + 5, 2**61 + 9, philox.CONTEXT, 0),
]


@pytest.mark.parametrize(("seed", "trial", "stream", "first_call"), ADDRESSES)
def test_tile_holds_the_draws_of_its_addresses(seed, trial, stream, first_call):
    out = np.empty((6, 5))
    philox.fill_tile(np.uint64(seed), trial, stream, first_call, out)
    due = [
        [naive.uniform(seed, trial + t, stream, 2 * first_call + n) for t in range(5)]
        for n in range(6)
    ]
    np.testing.assert_array_equal(out, due)
    assert ((out >= 0) & (out < 1)).all()
    np.testing.assert_array_equal(out * 2**53 % 1, 0)
    assert (out * 2**53 % 2**20).any(axis=1).all()  # the low bits are filled


def test_streams_are_those_of_the_design():
    streams = philox.DRAFT, philox.ACCEPT, philox.CORRECTION, philox.CONTEXT, philox.PIT
    assert streams == (0, 1, 2, 3, 4)
    assert streams == (naive.DRAFT, naive.ACCEPT, naive.CORRECTION, naive.CONTEXT, naive.PIT)


def test_no_two_addresses_share_a_draw():
    draws = set()
    tiles = [(seed, stream, trial) for seed in (0, 1, 2**32) for stream in (0, 1, 2)
             for trial in (0, 2**32)]  # fmt: skip
    out = np.empty((8, 64))
    for seed, stream, trial in tiles:
        philox.fill_tile(np.uint64(seed), trial, stream, 0, out)
        draws.update(out.ravel().tolist())
    # 9,216 draws of 53 bits coincide with probability 5e-9.
    assert len(draws) == len(tiles) * out.size


def test_largest_draw_is_below_one():
    assert (2**64 - 1 >> 11) / 2**53 < 1


# Tables of a large vocabulary: filled row by row, over the model's own rows.


def test_scratch_memory_is_a_few_rows():
    model = markov(20_000)
    markov_tables(markov(5))  # compiled before the count begins
    tracemalloc.start()
    try:
        tables = markov_tables(model)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = sum(part.nbytes for part in tables) - tables.target.nbytes - tables.draft.nbytes
    assert peak < kept + 12 * 20_000 * 8
    # Seven and a half tables of floats, and places in as many cells as V allows.
    assert kept < 9 * model.target_rows.nbytes


@pytest.mark.parametrize("copied", [False, True])
def test_rows_that_lie_together_are_not_copied(copied):
    model = markov(40)
    rows = model.target_rows.copy() if copied else model.target_rows
    whole = stack_rows(rows, model.target_start)
    np.testing.assert_array_equal(whole, np.vstack([rows, model.target_start]))
    assert np.shares_memory(whole, rows) is not copied


def test_a_start_from_elsewhere_is_not_taken_for_the_last_row():
    model = markov(40)
    start = model.target_start[::-1].copy()
    moved = MarkovModel("m", start, model.target_rows, model.draft_start, model.draft_rows)
    np.testing.assert_array_equal(markov_tables(moved).target[-1], start)
