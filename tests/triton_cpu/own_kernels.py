"""Small kernels in several styles, run by Triton's interpreter and by tiles.

Not imported by tests: both load the file, each with its own ``triton``.
"""

import triton
import triton.language as tl

SCALE = tl.constexpr(0.5)


@triton.jit
def twice(x, more: tl.constexpr = 0):
    return x * 2 + more


@triton.jit
def floats(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=0.5)
    y = tl.load(y_ptr + i, mask=i < n, other=2.0)
    value = tl.where(x > y, x / y, tl.minimum(x - y, 0.25)) * SCALE + twice(x, more=1)
    if x.dtype != tl.float16:
        value += tl.exp(-x) + tl.log(y + 1.0) + tl.sqrt(y)
    value += tl.maximum(x, 0.1) + tl.abs(x - 1) + 2 / y
    tl.store(out_ptr + i, value, mask=inside)


@triton.jit
def integers(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < n, 1)
    y = tl.load(y_ptr + i, i < n, 1)
    wide = x.to(tl.int64) * 3 - (i // 3) % 5
    bits = ((x ^ y) | (x & 255)) + (x << 3) - (y >> 2)
    hashed = x.to(tl.uint32) * 0xCC9E2D51
    hashed ^= hashed >> 16
    tl.store(out_ptr + 0 * n + i, (x * y).to(tl.int64), i < n)
    tl.store(out_ptr + 1 * n + i, (x // y).to(tl.int64) + x % y, i < n)
    tl.store(out_ptr + 2 * n + i, wide + bits, i < n)
    tl.store(out_ptr + 3 * n + i, hashed.to(tl.int64), i < n)
    tl.store(out_ptr + 4 * n + i, (~x).to(tl.int64) + (x == y) + (x >= 7), i < n)


@triton.jit
def reductions(x_ptr, out_ptr, places_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + i, mask=i < n, other=float("-inf"))
    most, place = tl.max(x, axis=0, return_indices=True)
    kept = tl.where(i < n, x, 0.0)
    sums = tl.cumsum(kept, axis=0)
    tl.store(out_ptr + row * 4 + 0, most)
    tl.store(out_ptr + row * 4 + 1, tl.sum(kept, axis=0))
    tl.store(out_ptr + row * 4 + 2, tl.min(tl.where(i < n, x, 9.0), axis=0))
    tl.store(out_ptr + row * 4 + 3, tl.max(sums, axis=0))
    tl.store(places_ptr + row * 3 + 0, place)
    tl.store(places_ptr + row * 3 + 1, tl.argmin(tl.where(i < n, x, 9.0), axis=0))
    first = tl.min(tl.where((sums > tl.sum(kept, axis=0) * 0.5) & (x > 0), i, BLOCK), axis=0)
    tl.store(places_ptr + row * 3 + 2, first)


@triton.jit
def table(x_ptr, out_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    x = tl.load(x_ptr + r[:, None] * columns + c[None, :], inside, 0.0)
    peak = tl.max(x, axis=1)
    law = tl.exp(x - peak[:, None]) / tl.sum(tl.exp(x - peak[:, None]), axis=1)[:, None]
    tl.store(out_ptr + r[:, None] * columns + c[None, :], law, inside)


@triton.jit
def loops(x_ptr, out_ptr, n, limit, STEPS: tl.constexpr):
    total = 0.0
    found = 0
    for k in range(n):
        x = tl.load(x_ptr + k)
        if x > limit and found == 0:
            found = k + 1
        total += x
    step = 0
    while step < n and total > 1.0:
        total *= 0.5
        step += 1
    for k in tl.static_range(STEPS):
        total += k * SCALE
    tl.store(out_ptr, total)
    tl.store(out_ptr + 1, found + step * 1.0)


@triton.jit
def randoms(out_ptr, ints_ptr, seed, first, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.rand(seed, first + i), i < n)
    tl.store(ints_ptr + i, tl.randint(seed, first.to(tl.int64) * 77777777777 + i), i < n)
    tl.store(out_ptr + n, tl.rand(seed, first))


@triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["n"])})
@triton.jit
def derived(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) * 3, i < n)


@triton.jit
def short_ways(x_ptr, out_ptr, n, one, zero, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK) * one + zero
    inside = (i - 0) * 1 < n
    x = tl.load(x_ptr + i, mask=inside, other=(i * 2).to(tl.float32))
    # A zero, which has no sign in a source, and 1 that is a float, a whole number or a truth.
    tl.store(out_ptr + 0 * BLOCK + i, x * 0.0)
    tl.store(out_ptr + 1 * BLOCK + i, x * -0.0)
    tl.store(out_ptr + 2 * BLOCK + i, (i + 1) / 2 + (i + 1.0) / 2 + (inside & True) * 1)
    # A piece that was loaded stays as it was, whatever is stored there.
    piece = tl.load(x_ptr + 1 + i, mask=i < n - 1, other=-1.0)
    tl.store(x_ptr + i, x + 1, mask=inside)
    tl.store(out_ptr + 3 * BLOCK + i, piece)
    # Lanes that are let in behind a gap, and none at all.
    gap = tl.load(x_ptr + i, mask=(i < n) & (i != 1), other=7.0)
    none = tl.load(x_ptr + i, mask=i < 0, other=3.0)
    tl.store(out_ptr + 4 * BLOCK + i, gap - none + (0 - i) - (i - 0))
    backwards = tl.load(x_ptr + (n - 1) - i, mask=i < n, other=0.5)
    # What fills the lanes was loaded, and has more of them.
    filled = tl.load(x_ptr + i, mask=i < 1, other=backwards)
    tl.store(out_ptr + 7 * BLOCK + i, filled)
    tl.store(out_ptr + 5 * BLOCK + i, tl.maximum(backwards - gap, 0.0) * (none - 3.0))
    tl.store(out_ptr + 6 * BLOCK + i, backwards + (3 - one) * (i * one) + (one - zero) * 2.5)
