"""Code that breaks its contract while it is sampled, and what the tier leaves as it was."""

import itertools
import random
import re
import sys

import numpy as np
import pytest
from scipy import stats as laws
from support.false_alarms import ALPHA
from support.sampled_audits import SMALL, audit
from support.sampled_audits import token as token_sampled_audits

from simverify.auditing import sampled_tier
from simverify.auditing.run import audit as audit_code
from simverify.auditing.sampled_runs import (
    Emissions,
    InstanceTables,
    SampledInstance,
    default_sampled_instances,
)
from simverify.auditing.sampled_tier import CALL_LAGS, independence_tests, sample_callable
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.models.base import compact
from simverify.verifiers import VERIFIERS

# -- code that misbehaves ------------------------------------------------------------------


def hangs(*arguments):
    while True:
        pass


def raises(*arguments):
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("rule", "finding"),
    [
        (raises, "raises: ZeroDivisionError: division by zero"),
        (lambda *a: None, "no-tokens"),
        (lambda *a: [], "empty"),
        (lambda *a: [0.5], "not-integers"),
        (lambda *a: [99], "out-of-range"),
        (lambda *a: [*a[2], 0, 0], "too-many"),
        (lambda *a: [(a[2][0] + 1) % 3, 0], "not-a-prefix"),
        (lambda *a: sys.exit(3), "raises: SystemExit"),
    ],
)
def test_garbage_is_a_finding(rule, finding):
    result = audit(rule, instances=SMALL)
    assert result.verdict == "FAIL"
    assert finding in result.tier.findings[0].text


def test_a_hanging_call_is_a_finding():
    result = audit(hangs, seconds=1.0)
    assert result.verdict == "FAIL"
    assert "hangs" in result.tier.findings[0].text


def test_a_batch_of_the_wrong_length_is_a_finding():
    result = audit(lambda p, q, x, rng: [[0]], batch=4, instances=SMALL)
    assert "a call of 4 rows" in result.tier.findings[0].text


def test_interruption_passes_through_and_global_generators_are_put_back():
    calls = itertools.count()

    def interrupted(p, q, x, rng):
        random.seed(1)
        if next(calls) == 100:
            raise KeyboardInterrupt
        return token_sampled_audits(p, q, x, rng)

    before = random.getstate()
    with pytest.raises(KeyboardInterrupt):
        audit(interrupted)
    assert random.getstate() == before


def test_inputs_written_to_do_not_reach_the_next_call():
    def writes(p, q, x, rng):
        emitted = token_sampled_audits(p, q, x, rng)
        p[:], q[:], x[:] = 0.0, 0.0, 0
        return emitted

    assert not audit(writes, instances=SMALL, detect=0.1).tier.findings


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="contract is 'other'"):
        audit(token_sampled_audits, "other")
    with pytest.raises(ValueError, match="instances are empty"):
        audit(token_sampled_audits, instances=())
    with pytest.raises(ValueError, match="detect is 0"):
        audit(token_sampled_audits, detect=0)
    with pytest.raises(ValueError, match="batch is 2 under step"):
        audit(VERIFIERS["greedy"].rule, "step", batch=2)
    with pytest.raises(ValueError, match="neither step"):
        audit(token_sampled_audits, "step")


# Slow code is sampled for the smallest deviation that there is time for, and that is said.


TOKEN = VERIFIERS["token"].rule


class Clock:
    """A stopwatch on which each call of the code takes ``call`` seconds, nothing else any time."""

    def __init__(self, call=1e-3):
        self.now, self.call = 0.0, call

    def seconds(self):
        return self.now

    def timed(self, rule):
        def called(*given):
            self.now += self.call
            return rule(*given)

        return called


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(sampled_tier, "Stopwatch", lambda sleeps: clock)
    return clock


def sampled(clock, seconds, rule=TOKEN, **options):
    return sample_callable(
        clock.timed(rule), "verify", instances=[SampledInstance(compact(), 2)], seed=7,
        seconds=seconds, **options,
    )  # fmt: skip


def calls(detect):
    """How many a run for that deviation makes, its pilot aside."""
    return sample_callable(
        TOKEN, "verify", instances=[SampledInstance(compact(), 2)], seed=7, detect=detect
    ).tier.samples


@pytest.mark.thorough
def test_the_first_that_fits_is_asked_for(clock):
    fine, coarse = calls(0.02), calls(0.03)
    between = (
        sampled_tier.SLOWDOWN_ALLOWANCE * (fine + coarse) / 2 * 1e-3
        + sampled_tier.PILOT_TRIALS * 1e-3
    )
    found = sampled(clock, between, coarser=(0.02, 0.03, 0.05))
    assert (found.verdict, found.tier.detect, found.tier.samples) == ("PASS", 0.03, coarse)
    assert found.tier.detectable <= 0.03
    assert "a TV of 0.01 would have taken longer than" in found.hurried
    assert "so 0.03 was asked for" in found.hurried


def test_with_time_enough_nothing_is_taken_back(clock):
    found = sampled(clock, 1e6, detect=0.02, coarser=(0.03, 0.05))
    assert (found.verdict, found.tier.detect, found.hurried) == ("PASS", 0.02, None)


def test_what_was_asked_for_by_name_is_not_changed(clock):
    found = sampled(clock, 5.0, detect=0.02)
    assert (found.verdict, found.tier.detect, found.hurried) == ("INCONCLUSIVE", 0.02, None)


