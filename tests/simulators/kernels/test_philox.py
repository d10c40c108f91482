"""Philox against the Random123 vectors, and every draw at its address."""

import numpy as np
import pytest
from support.oracles import naive

from simverify.simulators.kernels import philox as compiled

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
    assert compiled.philox(*arguments) == words(output)
    assert naive.philox(words(counter), words(key)) == words(output)
    # The vectors tell the words of a key apart.
    swapped = [*arguments[:4], arguments[5] + np.uint64(1), arguments[4]]
    assert compiled.philox(*swapped) != words(output)


ADDRESSES = [
    (0, 0, compiled.DRAFT, 0),
    (7, 1000, compiled.ACCEPT, 3),
    (2**64 - 1, 2**32 - 2, compiled.CORRECTION, 11),  # trials on both sides of 2**32
    (2**63 + 12345, 2**62, compiled.PIT, 40),
    (2**32 + 5, 2**61 + 9, compiled.CONTEXT, 0),
]


@pytest.mark.parametrize(("seed", "trial", "stream", "first_call"), ADDRESSES)
def test_tile_holds_the_draws_of_its_addresses(seed, trial, stream, first_call):
    out = np.empty((6, 5))
    compiled.fill_tile(np.uint64(seed), trial, stream, first_call, out)
    due = [
        [naive.uniform(seed, trial + t, stream, 2 * first_call + n) for t in range(5)]
        for n in range(6)
    ]
    np.testing.assert_array_equal(out, due)
    assert ((out >= 0) & (out < 1)).all()
    np.testing.assert_array_equal(out * 2**53 % 1, 0)
    assert (out * 2**53 % 2**20).any(axis=1).all()  # the low bits are filled


def test_streams_are_those_of_the_design():
    streams = compiled.DRAFT, compiled.ACCEPT, compiled.CORRECTION, compiled.CONTEXT, compiled.PIT
    assert streams == (0, 1, 2, 3, 4)
    assert streams == (naive.DRAFT, naive.ACCEPT, naive.CORRECTION, naive.CONTEXT, naive.PIT)


def test_no_two_addresses_share_a_draw():
    draws = set()
    tiles = [(seed, stream, trial) for seed in (0, 1, 2**32) for stream in (0, 1, 2)
             for trial in (0, 2**32)]  # fmt: skip
    out = np.empty((8, 64))
    for seed, stream, trial in tiles:
        compiled.fill_tile(np.uint64(seed), trial, stream, 0, out)
        draws.update(out.ravel().tolist())
    # 9,216 draws of 53 bits coincide with probability 5e-9.
    assert len(draws) == len(tiles) * out.size


def test_largest_draw_is_below_one():
    assert (2**64 - 1 >> 11) / 2**53 < 1
