"""Log tails that stay finite and right where a float64 probability underflows.

scipy's ``logsf`` is log(sf) for the laws below and gives -inf below 1e-308. Here scipy is
used while its tail is a normal float, and a continued fraction, an exact sum or a bound
beyond. Bounds err upwards, so that a test built on them is conservative.
"""

import itertools
import math
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import scipy

from simverify.stats._checks import Floats

# Below this scipy's tails lose digits on the way to underflow.
_MIN_SAFE_TAIL = 1e-280

KSTWO_EXACT_MAX = 1_000_000  # largest sample whose Kolmogorov-Smirnov tail is computed exactly


def log_gamma_sf(x: float, shape: float) -> float:
    """Log of the regularised upper incomplete gamma function Q(shape, x).

    ``x`` >= 0 in units of the scale, ``shape`` > 0. Beyond float64: the continued fraction of
    Press et al., *Numerical Recipes*, 3rd ed., eq. 6.2.7.
    """
    if not (x >= 0.0 and shape > 0.0):
        raise ValueError(f"x, shape are {x}, {shape}, expected x >= 0 and shape > 0")
    tail = float(scipy.special.gammaincc(shape, x))
    if tail > 0.5:
        return math.log1p(-float(scipy.special.gammainc(shape, x)))
    if tail > _MIN_SAFE_TAIL:
        return math.log(tail)
    if math.isinf(x):
        return -math.inf
    terms = ((-i * (i - shape), x + 2 * i + 1.0 - shape) for i in itertools.count(1))
    fraction = _continued_fraction(x + 1.0 - shape, terms)
    return shape * math.log(x) - x - math.lgamma(shape) + math.log(fraction)


def log_binom_sf(k: int, n: int, p: float) -> float:
    """Log of P(X > k), X binomial(n, p); ``k`` any integer, ``p`` in [0, 1]."""
    if not (0.0 <= p <= 1.0 and n >= 0):
        raise ValueError(f"n, p are {n}, {p}, expected n >= 0 and p in [0, 1]")
    return _log_binom_upper(k + 1, n, p, 1.0 - p)


def log_binom_cdf(k: int, n: int, p: float) -> float:
    """Log of P(X <= k), X binomial(n, p); ``k`` any integer, ``p`` in [0, 1]."""
    if not (0.0 <= p <= 1.0 and n >= 0):
        raise ValueError(f"n, p are {n}, {p}, expected n >= 0 and p in [0, 1]")
    return _log_binom_upper(n - k, n, 1.0 - p, p)


def _log_binom_upper(k: int, n: int, p: float, q: float) -> float:
    """Log of P(X >= k) for success probability p = 1 - q, both given for their digits."""
    if k <= 0:
        return 0.0
    if k > n or p == 0.0:
        return -math.inf
    if q == 0.0:
        return 0.0
    # I_p(k, n-k+1); the smaller argument of betainc carries the digits.
    a, b = float(k), float(n - k + 1)
    tail = (
        float(scipy.special.betainc(a, b, p)) if p <= q else float(scipy.special.betaincc(b, a, q))
    )
    if tail > 0.5:
        rest = (
            float(scipy.special.betaincc(a, b, p))
            if p <= q
            else float(scipy.special.betainc(b, a, q))
        )
        return math.log1p(-rest)
    if tail > _MIN_SAFE_TAIL:
        return math.log(tail)
    # pmf(k) times the sum of its successors' ratios, whose continued fraction is that of the
    # incomplete beta function (Press et al., eq. 6.4.5).
    return _log_binom_pmf(k, n, p, q) + math.log(q * _continued_fraction(1.0, _beta_terms(a, b, p)))


def _beta_terms(a: float, b: float, x: float) -> Iterator[tuple[float, float]]:
    yield -(a + b) * x / (a + 1.0), 1.0
    for m in itertools.count(1):
        yield m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)), 1.0
        yield -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)), 1.0


def _continued_fraction(first: float, terms: Iterable[tuple[float, float]]) -> float:
    """Return 1/(first + a1/(b1 + a2/(b2 + ...))) for terms (a, b), by Lentz's method."""
    c, d = math.inf, 1.0 / first
    value = d
    for a, b in itertools.islice(terms, 1_000_000):
        c = b + a / c
        d = 1.0 / (b + a * d)
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            return value
    raise ArithmeticError(f"a tail's continued fraction did not converge from {first}")