def test_where_nothing_fits_the_run_is_for_the_last_and_says_what_it_takes(clock):
    found = sampled(clock, 3.0, coarser=(0.02, 0.03, 0.05))
    assert (found.verdict, found.tier.detect) == ("INCONCLUSIVE", 0.05)
    assert found.tier.samples > 1000
    seconds = float(re.search(r"fit into 3 s: pass --seconds (\S+),", found.reason)[1])
    clock.now = 0.0
    assert sampled(clock, seconds, coarser=(0.02, 0.03, 0.05)).verdict == "PASS"


def test_a_wrong_rule_still_fails(clock):
    def lenient(p, q, x, rng):
        return TOKEN(p, 0.7 * q, x, rng)

    found = sample_callable(
        clock.timed(lenient), "verify", instances=[SampledInstance(compact(), 2)], seed=7,
        seconds=30.0, coarser=(0.02, 0.03, 0.05),
    )  # fmt: skip
    assert found.verdict == "FAIL"


COARSER = (0.02, 0.03, 0.05, 0.1, 0.2)


def slow(clock, call, rule=TOKEN):
    """A whole audit of code that takes ``call`` seconds a call."""
    clock.call = call
    return sample_callable(
        clock.timed(rule), "verify", instances=default_sampled_instances(), seed=7, coarser=COARSER
    )


def from_the_target(p, q, x, rng):
    """Wrong by a TV of a quarter: after a rejection it draws from the target's row."""
    for i, token in enumerate(x):
        if rng.random() * q[i, token] >= p[i, token]:
            return [*x[:i], rng.choice(len(p[i]), p=p[i])]
    return [*x, rng.choice(len(p[-1]), p=p[-1])]


@pytest.mark.parametrize("call", [0.005, 0.01, 0.05])
def test_slow_and_wrong_code_fails_within_some_hundred_calls(clock, call):
    found = slow(clock, call, from_the_target)
    assert (found.verdict, found.reason) == ("FAIL", None)
    assert found.tier.samples <= 900
    assert clock.now <= 10.0 or call > 0.01
    assert found.trial is not None


def test_code_whose_first_call_alone_is_slow_is_not_looked_at_early(clock):
    def rule(*given):
        clock.now += 0.2 * (clock.now < 0.2)
        return TOKEN(*given)

    assert sampled(clock, 60.0, rule, detect=0.2).tier.looks == 4


@pytest.mark.parametrize("call", [0.005, 0.01])
def test_slow_and_right_code_passes_and_says_what_it_would_show(clock, call):
    found = slow(clock, call)
    assert (found.verdict, found.reason) == ("PASS", None)
    assert clock.now <= 60.0
    assert 0.01 < found.tier.detect <= 0.2
    assert all(x.detectable <= x.detect for x in found.tier.instances)
    assert f"so {found.tier.detect:g} was asked for" in found.hurried


@pytest.mark.parametrize(("call", "calls"), [(0.05, 800), (1.0, 40)])
def test_what_slower_code_would_take_is_said(clock, call, calls):
    found = slow(clock, call)
    assert (found.verdict, found.tier.findings) == ("INCONCLUSIVE", ())
    assert found.tier.samples >= calls
    assert found.tier.tests
    assert "raise --seconds" in found.reason or "pass --seconds" in found.reason


def test_early_looks_at_slow_code_keep_to_the_budget_of_trials(clock):
    clock.call = 0.005
    found = sampled(clock, 60.0, samples=60)
    assert (found.verdict, found.tier.samples <= 60) == ("INCONCLUSIVE", True)


def test_calls_of_seconds_are_counted_and_what_they_would_take_is_said(clock):
    found = slow(clock, 4.0)
    assert found.verdict == "INCONCLUSIVE"
    assert found.tier.samples > 0
    assert "raise --seconds" in found.reason


def hashed(p, q, x, rng):
    """Token verification on the bytes of a draw, which nothing follows."""
    coins = np.random.default_rng(list(rng.bytes(16)))
    return TOKEN(p, q, x, coins)


@pytest.mark.parametrize(("chosen", "words"), [(0.01, ""), (0.05, " --detect 0.05")])
def test_the_audit_says_what_was_asked_for_and_repeats_it(monkeypatch, chosen, words):
    plan_samples = sampled_tier.plan_samples

    def plan(pilots, *, detects, **options):
        return plan_samples(pilots, detects=[chosen], **options)

    monkeypatch.setattr(sampled_tier, "plan_samples", plan)
    monkeypatch.setattr(sampled_tier, "_detectable_tv", lambda pilot, n, alpha, power: 0.0)
    monkeypatch.setattr(sampled_tier._SampledRun, "_short_of", lambda run, detect: [])
    settings = AuditSettings(gamma=1, vocab=2, coarser=(0.05,))
    run = audit_code(Subject("hashed.py:hashed", hashed, "verify"), "verify", settings)
    assert run.tier == "sampled"
    assert any(note.startswith("sampled: a TV of 0.01 would") for note in run.notes) == bool(words)
    assert run.reproduce.endswith(f"--gamma 1 --vocab 2{words}")


# Coins that come back some calls later: found at every lag tried, never where there are none.


token = VERIFIERS["token"].rule
INSTANCE = SampledInstance(compact(), 2)
TABLES = InstanceTables(INSTANCE, 3)


class Again:
    """The token rule; every second row of ``lag`` calls has the coins of the row before."""

    def __init__(self, lag):
        self.lag, self.calls = lag, 0

    def __call__(self, target_probs, draft_probs, draft_tokens, rng):
        row, place = divmod(self.calls, self.lag)
        self.calls += 1
        stream = np.random.default_rng([3, row // 2, place])
        return token(target_probs, draft_probs, draft_tokens, stream)


@pytest.mark.parametrize("lag", CALL_LAGS)
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
