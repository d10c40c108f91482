import itertools

import numpy as np
import pytest
from scipy import special, stats


@pytest.fixture
def multinomial_g2():
    """Values of G2 and their probabilities over all outcomes of a multinomial row."""

    def enumerate_outcomes(n, row):
        heads = itertools.product(range(n + 1), repeat=len(row) - 1)
        outcomes = np.array([(*head, n - sum(head)) for head in heads if sum(head) <= n])
        terms = special.xlogy(outcomes, outcomes / (n * np.asarray(row)))
        return 2 * terms.sum(axis=1), stats.multinomial.pmf(outcomes, n, row)

    return enumerate_outcomes
