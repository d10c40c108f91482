"""What a claim costs and what a budget detects, in closed form, before any sample.

Each pair of functions inverts one formula: ``*_samples`` from a deviation to tokens,
``*_min_detectable`` or ``*_bound`` back. Deviations are small and samples large, so that sums
are normal; the tests' own pairs (:func:`g2_samples`, :func:`ks_samples` and so on) need no
such help.
"""

import math
from typing import Literal

from scipy import special

from simverify.stats._checks import open_unit, positive_float, positive_int

TVBound = Literal["plug-in", "monotone"]

# Mean of the Kolmogorov law: what a healthy run's distance is, times sqrt(N).
_KOLMOGOROV = math.sqrt(math.pi / 2.0) * math.log(2.0)


def mixing_samples(strength: float, chi2: float, *, alpha: float, power: float = 0.9) -> int:
    """Tokens with which the best score finds a fault mixed in at ``strength``, two-sided.

    38.1 / (strength^2 chi2) at alpha 1e-6 and power .9; chi2 = sum (P_m - P)^2 / P is the
    chi-square distance of the fault's law from the target's. Any law at TV d has
    strength^2 chi2 of 4 d^2 or more.

    Raises
    ------
    ValueError
        If strength is outside (0, 1], chi2 is not positive, or alpha or power outside (0, 1).
    """
    strength, chi2 = _strength_iv(strength), positive_float("chi2", chi2)
    return math.ceil(_hurdle(alpha / 2.0, power) ** 2 / (strength * strength * chi2))


def mixing_min_detectable(n: int, chi2: float, *, alpha: float, power: float = 0.9) -> float:
    """Smallest strength that the best score finds with ``n`` tokens, inf if above 1.

    Raises
    ------
    ValueError
        If n < 1, chi2 is not positive, or alpha or power is outside (0, 1).
    """
    n, chi2 = positive_int("n", n), positive_float("chi2", chi2)
    strength = _hurdle(alpha / 2.0, power) / math.sqrt(n * chi2)
    return strength if strength <= 1.0 else math.inf


def ratio_samples(divergence: float, *, alpha: float, power: float = 0.9) -> int:
    """Tokens of the one-sided likelihood-ratio test of a fixed size.

    ``divergence`` is KL(P_m || P) in nats a token. A share of alpha over several faults is
    the caller's, as everywhere in this module.

    Raises
    ------
    ValueError
        If divergence is not positive and finite, or alpha or power is outside (0, 1).
    """
    divergence = positive_float("divergence", divergence)
    return math.ceil(_hurdle(alpha, power) ** 2 / (2.0 * divergence))


def ratio_min_detectable(n: int, *, alpha: float, power: float = 0.9) -> float:
    """Smallest KL(P_m || P), in nats a token, found by the likelihood ratio of ``n`` tokens.

    Raises
    ------
    ValueError
        If n < 1, or alpha or power is outside (0, 1).
    """
    return _hurdle(alpha, power) ** 2 / (2.0 * positive_int("n", n))


def refutation_samples(divergence: float, *, beta: float = 1e-3) -> int:
    """Tokens after which healthy code refutes a fault at ``beta``, on average.

    ln(1/beta) / divergence, with divergence KL(P || P_m) in nats a token (Wald); for a
    fault at theta standard deviations a token it is theta^2 / 2, and 14 / theta^2 tokens.

    Raises
    ------
    ValueError
        If divergence is not positive and finite, or beta is outside (0, 1).
    """
    divergence, beta = positive_float("divergence", divergence), open_unit("beta", beta)
    return math.ceil(-math.log(beta) / divergence)


def refutation_min_detectable(n: int, *, beta: float = 1e-3) -> float:
    """Smallest KL(P || P_m), in nats a token, that healthy code refutes in ``n`` tokens.

    Raises
    ------
    ValueError
        If n < 1, or beta is outside (0, 1).
    """
    return -math.log(open_unit("beta", beta)) / positive_int("n", n)


def certificate_samples(
    bound: float, *, method: TVBound, cells: int = 2, delta: float = 1e-3
) -> int:
    """Tokens after which healthy code is certified to have a TV distance of ``bound``.

    On average over runs. ``cells`` is the number of contexts times V, for the plug-in bound
    alone: its noise is at most sqrt(cells - 1) / 2 over sqrt(N) (Cauchy and Schwarz).

    Raises
    ------
    ValueError
        If ``bound`` or ``delta`` is outside (0, 1), cells < 2 or the method is unknown.
    """
    bound = open_unit("bound", bound)
    return math.ceil((_certificate_constant(method, cells, delta) / bound) ** 2)


def certificate_bound(n: int, *, method: TVBound, cells: int = 2, delta: float = 1e-3) -> float:
    """TV distance that ``n`` tokens of healthy code certify on average, 1 at most.

    Raises
    ------
    ValueError
        If n < 1, cells < 2, ``delta`` is outside (0, 1) or the method is unknown.
    """
    constant = _certificate_constant(method, cells, delta)
    return min(1.0, constant / math.sqrt(positive_int("n", n)))


def _certificate_constant(method: TVBound, cells: int, delta: float) -> float:
    delta, cells = open_unit("delta", delta), positive_int("cells", cells, 2)
    one_sided = math.sqrt(-math.log(delta) / 2.0)
    two_sided = math.sqrt(math.log(2.0 / delta) / 2.0)
    constants = {
        "plug-in": math.sqrt(cells - 1.0) / 2.0 + one_sided,
        "monotone": 2.0 * (_KOLMOGOROV + two_sided),
    }
    if method not in constants:
        raise ValueError(f"method is {method!r}, expected one of {', '.join(constants)}")
    return constants[method]


def _hurdle(tail: float, power: float) -> float:
    """Standard deviations between the null's mean and that of what is found with ``power``."""
    return float(special.ndtri(open_unit("power", power)) - special.ndtri(open_unit("alpha", tail)))


def _strength_iv(strength: float) -> float:
    if not 0.0 < strength <= 1.0:
        raise ValueError(f"strength is {strength}, expected a mixing share above 0 and up to 1")
    return float(strength)
