"""Log tails of sums of independent, unequal coins: exact at any depth.

The law is tilted until its mean is the point asked for, and its characteristic function
inverted there: what is summed is of order 1, so that nothing is lost at 1e-3000.
``scipy.stats.poisson_binom`` says the same in the body of the law, which a test holds; below 1e-15
it says 0 or what rounding left, it takes a probability for each coin of a group, and no less time.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from simverify.stats._checks import Floats

# The tilted law keeps 1 - 1e-17 of its mass within this many standard deviations and steps
# (Bernstein's inequality), and its characteristic function is below 1e-17 beyond _WAVES / sd.
_SPREAD, _STEPS, _WAVES = 9.0, 30.0, 20.0


def log_upper(k: int, p: Floats, q: Floats, trials: Floats) -> float:
    """Log of P(S >= k) for success probabilities p = 1 - q, both given for their digits.

    S is a sum of independent binomials, one for each group. All arrays float64 (groups,);
    ``trials`` hold whole numbers.

    Notes
    -----
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
        return _log_far_side(k, p, q, trials)
    # The lower tail P(S <= k - 1) is the upper tail of the failures.
    return math.log1p(-math.exp(_log_far_side(total - k + 1, q, p, trials)))


def _log_far_side(k: int, p: Floats, q: Floats, trials: Floats) -> float:
    """Log of P(S >= k) for k above the mean."""
    total = int(trials.sum())
    if k == total:
        return float(trials @ np.log(p))
    log_odds = np.log(p) - np.log(q)
    tilt = _tilt(k, log_odds, trials)
    r = special.expit(log_odds + tilt)
    deviation = math.sqrt(float(trials @ (r * (1.0 - r))))
    half = math.ceil(_SPREAD * deviation + _STEPS)
    period = min(2 * half + 1, total + 1)
    waves = np.arange(period // 2 + 1, dtype=np.float64) * (2.0 * math.pi / period)
    waves = waves[waves * deviation <= _WAVES]
    above = min(half, total - k)

    # Rows are waves, columns groups.
    sine = np.sin(waves / 2.0)[:, None] ** 2
    with np.errstate(divide="ignore"):  # a fair coin has no highest wave: log 0
        modulus = 0.5 * (np.log1p(-4.0 * r * (1.0 - r) * sine) @ trials)
    turn = np.arctan2(r * np.sin(waves)[:, None], 1.0 - 2.0 * r * sine) @ trials - waves * k
    values = (np.exp(modulus + 1j * turn) * _discounted(tilt, waves, above)).real
    # Each wave but 0 and the highest of an even period stands for its mirror as well.
    alone = (waves == 0.0) | (waves > math.pi - 1e-9)
    total_sum = float(np.where(alone, values, 2.0 * values).sum())
    log_mass = float(trials @ (np.log(q) + np.logaddexp(0.0, log_odds + tilt)))
    return min(0.0, log_mass - tilt * k + math.log(total_sum / period))


def _discounted(tilt: float, waves: Floats, above: int) -> npt.NDArray[np.complex128]:
    """Return the sums over j = 0..above of exp(-(tilt + i wave) j)."""
    step = tilt + 1j * waves
    flat = np.abs(step) < 1e-12
    step = np.where(flat, 1.0, step)
    return np.where(flat, above + 1.0, np.expm1(-step * (above + 1)) / np.expm1(-step))


def _tilt(k: int, log_odds: Floats, trials: Floats) -> float:
    """Tilt above 0 at which the mean is k, by Newton's method kept in its bracket."""
    low, high = 0.0, float(-log_odds.min()) + math.log(k / (trials.sum() - k)) + 1.0
    tilt = 0.0
    for _ in range(200):
        r = special.expit(log_odds + tilt)
        gap, slope = float(trials @ r) - k, float(trials @ (r * (1.0 - r)))
        low, high = (tilt, high) if gap < 0.0 else (low, tilt)
        # Of coins as rare as floating point goes, no step follows.
        step = tilt - gap / slope if slope * high > abs(gap) else math.inf
        following = step if low < step < high else (low + high) / 2
        if abs(following - tilt) <= 1e-13 * max(1.0, tilt):
            return following
        tilt = following
    return tilt