def _log_binom_pmf(k: int, n: int, p: float, q: float) -> float:
    """Log of P(X = k), 1 <= k <= n, in the saddle-point form of Loader 2000.

    gammaln alone would lose 1e-6 to cancellation at n = 1e9.
    """
    if k == n:
        return n * math.log(p)
    scale = 0.5 * math.log(n / (2.0 * math.pi * k * (n - k)))
    stirling = _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
    return scale + stirling - _poisson_deviance(k, n * p) - _poisson_deviance(n - k, n * q)


def _poisson_deviance(k: int, mean: float) -> float:
    """Return k ln(k/mean) - k + mean without cancellation near the mean."""
    off = (k - mean) / mean
    if abs(off) < 0.1:
        return mean * ((1.0 + off) * math.log1p(off) - off)
    return float(scipy.special.kl_div(k, mean))


def _stirling_error(n: int) -> float:
    if n < 16:
        return math.lgamma(n + 1.0) - ((n + 0.5) * math.log(n) - n + 0.5 * math.log(2 * math.pi))
    s = 1.0 / (n * n)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - s / 1188) * s) * s) * s) / n


def log_kstwo_sf(d: float, n: int) -> float:
    """Log of P(D >= d), D the two-sided Kolmogorov-Smirnov statistic of ``n`` uniforms.

    Up to n = 1e6 and n d^2 <= 2.2 (p above .02) scipy's ``kstwo``; for larger d twice the
    exact one-sided tail (Birnbaum and Tingey 1951), an upper bound that is sharp there and
    that scipy uses itself. Beyond n = 1e6 the limit law, whose tail is the bound
    2 exp(-2 n d^2) of Massart 1990.
    """
    if not (d >= 0.0 and n >= 1):
        raise ValueError(f"d, n are {d}, {n}, expected d >= 0 and n >= 1")
    if d >= 1.0:
        # Probability 0 for d > 1; at 1 the law has no atom.
        return -math.inf
    squared = n * d * d
    if n > KSTWO_EXACT_MAX:
        if squared > 9.0:
            return math.log(2.0) - 2.0 * squared
        return math.log(float(scipy.special.kolmogorov(math.sqrt(squared))))
    if squared <= 2.2:
        from scipy import stats  # half a second that few processes need

        return math.log(float(stats.kstwo.sf(d, n)))
    return min(0.0, math.log(2.0) + _log_smirnov_sf(d, n))


def _log_smirnov_sf(d: float, n: int) -> float:
    """Log of P(D+ >= d), the exact sum of positive terms, scaled by its largest."""
    j = np.arange(math.floor(n * (1.0 - d)) + 1, dtype=np.float64)
    above = np.maximum(1.0 - d - j / n, 0.0)
    log_choose = (
        scipy.special.gammaln(n + 1.0)
        - scipy.special.gammaln(j + 1.0)
        - scipy.special.gammaln(n - j + 1.0)
    )
    terms = log_choose + scipy.special.xlogy(n - j, above) + (j - 1.0) * np.log(d + j / n)
    return math.log(d) + float(scipy.special.logsumexp(terms))


def log_normal_sf(z: float) -> float:
    """Log of P(Z > z), Z standard normal."""
    if math.isnan(z):
        raise ValueError("z is nan, expected a number")
    return float(scipy.special.log_ndtr(-z))


# Log tails of sums of independent, unequal coins: exact at any depth.
#
# The law is tilted until its mean is the point asked for, and its characteristic function
# inverted there: what is summed is of order 1, so that nothing is lost at 1e-3000.
# ``scipy.stats.poisson_binom`` agrees in the body of the law, which a test checks. Below 1e-15 it
# gives 0 or what rounding left; it takes a probability for each coin of a group, and no less time.


# The tilted law keeps 1 - 1e-17 of its mass within this many standard deviations and steps
# (Bernstein's inequality), and its characteristic function is below 1e-17 beyond _WAVES / sd.
_WINDOW_DEVIATIONS, _WINDOW_MARGIN, _MAX_WAVE_DEVIATIONS = 9.0, 30.0, 20.0


