"""Two verdicts on acceptance: lossy is a fault of losslessness, another rule is not."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.kernel_trials import trial

import simverify
from simverify.battery.shares import callable_shares, context_shares, kernel_shares, pit_shares
from simverify.comparing import model as compare_model
from simverify.comparing.kernels.acceptance import Generations, acceptance_detectable
from simverify.comparing.kernels.check import sampled_check
from simverify.models.small import compact, toy
from simverify.simulators.exact.calls import laws_by_tree, tokens_after_calls
from simverify.simulators.exact.rows import markov_rows
from simverify.simulators.run import simulate
from simverify.verifiers import VERIFIERS

BLOCKS = 200_000


def first_calls(run, rule):
    slots = (run.gamma + 1, len(run.rows), run.model.vocab_size)
    return simulate(run.tables, rule, run.gamma, BLOCKS, seed=2, threads=1, transition_shape=slots)


@pytest.fixture(scope="module")
def token():
    return trial(compact(), "token", alpha=ALPHA / 4, detect=0.05)


@pytest.mark.distribution
def test_acceptance_of_its_own_passes_both(token):
    for rule in ("token", "block", "greedy", "match"):
        run = trial(compact(), rule, alpha=ALPHA / 4, detect=0.05)
        check = sampled_check(run, BLOCKS, first_calls(run, rule))
        assert check.findings == ()
        assert check.lossless.verdict(0.05) == check.acceptance.verdict(0.05) == "PASS"


@pytest.mark.parametrize("other", ["block", "match"])
def test_another_lossless_rule_is_not_the_declared_one(token, other):
    check = sampled_check(token, BLOCKS, first_calls(token, other))
    assert check.lossless.verdict(0.05) == "PASS"
    assert check.acceptance.verdict(0.05) == "FAIL"
    (finding,) = check.acceptance.findings
    assert ("above" if other == "block" else "below") in finding


@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_more_than_block_verification_is_lossy(rule):
    """Greedy's first call, which only its carried state makes good."""
    run = trial(compact(), rule, alpha=ALPHA, detect=0.05)
    check = sampled_check(run, BLOCKS, first_calls(run, "greedy"))
    assert check.lossless.verdict(0.05) == "FAIL"
    assert check.lossless.findings[0].startswith("lossy: Pr(tau >= ")
    assert "block verification" in check.lossless.findings[0]
    assert check.acceptance.verdict(0.05) == "FAIL"


def test_more_than_the_coupling_bound_is_lossy():
    run = trial(compact(), "greedy", alpha=ALPHA, detect=0.05)
    counts = first_calls(run, "greedy")
    accepted = counts.accepted.copy()
    accepted[0] -= 5000
    accepted[3] += 5000
    check = sampled_check(run, 50_000, replace(counts, accepted=accepted))
    assert "coupling bound" in check.lossless.findings[0]
    assert sampled_check(run, 50_000, counts).lossless.findings == ()


def test_the_power_of_the_acceptance_test_is_the_promised_one(token):
    shares = kernel_shares(token.alpha, calls=False)
    found = acceptance_detectable(token, BLOCKS, shares["acceptance"])
    assert 0.003 < found < 0.03
    assert acceptance_detectable(token, 4 * BLOCKS, shares["acceptance"]) < found
    # A level that always or never holds has no room for a shift of that size.
    sure = replace(token.curve, lower=np.array([1, 1, 0.0]), upper=np.array([1, 1, 0.0]))
    certain = replace(token, curve=sure)
    assert acceptance_detectable(certain, 10**8, 1e-9) < 1e-6
    rare = replace(token.curve, lower=np.full(3, 1e-9), upper=np.full(3, 1e-9))
    assert acceptance_detectable(replace(token, curve=rare), BLOCKS, 1e-9) < 1e-3


# Tokens after calls.


def generations(rule, model, gamma, *, eos=None, calls=4, run_eos=None):
    """``calls`` calls under ``run_eos``, and the exact lengths under ``eos``."""
    run = trial(model, rule, gamma=gamma, alpha=ALPHA, detect=0.05)
    counts = simulate(run.tables, rule, gamma, 100_000, seed=4, threads=1, calls=calls, eos=run_eos)
    laws = laws_by_tree(VERIFIERS[rule], markov_rows(model), gamma)
    exact = tokens_after_calls(laws, gamma, calls, eos=eos)
    return run, Generations(counts, exact, eos is not None)


