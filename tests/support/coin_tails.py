"""Both tails of a sum of independent binomials, by the one that the statistics compute."""

import numpy as np

from simverify.stats.tails import log_upper_tail


def log_poisson_binomial_sf(k, probabilities, trials):
    """Log of P(S > k)."""
    p, n = np.asarray(probabilities, np.float64), np.asarray(trials, np.float64)
    return log_upper_tail(k + 1, p, 1.0 - p, n)


def log_poisson_binomial_cdf(k, probabilities, trials):
    """Log of P(S <= k): that of so many failures or more."""
    p, n = np.asarray(probabilities, np.float64), np.asarray(trials, np.float64)
    return log_upper_tail(int(n.sum()) - k, 1.0 - p, p, n)
