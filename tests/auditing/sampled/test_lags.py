"""Coins that come back some calls later: found at every lag tried, never where there are none."""

import numpy as np
import pytest
from scipy import stats as laws
from support.false_alarms import ALPHA

from simverify.auditing.sampled.emissions import Emissions
from simverify.auditing.sampled.independence import CALLS_APART, independence_tests
from simverify.auditing.sampled.tables import SampledInstance, Tables
from simverify.auditing.sampled.tier import sample_callable
from simverify.models.small import compact
from simverify.verifiers import VERIFIERS

token = VERIFIERS["token"].rule
INSTANCE = SampledInstance(compact(), 2)
TABLES = Tables(INSTANCE, 3)


class Again:
    """The token rule; every second row of ``lag`` calls has the coins of the row before."""

    def __init__(self, lag):
        self.lag, self.calls = lag, 0

    def __call__(self, target_probs, draft_probs, draft_tokens, rng):
        row, place = divmod(self.calls, self.lag)
        self.calls += 1
        stream = np.random.default_rng([3, row // 2, place])
        return token(target_probs, draft_probs, draft_tokens, stream)


@pytest.mark.parametrize("lag", CALLS_APART)
def test_coins_of_some_calls_before_fail_by_that_lag(lag):
    result = sample_callable(
        Again(lag), "verify", instances=(INSTANCE,), seed=7, alpha=ALPHA, detect=0.03
    )
    assert result.verdict == "FAIL"
    assert all(f"calls {lag} apart" in finding.text for finding in result.tier.findings)


def drawn(rng, n, lag=0):
    """Outputs of the target itself; with ``lag``, each an earlier one half of the time."""
    codes = rng.choice(27, size=n, p=TABLES.joint(3))
    if lag:
        again = (rng.random(n) < 0.5) & (np.arange(n) >= lag)
        codes = np.where(again, np.roll(codes, lag), codes)
    emissions = Emissions(3)
    tokens = np.stack(np.unravel_index(codes, (3, 3, 3)), axis=1)
    emissions.extend(tokens, np.full(n, 3), np.full(n, 2))
    return emissions


def rejections(lag, runs, alpha, n=1_200):
    rng = np.random.default_rng(20 + lag)
    total = 0
    for _ in range(runs):
        tests = independence_tests(TABLES, drawn(rng, n, lag), rng.random(n), None, alpha)
        total += any(test.rejected for test in tests)
    return total


@pytest.mark.distribution
@pytest.mark.thorough
def test_the_tests_of_all_lags_together_keep_their_level():
    runs, alpha = 300, 0.1
    assert laws.binom.sf(rejections(0, runs, alpha) - 1, runs, alpha) > ALPHA
    # Negative control: the same tests on outputs that come back.
    assert rejections(64, 5, alpha) == 5
