"""What an e-process needs: its growth, the tokens it takes and the fault it finds.

An e-process starts at 1 and has an expectation of 1 at most under the null hypothesis,
whenever it is stopped. It rejects once it reaches 1/alpha, at any time. Only its logarithm,
the log-wealth, is ever kept.
"""

import math

from scipy import special

from simverify.stats._checks import open_unit, positive_float, positive_int


def eprocess_growth(alpha: float, *, weight: float = 1.0, power: float = 0.9) -> float:
    """Expected log e-value, in nats, that carries an e-process over ln(1/alpha) with ``power``.

    (sqrt(b + z^2/2) + z/sqrt 2)^2 with b = ln(1/alpha) + ln(1/weight): the log-likelihood
    ratio has mean g and, for small deviations, a variance of nearly 2 g and a normal law.

    Raises
    ------
    ValueError
        If alpha or power is outside (0, 1) or weight outside (0, 1].
    """
    alpha, power = open_unit("alpha", alpha), open_unit("power", power)
    if not 0.0 < weight <= 1.0:
        raise ValueError(f"weight is {weight}, expected a share above 0 and up to 1")
    hurdle = -math.log(alpha) - math.log(weight)
    z = float(special.ndtri(power))
    return (math.sqrt(hurdle + z * z / 2.0) + z / math.sqrt(2.0)) ** 2


def eprocess_samples(
    divergence: float, *, alpha: float, weight: float = 1.0, power: float = 0.9
) -> int:
    """Tokens after which an e-process has found a fault of this KL(P_m || P), in nats a token.

    ``weight`` is the share of the fault's e-value in the mean that is tested.

    Raises
    ------
    ValueError
        If divergence is not positive and finite, alpha or power is outside (0, 1) or weight
        outside (0, 1].
    """
    divergence = positive_float("divergence", divergence)
    return math.ceil(eprocess_growth(alpha, weight=weight, power=power) / divergence)


def eprocess_min_detectable(
    n: int, *, alpha: float, weight: float = 1.0, power: float = 0.9
) -> float:
    """Smallest KL(P_m || P), in nats a token, that an e-process finds within ``n`` tokens.

    Raises
    ------
    ValueError
        If n < 1, alpha or power is outside (0, 1) or weight outside (0, 1].
    """
    return eprocess_growth(alpha, weight=weight, power=power) / positive_int("n", n)
