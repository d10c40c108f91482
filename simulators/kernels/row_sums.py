"""Sums over a target row p and a draft row q, all that the features of one token ask for.

The rows are read twice: ``survey`` finds the masses, then ``gather`` adds up the rest, tile
by tile, so that its loops find a tile in the nearest cache. Rows are float32 or float64,
not copied; every sum is float64. They need not sum to 1 to the last digit: laws are divided
by their own mass. Scores and the order q/p use the entries as they are, which any fixed
function of them may.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload
from numpy.polynomial import Chebyshev, Polynomial

# Arithmetic that the compiler may run on many entries of a row at once.
#
# A loop that adds up a row becomes vector instructions only if the order of its additions is
# free. ``add`` says so of one addition, and of nothing else: comparisons of probabilities stay
# what they are. ``larger`` and ``choose`` are a maximum and a choice without a branch.


@intrinsic
def add(_typing: Any, a: Any, b: Any) -> Any:
    """Return a + b, of a sum whose terms may be added in any order."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments, flags=("reassoc", "nsz"))

    return types.float64(types.float64, types.float64), emit


@intrinsic
def add_product(_typing: Any, total: Any, a: Any, b: Any) -> Any:
    """Return total + a b, as :func:`add`; the product need not be rounded first."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        total, a, b = arguments
        product = builder.fmul(a, b, flags=("contract",))
        return builder.fadd(total, product, flags=("reassoc", "nsz", "contract"))

    return types.float64(types.float64, types.float64, types.float64), emit


@intrinsic
def larger(_typing: Any, a: Any, b: Any) -> Any:
    """Return the larger of a and b, neither NaN."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        flags = ("nnan", "nsz")
        return builder.select(
            builder.fcmp_ordered(">", *arguments, flags=flags), *arguments, flags=flags
        )

    return types.float64(types.float64, types.float64), emit