@pytest.mark.distribution
@pytest.mark.parametrize("eos", [None, 0])
@pytest.mark.parametrize("rule", ["token", "block", "greedy"])
def test_tokens_after_calls_are_judged(rule, eos):
    run, right = generations(rule, compact(), 2, eos=eos, run_eos=eos)
    check = sampled_check(run, BLOCKS, first_calls(run, rule), right)
    lengths = check.acceptance.tests[-1]
    assert (lengths.name, lengths.rejected) == ("tokens after calls", False)
    assert check.acceptance.findings == ()
    # Negative control: after the last call more tokens than there are, by what is promised.
    assert lengths.min_detectable < 0.1
    exact = [*right.exact[:-1], right.exact[-1] + Fraction(1.5 * lengths.min_detectable)]
    wrong = sampled_check(run, BLOCKS, first_calls(run, rule), replace(right, exact=exact))
    assert wrong.acceptance.verdict(0.05) == "FAIL"
    assert "tokens after 4 calls" in wrong.acceptance.findings[0]
    assert wrong.lossless.findings == ()


def test_an_end_that_is_not_heeded_fails():
    run, ignored = generations("token", toy(), 2, eos=0, run_eos=None)
    check = sampled_check(run, BLOCKS, first_calls(run, "token"), ignored)
    assert check.acceptance.verdict(0.05) == "FAIL"
    assert "above their exact mean" in check.acceptance.findings[0]


def test_without_exact_values_nothing_is_judged():
    run, right = generations("token", toy(), 2)
    unknown = replace(right, exact=None)
    check = sampled_check(run, BLOCKS, first_calls(run, "token"), unknown)
    assert [test.name for test in check.acceptance.tests] == ["acceptance"]


# In the document.


def test_wrong_lengths_fail_a_comparison_and_not_its_losslessness(monkeypatch):
    def run():
        (row,) = simverify.compare(
            ["toy"], ["block"], gamma=2, calls=3, blocks=300_000, threads=1
        ).results
        return row

    good = run()
    assert good.verdict == good.lossless.verdict == good.acceptance.verdict == "PASS"
    assert [test.name for test in good.acceptance.tests] == ["acceptance", "tokens after calls"]
    monkeypatch.setattr(
        compare_model,
        "tokens_after_calls",
        lambda *args, **options: [x + 1 for x in tokens_after_calls(*args, **options)],
    )
    bad = run()
    assert (bad.verdict, bad.lossless.verdict, bad.acceptance.verdict) == ("FAIL", "PASS", "FAIL")
    assert bad.acceptance.words == "not the declared rule"
    assert not bad.lossless.findings


def test_a_declared_rule_that_is_another_is_no_fault_of_losslessness(monkeypatch):
    """The token kernel run under the name of block: lossless, and not block."""
    monkeypatch.setattr(
        "simverify.comparing.kernels.kernel.simulate",
        lambda tables, rule, *args, **options: simulate(tables, "token", *args, **options),
    )
    (row,) = simverify.compare(["compact"], ["block"], gamma=3, blocks=200_000, threads=1).results
    assert (row.lossless.verdict, row.acceptance.verdict, row.verdict) == ("PASS", "FAIL", "FAIL")
    assert "below the rule's own law" in row.acceptance.findings[0]


def test_all_shares_together_are_alpha():
    for calls in (False, True):
        shares = kernel_shares(1e-6, calls=calls)
        assert 0.99e-6 < math.fsum(shares.values()) <= 1e-6
        parts = [pit_shares(shares["output"], cells=cells) for cells in (False, True)]
        for split in (context_shares(shares["output"]), *parts):
            assert 0.99 * shares["output"] < math.fsum(split.values()) <= shares["output"]
    shares = kernel_shares(1e-6, calls=True)
    assert (shares["ratios"], shares["scores"]) == pytest.approx((0.5e-6, 0.25e-6))
    shares = callable_shares(1e-6)
    assert 0.99e-6 < math.fsum(shares.values()) <= 1e-6
    assert (shares["gate"] + shares["ratios"], shares["scores"]) == pytest.approx((5e-7, 2.5e-7))


def test_no_test_spends_more_than_its_share():
    run = simverify.compare(
        ["compact", "markov-70"], ["token", "greedy"], gamma=3, blocks=2000, calls=2, threads=1
    )
    spent = [
        sum(test.alpha for test in row.lossless.tests + row.acceptance.tests) for row in run.results
    ]
    assert max(spent) <= run.alpha / len(run.results) * (1 + 1e-9)
