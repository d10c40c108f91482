"""Random integers of many values that are run one by one: told as what they are, and no loop."""

import numpy as np
import pytest

from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.instances import instances_for
from simverify.auditing.subject import Subject
from simverify.symbolic.engine import Budget


def with_coin(coin):
    """Return the token rule with another coin: ``coin(rng)`` in 0..999."""

    def verify(p, q, x, rng):
        for i, t in enumerate(x):
            if coin(rng) >= 1000 * p[i][t] / q[i][t]:
                rest = np.maximum(p[i] - q[i], 0)
                return [*x[:i], int(rng.choice(len(rest), p=rest / rest.sum()))]
        return [*x, int(rng.choice(p.shape[1], p=p[-1]))]

    return verify


def tier_of(rule):
    models = instances_for("verify", 1, 3, 0)
    return run_exact_tier(
        Subject("rule", rule, "verify"), "verify", models, tolerance=1e-2,
        budget=Budget(20_000, 60), searching=False,
    )  # fmt: skip


@pytest.fixture
def one_suffices(monkeypatch):
    """One instance with too many paths is enough to stop at: each takes a second and more."""
    monkeypatch.setattr("simverify.auditing.exact_tier._MAX_ENDLESS", 1)


@pytest.mark.usefixtures("one_suffices")
def test_values_that_are_run_one_by_one_are_no_loop():
    tier = tier_of(with_coin(lambda rng: int(rng.integers(1000)) ^ 5))
    said = str(tier.not_enumerable)
    assert "a random integer of 1,000 values is used in more than a comparison" in said
    assert "test_many_values.py:" in said
    assert "loop" not in said


def test_a_loop_is_still_told_as_one():
    def coin(rng):
        while True:
            a, b = (int(rng.integers(16)) for _ in range(2))
            if 16 * a + b < 250:
                return 4 * (16 * a + b)

    tier = tier_of(with_coin(coin))
    assert "as where a loop draws until it accepts" in str(tier.not_enumerable)


@pytest.mark.parametrize("scale", [1, 2])
def test_values_that_are_compared_cost_two_paths(scale):
    tier = tier_of(with_coin(lambda rng: scale * int(rng.integers(1000))))
    assert tier.not_enumerable is None
    assert (tier.failure is None) == (scale == 1)
