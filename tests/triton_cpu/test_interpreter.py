"""Tiles beside Triton's own interpreter: the same kernels on the same numbers."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from simverify.backends.batch import (  # noqa: E402
    interpreter,
    load_triton,
)
from simverify.engines.extract import load_file  # noqa: E402
from simverify.folders import find_package  # noqa: E402
from simverify.triton_cpu import load_tiles  # noqa: E402

if find_package("triton") is None:
    pytest.skip("needs Triton: pip install --no-deps triton", allow_module_level=True)

FILE = Path(__file__).with_name("own_kernels.py")
NAMES = ("floats", "integers", "reductions", "table", "loops", "randoms", "derived", "short_ways")
REAL, DEVICE = load_triton(lambda: load_file(FILE, "own_kernels_interpreted"))
if DEVICE != "cpu":
    pytest.skip("the interpreter is not chosen where there is a GPU", allow_module_level=True)
TILES = load_tiles(FILE, NAMES)


def same(name, grid, tensors, *numbers, **constants):
    """Launch a kernel both ways; every tensor must hold the same bits afterwards."""
    ours, theirs = ([x.clone() for x in tensors] for _ in range(2))
    getattr(TILES, name)[grid](*ours, *numbers, **constants)
    with interpreter():
        getattr(REAL, name)[grid](*theirs, *numbers, **constants)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
        np.testing.assert_array_equal(np.signbit(one.numpy()), np.signbit(other.numpy()))
    return ours


def rows(seed, *shape, dtype=np.float32):
    return torch.tensor(np.random.default_rng(seed).random(shape).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("n", "block"), [(1, 1), (5, 8), (13, 4), (3, 1024), (700, 1024)])
def test_floats(n, block, dtype):
    x, y = rows(n, n, dtype=dtype), rows(n + 1, n, dtype=dtype)
    same("floats", (-(-n // block),), [x, y, torch.zeros_like(x)], n, BLOCK=block)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integers_wrap_and_divide_toward_zero(dtype):
    rng = np.random.default_rng(3)
    x = torch.tensor(rng.integers(-(2**31), 2**31, 40)).to(dtype)
    y = torch.tensor(rng.integers(1, 2**20, 40) * rng.choice([-1, 1], 40)).to(dtype)
    out = torch.zeros(200, dtype=torch.int64)
    *_, found = same("integers", (1,), [x, y, out], 40, BLOCK=64)
    if dtype == torch.int32:
        assert (found[:40] != x.long() * y.long()).any()  # some did wrap


@pytest.mark.parametrize(("n", "block"), [(1, 1), (4, 4), (6, 8), (5, 4096), (3000, 4096)])
def test_reductions_and_their_ties(n, block):
    x = rows(n, 3, n)
    x[0] = 0.25  # all tie: the first wins
    if n > 2:
        x[1, 1:] = x[1, 1]
    outs = [torch.zeros(3, 4), torch.zeros(3, 3, dtype=torch.int32)]
    _, _, places = same("reductions", (3,), [x, *outs], n, BLOCK=block)
    assert places[0, :2].tolist() == [0, 0]


@pytest.mark.parametrize(("n", "block"), [(1, 1), (2, 4), (5, 8), (8, 8), (6, 1024)])
def test_short_ways_of_scalars_and_rows_give_what_the_long_ones_do(n, block):
    x = rows(n, n) - 0.5
    *_, out = same("short_ways", (1,), [x, torch.zeros(8 * block)], n, 1, 0, BLOCK=block)
    assert (torch.signbit(out[:n]) == torch.signbit(x)).all()
    assert (torch.signbit(out[block : block + n]) == torch.signbit(x)).all()  # by 0.0, though -0.0


def test_rows_that_are_masked_off_altogether():
    x = torch.full((2, 3), float("-inf"))
    outs = [torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.int32)]
    same("reductions", (2,), [x, *outs], 3, BLOCK=8)


@pytest.mark.parametrize(("r", "c"), [(1, 1), (3, 5), (4, 8)])
def test_blocks_of_two_dimensions(r, c):
    x = rows(c, r, c)
    same("table", (1,), [x, torch.zeros_like(x)], r, c, R=4, C=8)


@pytest.mark.parametrize("n", [0, 1, 9])
def test_loops_and_decisions(n):
    same("loops", (1,), [rows(n, n + 1), torch.zeros(2)], n, 0.7, STEPS=3)


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**40 + 17])
def test_random_numbers_are_tritons_to_the_last_bit(seed):
    for first in (0, 7, 2**30):
        outs = [torch.zeros(34), torch.zeros(33, dtype=torch.int32)]
        found, _ = same("randoms", (1,), outs, seed, first, 33, BLOCK=64)
        assert len(set(found[:33].tolist())) == 33
        assert found[33] == found[0]  # one address, one number


def test_derived_constants():
    same("derived", (1,), [rows(1, 5), torch.zeros(5)], 5)
