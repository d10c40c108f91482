"""How often the whole suite may fail although nothing is wrong, in one place.

A collected test marked ``distribution`` fails by chance with probability ``ALPHA`` at most;
one that decides several times splits it. A parametrized test counts once per parameter set.
So the suite's rate is at most their number times ``ALPHA``, which must not exceed ``TOTAL``:
there is room for 1,000 of them. Every other test is deterministic.
"""

ALPHA = 1e-9
TOTAL = 1e-6


def suite_rate(distribution_tests: int) -> float:
    """Upper bound on the false-alarm rate of a suite with so many distribution tests."""
    return distribution_tests * ALPHA