def log_upper_tail(k: int, p: Floats, q: Floats, trials: Floats) -> float:
    """Log of P(S >= k) for success probabilities p = 1 - q, both given for their digits.

    S is a sum of independent binomials, one for each group. All arrays float64 (groups,);
    ``trials`` hold whole numbers.

    Fourier inversion as in Hong 2013, of the exponentially tilted law (Daniels 1954), on as
    many points as that law is wide.
    """
    sure = int(trials[q == 0.0].sum())
    live = (p > 0.0) & (q > 0.0) & (trials > 0.0)
    p, q, trials = p[live], q[live], trials[live]
    k, total = k - sure, int(trials.sum())
    if k <= 0:
        return 0.0
    if k > total:
        return -math.inf
    if k > float(trials @ p):
        return _log_far_tail(k, p, q, trials)
    # The lower tail P(S <= k - 1) is the upper tail of the failures.
    return math.log1p(-math.exp(_log_far_tail(total - k + 1, q, p, trials)))


def _log_far_tail(k: int, p: Floats, q: Floats, trials: Floats) -> float:
    """Log of P(S >= k) for k above the mean."""
    total = int(trials.sum())
    if k == total:
        return float(trials @ np.log(p))
    log_odds = np.log(p) - np.log(q)
    tilt = _solve_tilt(k, log_odds, trials)
    r = scipy.special.expit(log_odds + tilt)
    deviation = math.sqrt(float(trials @ (r * (1.0 - r))))
    half = math.ceil(_WINDOW_DEVIATIONS * deviation + _WINDOW_MARGIN)
    period = min(2 * half + 1, total + 1)
    waves = np.arange(period // 2 + 1, dtype=np.float64) * (2.0 * math.pi / period)
    waves = waves[waves * deviation <= _MAX_WAVE_DEVIATIONS]
    above = min(half, total - k)

    # Rows are waves, columns groups.
    sine = np.sin(waves / 2.0)[:, None] ** 2
    with np.errstate(divide="ignore"):  # a fair coin has no highest wave: log 0
        modulus = 0.5 * (np.log1p(-4.0 * r * (1.0 - r) * sine) @ trials)
    turn = np.arctan2(r * np.sin(waves)[:, None], 1.0 - 2.0 * r * sine) @ trials - waves * k
    values = (np.exp(modulus + 1j * turn) * _discounted_sums(tilt, waves, above)).real
    # Each wave but 0 and the highest of an even period stands for its mirror as well.
    alone = (waves == 0.0) | (waves > math.pi - 1e-9)
    total_sum = float(np.where(alone, values, 2.0 * values).sum())
    log_mass = float(trials @ (np.log(q) + np.logaddexp(0.0, log_odds + tilt)))
    return min(0.0, log_mass - tilt * k + math.log(total_sum / period))


def _discounted_sums(tilt: float, waves: Floats, above: int) -> npt.NDArray[np.complex128]:
    """Return the sums over j = 0..above of exp(-(tilt + i wave) j)."""
    step = tilt + 1j * waves
    flat = np.abs(step) < 1e-12
    step = np.where(flat, 1.0, step)
    return np.where(flat, above + 1.0, np.expm1(-step * (above + 1)) / np.expm1(-step))


def _solve_tilt(k: int, log_odds: Floats, trials: Floats) -> float:
    """Tilt above 0 at which the mean is k, by Newton's method kept in its bracket."""
    low, high = 0.0, float(-log_odds.min()) + math.log(k / (trials.sum() - k)) + 1.0
    tilt = 0.0
    for _ in range(200):
        r = scipy.special.expit(log_odds + tilt)
        gap, slope = float(trials @ r) - k, float(trials @ (r * (1.0 - r)))
        low, high = (tilt, high) if gap < 0.0 else (low, tilt)
        # Of coins as rare as floating point goes, no step follows.
        step = tilt - gap / slope if slope * high > abs(gap) else math.inf
        following = step if low < step < high else (low + high) / 2
        if abs(following - tilt) <= 1e-13 * max(1.0, tilt):
            return following
        tilt = following
    return tilt
