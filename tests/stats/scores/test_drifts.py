"""Whether means drift as a cause was measured to make them: size, power, bad input."""

import numpy as np
import pytest
from support.calibration import wrong_size
from support.false_alarms import ALPHA

from simverify.stats import drift_test

DUE = np.array([0.01, 0.02, 0.03, 0.04])
VARIANCES, ERRORS = np.full(4, 1e-4), np.full(4, 1e-5)


def drifted(rng, mean, alpha=0.5):
    seen = mean + rng.normal(size=4) * np.sqrt(VARIANCES)
    tried = DUE + rng.normal(size=4) * np.sqrt(ERRORS)
    return drift_test(seen, VARIANCES, tried, ERRORS, n=1000, alpha=alpha)


@pytest.mark.distribution
@pytest.mark.parametrize("multiple", [0.0, 1.0, -2.0])
def test_the_cause_itself_is_denied_no_more_often_than_alpha(multiple):
    rng = np.random.default_rng(51)

    def simulate(runs):
        return [drifted(rng, multiple * DUE).log_pvalue for _ in range(runs)]

    assert wrong_size(simulate, runs=2000, levels=(0.1, 1e-2), band=(0.0, 1.0), alpha=ALPHA) is None


@pytest.mark.distribution
@pytest.mark.parametrize("mean", [[0.15, 0.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1], 6 * DUE])
def test_another_cause_is_denied(mean):
    rng = np.random.default_rng(52)
    assert drifted(rng, np.asarray(mean), alpha=ALPHA).rejected


@pytest.mark.distribution
def test_what_is_detectable_is_detected():
    rng = np.random.default_rng(53)
    none = np.zeros(4)
    size = drift_test(none, VARIANCES, none, none, n=1000, alpha=1e-3).min_detectable
    found = [
        drift_test(
            size + rng.normal(size=4) * np.sqrt(VARIANCES), VARIANCES, none, none, n=1, alpha=1e-3
        ).rejected
        for _ in range(1000)
    ]
    assert 0.8 < np.mean(found) < 0.97


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"observed": [0.0]}, "expected \\(groups,\\)"),
        ({"variances": np.zeros(4)}, "not positive"),
        ({"errors": -ERRORS}, "negative"),
        ({"most": 0.0}, "most is 0"),
        ({"alpha": 1.0}, "alpha is 1"),
    ],
)
def test_bad_input(change, says):
    given = {"observed": DUE, "variances": VARIANCES, "expected": DUE, "errors": ERRORS,
             "n": 10, "alpha": 0.01} | change  # fmt: skip
    with pytest.raises(ValueError, match=says):
        drift_test(**given)
