"""Token and block verification in Triton, on probabilities or logits.

Four launches, of which the first reads every row once and the others next to nothing:

1. ``sum_tiles`` (logits alone): maximum and sum of exponentials of each tile of each row.
2. ``weigh``: acceptance weights along the drafted tokens, and from them which rows can be the
   last one. As h <= weight always, most cannot.
3. ``sum_laws``: masses of max(w p - q, 0) by tile, on those rows.
4. ``draw``: which row it is, which tile its uniform falls into, and the token in that tile.

Elements are computed with in the rows' precision, float32 at least; weights, masses and running
sums are float64. A program holds one tile: nothing of size V is written.
"""

import triton
import triton.language as tl

ACCEPT = tl.constexpr(1)
CORRECTION = tl.constexpr(2)
OUT, MAYBE, SURE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""States of a row: cannot be the last; is, if its mass says so and no later one is; is, if no
later one is."""


@triton.jit
def fill_uniforms(out, seed, first_trial, call, batch, GAMMA: tl.constexpr, BLOCK: tl.constexpr):
    """``out`` float64 (batch, GAMMA+1): as ``simverify.backends.uniforms``."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = place // (GAMMA + 1)
    draw = place % (GAMMA + 1)
    last = draw == GAMMA
    trial = (first_trial + row).to(tl.uint64)
    number = tl.where(last, 0, draw)
    calls = tl.where(last, call, call * ((GAMMA + 1) // 2) + number // 2)
    stream = tl.where(last, CORRECTION, ACCEPT)
    a, b, c, d = tl.philox(
        seed,
        (trial & 0xFFFFFFFF).to(tl.uint32),
        (trial >> 32).to(tl.uint32),
        stream.to(tl.uint32),
        calls.to(tl.uint32),
    )
    odd = number % 2 == 1
    low = tl.where(odd, c, a).to(tl.uint64)
    high = tl.where(odd, d, b).to(tl.uint64)
    value = ((high << 32) | low) >> 11
    tl.store(out + place, value.to(tl.int64).to(tl.float64) * 1.1102230246251565e-16, row < batch)


@triton.jit
def sum_tiles(
    rows,
    row_stride,
    block_stride,
    count,
    most_out,
    sum_out,
    first,
    all_rows,
    V: tl.constexpr,
    TILES: tl.constexpr,
    TILE: tl.constexpr,
    FLOAT: tl.constexpr,
):
    """Maximum and sum of exp(logit - maximum) of one tile.

    ``rows`` (B, count, V); written to places ``first`` to ``first + count - 1`` of
    ``most_out``, ``sum_out`` (B, all_rows, TILES).
    """
    tile = tl.program_id(0) % TILES
    row = tl.program_id(0) // TILES
    b = (row // count).to(tl.int64)
    i = row % count
    ids = tile * TILE + tl.arange(0, TILE)
    place = rows + b * block_stride + i * row_stride + ids
    logits = tl.load(place, ids < V, float("-inf")).to(FLOAT)
    most = tl.max(logits, axis=0)
    # Of a tile of -inf alone the sum is 0, whatever is taken off.
    centre = tl.where(most == float("-inf"), 0.0, most)
    out = (b * all_rows + first + i) * TILES + tile
    tl.store(most_out + out, most)
    tl.store(sum_out + out, tl.sum(tl.exp(logits - centre), axis=0))


@triton.jit
def normalisers(most, total, row, mask, TILES: tl.constexpr, T: tl.constexpr):
    """Maximum of rows (R,) and one over the sum of their exponentials, from their tiles."""
    tile = tl.arange(0, T)
    inside = mask[:, None] & (tile < TILES)[None, :]
    place = row[:, None] * TILES + tile[None, :]
    peaks = tl.load(most + place, inside, float("-inf"))
    sums = tl.load(total + place, inside, 0.0)
    peak = tl.max(peaks, axis=1)
    centre = tl.where(mask, peak, 0.0)
    sums = tl.sum(sums * tl.exp(peaks - centre[:, None]), axis=1)
    return centre, 1.0 / tl.where(mask, sums, 1.0)


@triton.jit
def weigh(
    target,
    target_row,
    target_block,
    draft,
    draft_row,
    draft_block,
    tokens,
    uniforms,
    most,
    total,
    peak_out,
    scale_out,
    weight_out,
    state_out,
    GAMMA: tl.constexpr,
    G: tl.constexpr,
    TILES: tl.constexpr,
    T: tl.constexpr,
    BLOCK_RULE: tl.constexpr,
    LOGITS: tl.constexpr,
    FLOAT: tl.constexpr,
):
    """Weights and states of the rows of one block.

    ``weight_out`` float64 and ``state_out`` int32 (B, GAMMA+1); from logits also ``peak_out``,
    ``scale_out`` (B, 2 GAMMA+1), target rows first: p = exp(logit - peak) scale. G and T are
    powers of two that hold GAMMA+1 and TILES.
    """
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, G)
    drafted = i < GAMMA
    token = tl.load(tokens + b * GAMMA + i, drafted, 0)
    p = tl.load(target + b * target_block + i * target_row + token, drafted, 0.0).to(FLOAT)
    q = tl.load(draft + b * draft_block + i * draft_row + token, drafted, 1.0).to(FLOAT)
    if LOGITS:
        first = b * (2 * GAMMA + 1)
        p_peak, p_scale = normalisers(most, total, first + i, i <= GAMMA, TILES, T)
        tl.store(peak_out + first + i, p_peak, i <= GAMMA)
        tl.store(scale_out + first + i, p_scale, i <= GAMMA)
        first += GAMMA + 1
        q_peak, q_scale = normalisers(most, total, first + i, drafted, TILES, T)
        tl.store(peak_out + first + i, q_peak, drafted)
        tl.store(scale_out + first + i, q_scale, drafted)
        p = tl.exp(p - p_peak) * p_scale
        q = tl.exp(q - q_peak) * q_scale
    possible = q > 0
    ratio = p.to(tl.float64) / tl.where(possible, q, 1.0).to(tl.float64)
    weights = tl.full((G,), 1.0, tl.float64)
    coins = uniforms + b * (GAMMA + 1) + i
    if BLOCK_RULE:
        # A token that the draft cannot emit is not accepted either.
        ratio = tl.where(possible, tl.minimum(ratio, 1e100), 0.0)
        w = tl.full((), 1.0, tl.float64)
        for n in tl.static_range(GAMMA):
            w = tl.minimum(w * tl.sum(tl.where(i == n, ratio, 0.0), axis=0), 1.0)
            weights = tl.where(i == n + 1, w, weights)
        below = tl.load(coins - 1, (i > 0) & (i <= GAMMA), 1.0) < weights
        passed = tl.max(tl.where(below, i, 0), axis=0)
        sure = tl.max(tl.where((weights == 1.0) & (i < GAMMA), i, 0), axis=0)
        sure = tl.where(passed == GAMMA, GAMMA, sure)
        other = tl.where(below & (i > sure), MAYBE, OUT)
    else:
        below = tl.where(possible, tl.load(coins, drafted, 0.0) < ratio, p > 0)
        rejected = drafted & (below == 0)
        sure = tl.min(tl.where(rejected, i, GAMMA), axis=0)
        other = tl.full((G,), OUT, tl.int32)
    out = b * (GAMMA + 1) + i
    tl.store(weight_out + out, weights, i <= GAMMA)
    tl.store(state_out + out, tl.where(i == sure, SURE, other), i <= GAMMA)


@triton.jit
def tile_laws(
    target,
    target_row,
    target_block,
    draft,
    draft_row,
    draft_block,
    peaks,
    scales,
    weight,
    b,
    i,
    tile,
    GAMMA: tl.constexpr,
    V: tl.constexpr,
    TILE: tl.constexpr,
    LOGITS: tl.constexpr,
    FLOAT: tl.constexpr,
):
    """Elements of max(weight p - q, 0) and of p, on one tile of row i: p twice on the bonus row."""
    ids = tile * TILE + tl.arange(0, TILE)
    nothing = float("-inf") if LOGITS else 0.0
    p = tl.load(target + b * target_block + i * target_row + ids, ids < V, nothing).to(FLOAT)
    there = (ids < V) & (i < GAMMA)
    q = tl.load(draft + b * draft_block + i * draft_row + ids, there, nothing).to(FLOAT)
    if LOGITS:
        at = b * (2 * GAMMA + 1) + i
        p = tl.exp(p - tl.load(peaks + at)) * tl.load(scales + at)
        at += GAMMA + 1
        peak = tl.load(peaks + at, i < GAMMA, 0.0)
        q = tl.exp(q - peak) * tl.load(scales + at, i < GAMMA, 0.0)
    factor = tl.where(i < GAMMA, weight, 1.0).to(FLOAT)
    return tl.maximum(factor * p - q, 0.0), p


@triton.jit
def sum_laws(
    target,
    target_row,
    target_block,
    draft,
    draft_row,
    draft_block,
    peaks,
    scales,
    weights,
    states,
    residual_out,
    plain_out,
    GAMMA: tl.constexpr,
    V: tl.constexpr,
    TILES: tl.constexpr,
    TILE: tl.constexpr,
    LOGITS: tl.constexpr,
    FLOAT: tl.constexpr,
):
    """Masses of one tile of the residual and of the target row, where it can be the last row.

    Written to ``residual_out``, ``plain_out`` float64 (B, GAMMA+1, TILES).
    """
    tile = tl.program_id(0) % TILES
    row = (tl.program_id(0) // TILES).to(tl.int64)
    if tl.load(states + row) != OUT:
        residual, p = tile_laws(
            target,
            target_row,
            target_block,
            draft,
            draft_row,
            draft_block,
            peaks,
            scales,
            tl.load(weights + row),
            row // (GAMMA + 1),
            row % (GAMMA + 1),
            tile,
            GAMMA,
            V,
            TILE,
            LOGITS,
            FLOAT,
        )
        out = row * TILES + tile
        tl.store(residual_out + out, tl.sum(residual.to(tl.float64), axis=0))
        tl.store(plain_out + out, tl.sum(p.to(tl.float64), axis=0))


@triton.jit
def place_of(law, before, goal, SIZE: tl.constexpr):
    """First place with mass where ``before`` and the running sum of ``law`` exceed ``goal``.

    The last place with mass if there is none; 0 without mass. Also returns the sum up to there.
    """
    place = tl.arange(0, SIZE)
    sums = before + tl.cumsum(law, axis=0)
    first = tl.min(tl.where((sums > goal) & (law > 0), place, SIZE), axis=0)
    index = tl.minimum(first, tl.max(tl.where(law > 0, place, 0), axis=0))
    return index, tl.max(tl.where(place < index, sums, before), axis=0)


@triton.jit
def draw(
    target,
    target_row,
    target_block,
    draft,
    draft_row,
    draft_block,
    peaks,
    scales,
    tokens,
    uniforms,
    weights,
    states,
    residuals,
    plains,
    tokens_out,
    tau_out,
    GAMMA: tl.constexpr,
    G: tl.constexpr,
    V: tl.constexpr,
    TILES: tl.constexpr,
    T: tl.constexpr,
    TILE: tl.constexpr,
    LOGITS: tl.constexpr,
    FLOAT: tl.constexpr,
):
    """Accepted count and tokens of one block: ``tau_out`` (B,), ``tokens_out`` (B, GAMMA+1)."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, G)
    t = tl.arange(0, T)
    rows = b * (GAMMA + 1)
    state = tl.load(states + rows + i, i <= GAMMA, OUT)
    weight = tl.load(weights + rows + i, i <= GAMMA, 0.0)
    inside = (state == MAYBE)[:, None] & (t < TILES)[None, :]
    tiles = tl.load(residuals + (rows + i[:, None]) * TILES + t[None, :], inside, 0.0)
    residual = tl.sum(tiles, axis=1)
    room = residual + 1.0 - weight
    coin = tl.load(uniforms + rows + i - 1, (i > 0) & (i <= GAMMA), 1.0)
    maybe = (state == MAYBE) & ((room <= 0.0) | (coin * room < residual))
    tau = tl.max(tl.where(maybe | (state == SURE), i, 0), axis=0)

    row = rows + tau
    law = tl.load(residuals + row * TILES + t, t < TILES, 0.0)
    plain = tl.load(plains + row * TILES + t, t < TILES, 0.0)
    # Zero residual mass can only be rounding: the target row stands in.
    empty = (tl.sum(law, axis=0) > 0.0) == 0
    law = tl.where(empty, plain, law)
    goal = tl.load(uniforms + rows + GAMMA) * tl.sum(law, axis=0)
    tile, before = place_of(law, 0.0, goal, T)
    excess, p = tile_laws(
        target,
        target_row,
        target_block,
        draft,
        draft_row,
        draft_block,
        peaks,
        scales,
        tl.load(weights + row),
        b,
        tau,
        tile,
        GAMMA,
        V,
        TILE,
        LOGITS,
        FLOAT,
    )
    elements = tl.where(empty, p, excess).to(tl.float64)
    place, _ = place_of(elements, before, goal, TILE)
    drafted = tl.load(tokens + b * GAMMA + i, i < GAMMA, -1)
    last = (tile * TILE + place).to(tl.int64)
    emitted = tl.where(i < tau, drafted, tl.where(i == tau, last, -1))
    tl.store(tokens_out + rows + i, emitted, i <= GAMMA)
    tl.store(tau_out + b, tau.to(tl.int64))
