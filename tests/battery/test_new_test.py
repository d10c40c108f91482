"""A test of tokens, added from outside: one function and its share of alpha."""

import numpy as np
import pytest

import simverify
from simverify import stats
from simverify.battery import battery
from simverify.battery.battery import TokenTest, callable_shares, context_shares, register_test


def parity(slots, alpha):
    """Even tokens against odd ones, over all positions."""
    sums = []
    for slot in (slot for slot in slots if slot.counts.any()):
        even = np.broadcast_to(np.arange(slot.target.shape[1]) % 2 == 0, slot.target.shape)
        sums.append(stats.indicator_sums_of_contexts(slot.counts, slot.target, even))
    total = sum(sums[1:], sums[0])
    if total.variance > 0.0:
        yield stats.indicator_test(total, alpha=alpha, name="parity")


@pytest.fixture(autouse=True)
def added(monkeypatch):
    monkeypatch.setattr(battery, "_TOKEN_TESTS", {})
    register_test(TokenTest("parity", 2.0, parity))


@pytest.mark.parametrize("split", [context_shares, callable_shares])
def test_its_share_is_taken_from_the_other_tests(split, monkeypatch):
    shares = split(1e-6)
    assert sum(shares.values()) <= 1e-6
    assert shares["parity"] == pytest.approx(shares["transitions"] / 2)
    monkeypatch.setattr(battery, "_TOKEN_TESTS", {})
    assert split(1e-6)["transitions"] > shares["transitions"]
    assert "parity" not in split(1e-6)


def test_a_comparison_runs_it():
    run = simverify.compare(["toy"], ["token"], gamma=2, blocks=50_000, detect=0.1)
    (row,) = run.results
    (test,) = [test for test in row.lossless.tests if test.name == "parity"]
    assert 0.0 < test.alpha < run.alpha
    assert not test.rejected


def test_an_audit_fails_by_it(monkeypatch):
    def never(slots, alpha):
        for test in parity(slots, alpha):
            yield stats.TestResult(
                name="parity", statistic=test.statistic, log_pvalue=-1e3, alpha=alpha, n=test.n,
                df=None, method="made up", min_detectable=1.0, deviation="none",
            )  # fmt: skip

    monkeypatch.setattr(battery, "_TOKEN_TESTS", {"parity": TokenTest("parity", 2.0, never)})
    run = simverify.compare(["toy"], ["token"], gamma=2, blocks=50_000, detect=0.1)
    assert run.verdict == "FAIL"
    assert any(line.startswith("parity: p = 1e-434") for line in run.results[0].lossless.findings)


@pytest.mark.parametrize("name", ["parity", "rare", "scores", "optimality"])
def test_a_name_is_taken_once(name):
    with pytest.raises(ValueError, match="expected a new name"):
        register_test(TokenTest(name, 1.0, parity))