@intrinsic
def choose(_typing: Any, condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` or ``no``, both computed."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return types.float64(types.boolean, types.float64, types.float64), emit


@intrinsic
def fma(_typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, rounded once, all three float32 or all float64."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return a(a, a, a), emit


# Logarithm and power of an entry, polynomials in the row's own precision.
#
# A row of float32 is done in half the time of one of float64. A number and the row sum that it
# is divided by come from the same function: what it makes is a law, however good its digits.


_ROOT = float(np.sqrt(0.5))
_INLINE = {"nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": False}


def log2(x: float) -> float:
    """Binary logarithm of a normal number above 0; of a smaller one a number below -125.

    float64: good to 1e-9, below -1021. float32: to 3e-6.
    """
    raise NotImplementedError("log2 is for compiled code")


def power_of_two(x: float, y: float) -> float:
    """Two to the power x y, in the precision of x.

    float64: |x y| < 1000, good to 1e-7 of itself. float32: |x y| < 120, to 5e-6.
    """
    raise NotImplementedError("power_of_two is for compiled code")


@overload(log2, jit_options=_INLINE)
def _log2(x: Any) -> Any:
    return _log2_single if x == types.float32 else _log2_double


@overload(power_of_two, jit_options=_INLINE)
def _power_of_two(x: Any, y: Any) -> Any:
    return _power_single if x == types.float32 else _power_double


def _fitted(function: Callable[[Any], Any], low: float, high: float, degree: int) -> Any:
    """Coefficients, lowest power first, of a polynomial close to ``function`` on an interval."""
    near = Chebyshev.interpolate(function, degree, [low, high])
    return near.convert(kind=Polynomial).coef


def _log_slope(w: Any) -> Any:
    """Return log2((1 + z) / (1 - z)) / z at z = sqrt(w); its value at 0 is 2 / ln 2."""
    z = np.sqrt(np.maximum(w, 1e-12))
    return 2.0 * np.arctanh(z) / (z * np.log(2.0))


def _log_ratio(t: Any) -> Any:
    """Return log2(1 + t) / t; its value at 0 is 1 / ln 2."""
    t = np.where(np.abs(t) < 1e-12, 1e-12, t)
    return np.log1p(t) / (t * np.log(2.0))


_L0, _L1, _L2, _L3 = map(float, _fitted(_log_slope, 0.0, ((1 - _ROOT) / (1 + _ROOT)) ** 2, 3))
_E0, _E1, _E2, _E3, _E4, _E5 = map(float, _fitted(np.exp2, -0.5, 0.5, 5))
_ROOT_BITS = int(np.float64(_ROOT).view(np.int64))
_ROUNDER = 1.5 * 2.0**52 + 1023
"""Added to a small number, it leaves the nearest integer, biased as exponents are, in the low
bits."""

_S0, _S1, _S2, _S3, _S4, _S5, _S6 = map(
    np.float32, _fitted(_log_ratio, _ROOT - 1, 2 * _ROOT - 1, 6)
)
_P0, _P1, _P2, _P3, _P4 = map(np.float32, _fitted(np.exp2, -0.5, 0.5, 4))
_SINGLE_ROOT_BITS = np.float32(_ROOT).view(np.int32)
_SINGLE_ROUNDER = np.float32(1.5 * 2.0**23 + 127)
_ONE = np.float32(1.0)


def _log2_double(x: Any) -> Any:
    """Return log2 of a float64."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits - _ROOT_BITS) >> 52
    mantissa = np.int64(bits - (exponent << 52)).view(np.float64)  # in [sqrt(1/2), sqrt(2))
    z = (mantissa - 1.0) / (mantissa + 1.0)
    w = z * z
    slope = fma(w, fma(w, fma(w, _L3, _L2), _L1), _L0)
    return fma(z, slope, np.float64(exponent))


def _power_double(x: Any, y: Any) -> Any:
    """Return 2^(x y) of float64."""
    rounded = fma(x, y, _ROUNDER)
    f = fma(x, y, _ROUNDER - rounded)
    power = np.int64(np.float64(rounded).view(np.int64) << 52).view(np.float64)
    return power * fma(f, fma(f, fma(f, fma(f, fma(f, _E5, _E4), _E3), _E2), _E1), _E0)


def _log2_single(x: Any) -> Any:
    """Return log2 of a float32: whole numbers stay 32 bits wide, so each step says so."""
    bits = np.float32(x).view(np.int32)
    exponent = np.int32(np.int32(bits - _SINGLE_ROOT_BITS) >> np.int32(23))
    mantissa = np.int32(bits - np.int32(exponent << np.int32(23))).view(np.float32)
    t = mantissa - _ONE  # of a mantissa in [sqrt(1/2), sqrt(2))
    square = t * t
    low = fma(square, fma(t, _S3, _S2), fma(t, _S1, _S0))
    high = fma(square, _S6, fma(t, _S5, _S4))
    return fma(t, fma(square * square, high, low), np.float32(exponent))


def _power_single(x: Any, y: Any) -> Any:
    """Return 2^(x y) of float32."""
    single = np.float32(y)
    rounded = fma(x, single, _SINGLE_ROUNDER)
    f = fma(x, single, _SINGLE_ROUNDER - rounded)
    power = np.int32(np.float32(rounded).view(np.int32) << np.int32(23)).view(np.float32)
    square = f * f
    return power * fma(square, fma(square, _P4, fma(f, _P3, _P2)), fma(f, _P1, _P0))


# Functions of one token's target and draft probability, shared by the token and its row's sums.
#
# A score or a law's weight is the same function there and here, to the last digit but for the
# order of additions; only so is a law divided by its own mass.


CAP = 16.0
"""Nats at which the surprise is clipped."""

WARMTH = 1.0 / 0.9 - 1.0
"""A row at temperature 0.9 is row * row^WARMTH, normalised."""

_TINY = 1e-300
_LN2 = float(np.log(2.0))


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def ratio_of(p: Any, q: Any) -> Any:
    """Return q/p; some number above 1 where p = 0 < q, and 0 where both are 0."""
    return q / max(p, _TINY)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def contrast_of(p: Any, q: Any) -> Any:
    """Return (q - p) / (q + p), 0 where both are 0."""
    return (q - p) / max(q + p, _TINY)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def surprise_of(log: Any) -> Any:
    """Return min(-log p, CAP) from log2 p."""
    return min(-_LN2 * np.float64(log), CAP)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def warmth_of(log: Any) -> Any:
    """Return p^WARMTH from log2 p, in the precision of the latter."""
    return power_of_two(log, WARMTH)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def spread_of(p: Any, excess: Any, mass: Any) -> Any:
    """Return excess / (mass - p): what each other token's p is multiplied by."""
    return excess / max(mass - p, 1e-16)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def next_up(x: Any) -> Any:
    """Return the smallest float64 above x >= 0."""
    return np.int64(np.float64(x).view(np.int64) + 1).view(np.float64)


TILE = 2048
"""Entries at a time: two tiles of float64 rows fit in 32 KB."""

RARE = (1e-3, 1e-5)
"""Tokens of a smaller probability are rare."""

FLOOR = 1e-5
"""Least weight of a floored residual."""

FACTORS = (1.1, 1.01, 1.0 / 0.9)
"""By what the scaled acceptances multiply p/q; the last is lenience 0.9."""

SUMS = 42
MASS_P, MASS_Q, RESIDUAL, IMPROPER, BEFORE, RESIDUAL_BEFORE, LEAD_BEFORE, LEAD, MODE = range(9)
BELOW_RATIO, BELOW_DESCENDING, ABOVE, INVERTED, LEAST_RATIO, MOST_RATIO, MOST_P = range(9, 16)
LEAST_SURPRISE, MOST_SURPRISE, RARE_0, RARE_1, WARM_P, WARM_Q, WARM_KEPT = range(16, 23)
KEPT, DOUBLE, FLOORED, SPREAD, KEPT_0, KEPT_1, KEPT_2 = range(23, 30)
ACCEPT, CONTRAST, SURPRISE = range(30, SUMS, 4)
"""Places of the sums; ACCEPT, CONTRAST and SURPRISE begin four moments each about a centre."""

_HUGE = 1e308
"""More than any ratio; with an infinity the compiler gives up on vectors."""

_RARE_0, _RARE_1 = RARE
_FACTOR_0, _FACTOR_1, _FACTOR_2 = FACTORS


@njit(cache=True, nogil=True, error_model="numpy")
def survey(p: Any, q: Any, token: Any, sums: Any) -> None:
    """Masses and maxima of rows p, q (V,), before ``token`` and in all."""
    sums[:] = 0.0
    sums[LEAD_BEFORE] = sums[LEAD] = sums[MOST_RATIO] = -1.0
    sums[LEAST_RATIO] = sums[LEAST_SURPRISE] = _HUGE
    sums[MOST_SURPRISE] = -_HUGE
    peak = -1.0
    tile = 0
    for begin, end in ((0, token), (token, p.shape[0])):
        sums[BEFORE] = sums[MASS_P]
        sums[RESIDUAL_BEFORE] = sums[RESIDUAL]
        sums[LEAD_BEFORE] = sums[LEAD]
        sums[LEAD] = -1.0
        for first in range(begin, end, TILE):
            most = _survey(p, q, first, min(first + TILE, end), sums)
            if most > peak:
                peak = most
                tile = first
    for y in range(tile, p.shape[0]):
        if q[y] == peak:
            sums[MODE] = y
            break


@njit(cache=True, nogil=True, error_model="numpy")
def _survey(p: Any, q: Any, first: Any, end: Any, sums: Any) -> Any:
    mass_p = mass_q = residual = improper = 0.0
    lead = most = -1.0
    for y in range(np.uintp(first), np.uintp(end)):
        a = np.float64(p[y])
        b = np.float64(q[y])
        left = max(a - b, 0.0)
        mass_p = add(mass_p, a)
        mass_q = add(mass_q, b)
        residual = add(residual, left)
        # A NaN is not at least 0 either.
        improper = add(improper, choose((a >= 0.0) & (b >= 0.0), 0.0, 1.0))
        lead = larger(left, lead)
        most = larger(b, most)
    sums[MASS_P] += mass_p
    sums[MASS_Q] += mass_q
    sums[RESIDUAL] += residual
    sums[IMPROPER] += improper
    sums[LEAD] = max(sums[LEAD], lead)
    return most


@njit(cache=True, nogil=True, error_model="numpy")
def gather(p: Any, q: Any, token: Any, centres: Any, logs: Any, sums: Any) -> None:
    """Add up what stands before ``token`` in each order, the scores and the kept masses.

    ``centres`` float64 (3,): about what the moments of the scores are taken. ``logs`` (3, TILE),
    of the rows' dtype: room for a tile.
    """
    own = np.float64(p[token])
    key = ratio_of(own, np.float64(q[token])) if own > 0.0 else np.inf
    for begin, end in ((0, token), (token, p.shape[0])):
        # Ties go by token id: at the same place in the order come the tokens before it.
        early = begin < token
        below = next_up(key) if early and key < np.inf else key
        least = own if early else next_up(own)
        for first in range(begin, end, TILE):
            last = min(first + TILE, end)
            _orders(p, q, first, last, below, least, centres[0], centres[1], sums)
            _fill_logs(p, q, first, last, logs)
            _logarithms(p, q, first, last, logs, centres[2], sums)
            _kept(p, q, first, last, sums)


@njit(cache=True, nogil=True, error_model="numpy")
def _orders(
    p: Any,
    q: Any,
    first: Any,
    end: Any,
    below: Any,
    least: Any,
    accept_centre: Any,
    contrast_centre: Any,
    sums: Any,
) -> None:
    before = descending = above = inverted = 0.0
    a1 = a2 = a3 = a4 = c1 = c2 = c3 = c4 = 0.0
    low = -_HUGE
    high = -1.0
    for y in range(np.uintp(first), np.uintp(end)):
        a = np.float64(p[y])
        b = np.float64(q[y])
        ratio = ratio_of(a, b)
        before = add(before, choose(ratio < below, a, 0.0))
        descending = add(descending, choose(a >= least, a, 0.0))
        above = add(above, choose(b > a, a, 0.0))
        low = larger(choose(a > 0.0, -ratio, -_HUGE), low)
        high = larger(choose(a > 0.0, ratio, -1.0), high)
        accept = min(ratio, 1.0)
        inverted = add_product(inverted, b, accept)
        s = accept - accept_centre
        square = s * s
        a1 = add_product(a1, a, s)
        a2 = add_product(a2, a, square)
        a3 = add_product(a3, a * square, s)
        a4 = add_product(a4, a * square, square)
        s = contrast_of(a, b) - contrast_centre
        square = s * s
        c1 = add_product(c1, a, s)
        c2 = add_product(c2, a, square)
        c3 = add_product(c3, a * square, s)
        c4 = add_product(c4, a * square, square)
    sums[BELOW_RATIO] += before
    sums[BELOW_DESCENDING] += descending
    sums[ABOVE] += above
    sums[INVERTED] += inverted
    sums[LEAST_RATIO] = min(sums[LEAST_RATIO], -low)
    sums[MOST_RATIO] = max(sums[MOST_RATIO], high)
    _put(sums, ACCEPT, a1, a2, a3, a4)
    _put(sums, CONTRAST, c1, c2, c3, c4)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_logs(p: Any, q: Any, first: Any, end: Any, logs: Any) -> None:
    """Logarithms of p, warmths of p and of q: a pass of its own, that nothing waits for."""
    for y in range(np.uintp(end - first)):
        log = log2(p[np.uintp(first) + y])
        logs[0, y] = log
        logs[1, y] = warmth_of(log)
        logs[2, y] = warmth_of(log2(q[np.uintp(first) + y]))


@njit(cache=True, nogil=True, error_model="numpy")
def _logarithms(p: Any, q: Any, first: Any, end: Any, logs: Any, centre: Any, sums: Any) -> None:
    m1 = m2 = m3 = m4 = rare_0 = rare_1 = warm_p = warm_q = warm_kept = 0.0
    low = high = -_HUGE
    most = 0.0
    for y in range(np.uintp(end - first)):
        a = np.float64(p[np.uintp(first) + y])
        b = np.float64(q[np.uintp(first) + y])
        surprise = surprise_of(logs[0, y])
        low = larger(choose(a > 0.0, -surprise, -_HUGE), low)
        high = larger(choose(a > 0.0, surprise, -_HUGE), high)
        s = surprise - centre
        square = s * s
        m1 = add_product(m1, a, s)
        m2 = add_product(m2, a, square)
        m3 = add_product(m3, a * square, s)
        m4 = add_product(m4, a * square, square)
        rare_0 = add(rare_0, choose(a < _RARE_0, a, 0.0))
        rare_1 = add(rare_1, choose(a < _RARE_1, a, 0.0))
        most = larger(a, most)
        warm_p = add_product(warm_p, a, np.float64(logs[1, y]))
        warmth = np.float64(logs[2, y])
        warm_q = add_product(warm_q, b, warmth)
        warm_kept = add_product(warm_kept, min(a, b), warmth)
    sums[RARE_0] += rare_0
    sums[RARE_1] += rare_1
    sums[MOST_P] = max(sums[MOST_P], most)
    sums[LEAST_SURPRISE] = min(sums[LEAST_SURPRISE], -low)
    sums[MOST_SURPRISE] = max(sums[MOST_SURPRISE], high)
    sums[WARM_P] += warm_p
    sums[WARM_Q] += warm_q
    sums[WARM_KEPT] += warm_kept
    _put(sums, SURPRISE, m1, m2, m3, m4)


@njit(cache=True, nogil=True, error_model="numpy")
def _kept(p: Any, q: Any, first: Any, end: Any, sums: Any) -> None:
    kept = double = floored = spread = kept_0 = kept_1 = kept_2 = 0.0
    mass = sums[MASS_P]
    for y in range(np.uintp(first), np.uintp(end)):
        a = np.float64(p[y])
        b = np.float64(q[y])
        both = min(a, b)
        excess = b - both
        kept = add(kept, both)
        double = add_product(double, excess, a)
        floored = add(floored, max(a - b, FLOOR))
        spread = add(spread, spread_of(a, excess, mass))
        kept_0 = add(kept_0, min(_FACTOR_0 * a, b))
        kept_1 = add(kept_1, min(_FACTOR_1 * a, b))
        kept_2 = add(kept_2, min(_FACTOR_2 * a, b))
    sums[KEPT] += kept
    sums[DOUBLE] += double
    sums[FLOORED] += floored
    sums[SPREAD] += spread
    sums[KEPT_0] += kept_0
    sums[KEPT_1] += kept_1
    sums[KEPT_2] += kept_2


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def _put(sums: Any, place: Any, m1: Any, m2: Any, m3: Any, m4: Any) -> None:
    sums[place] += m1
    sums[place + 1] += m2
    sums[place + 2] += m3
    sums[place + 3] += m4


@njit(cache=True, nogil=True, error_model="numpy")
def reused(p: Any, q: Any, low: Any, high: Any) -> Any:
    """Integral over u in [low, high) of the draft mass that the uniform u rejects."""
    total = 0.0
    for y in range(np.uintp(p.shape[0])):
        b = np.float64(q[y])
        kept = min(np.float64(p[y]), b)
        total = add(total, max(high * b - max(kept, low * b), 0.0))
    return total
