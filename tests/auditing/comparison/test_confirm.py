"""A failure is told only if it repeats on numbers of the real libraries' own types."""

import time

import numpy as np
import pytest
from support.levels import at_night
from support.rules import norm

from simverify.auditing import confirm as module
from simverify.auditing.confirm import (
    MAX_FREE_CALLS,
    SPRT_ERROR_RATE,
    SequentialCheck,
    _joint_target_law,
    _law_array,
)
from simverify.auditing.enumeration import StepEnumeration
from simverify.auditing.exact_tier import ExactTier, run_exact_tier
from simverify.auditing.examiner import Examiner
from simverify.auditing.instances import instances_for
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.faults import FAULTS
from simverify.symbolic import engine, outcomes
from simverify.symbolic.engine import Budget
from simverify.symbolic.numpy_random import SymbolicGenerator
from simverify.symbolic.scalar import Draw
from simverify.symbolic.source import RandomSource

# Calls that nothing steers contradict a law that is not the code's, and no other.


MODELS = {
    model.name: model
    for model in instances_for("step", 2, 3, 0)
    if model.name in {
        "plain, V=3, gamma=1", "plain, V=2, gamma=2, after end of sequence 1",
        "plain, V=2, gamma=2, after a reset", "after a prompt of 12, V=3, gamma=1",
    }
}  # fmt: skip


def right(prefix, target, draft, gamma, rng):
    return [rng.choice(len(target(prefix)), p=target(prefix))]


def swapped(prefix, target, draft, gamma, rng):
    """Wrong: it follows the draft."""
    return right(prefix, draft, target, gamma, rng)


def law_of(rule, model):
    with StepEnumeration(rule) as enumeration:
        examiner = Examiner(Subject("rule", rule, "step"), "step", enumeration=enumeration)
        return _law_array(examiner.compare(model).emitted, model)


@pytest.mark.parametrize("name", MODELS)
def test_a_law_that_is_not_the_codes_is_contradicted(name):
    model = MODELS[name]
    assert (
        SequentialCheck(Subject("rule", right, "step"), "step").contradict(
            model, law_of(swapped, model)
        )
        > 0
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rule", [right, swapped])
def test_the_codes_own_law_is_not(rule, name):
    model = MODELS[name]
    assert (
        SequentialCheck(Subject("rule", rule, "step"), "step").contradict(
            model, law_of(rule, model)
        )
        == 0
    )


@pytest.mark.parametrize("name", ["plain, V=2, gamma=2, after a reset"])
def test_calls_end_the_test_and_no_clock(monkeypatch, name):
    """What neither law explains better takes all calls, however long they are together."""
    calls = []

    def slow(prefix, target, draft, gamma, rng):
        calls.append(prefix)
        return right(prefix, target, draft, gamma, rng)

    monkeypatch.setattr(module, "_CALL_SECONDS", 0.05)
    model = MODELS[name]
    due = _joint_target_law(model, model.gamma + 1)
    assert SequentialCheck(Subject("rule", slow, "step"), "step").contradict(model, due) == 0
    # A generation of three tokens, and a call of an earlier one.
    assert len(calls) == 4 * MAX_FREE_CALLS


@pytest.mark.parametrize("name", MODELS)
def test_the_target_is_the_one_that_the_battery_judges_by(name):
    model = MODELS[name]
    due = law_of(right, model)
    np.testing.assert_allclose(_joint_target_law(model, model.gamma + 1), due, atol=1e-12)
    assert np.abs(law_of(swapped, model) - due).sum() > 100 * SPRT_ERROR_RATE


def test_code_that_raises_contradicts_nothing():
    def broken(prefix, target, draft, gamma, rng):
        raise SystemExit(3)

    model = MODELS["plain, V=2, gamma=2, after a reset"]
    law = law_of(swapped, model)
    assert SequentialCheck(Subject("rule", broken, "step"), "step").contradict(model, law) == 0


def verifier(uniform, lenience=1.0):
    """Return token verification on ``uniform(rng)``; right if that is uniform on [0, 1)."""

    def verify(target_probs, draft_probs, draft_tokens, rng):
        for i, token in enumerate(draft_tokens):
            p, q = target_probs[i], draft_probs[i]
            if uniform(rng) * q[token] * lenience >= p[token]:
                return [*draft_tokens[:i], rng.choice(len(p), p=norm(p, q))]
        return [*draft_tokens, rng.choice(len(p), p=target_probs[-1])]

    return verify


def rounded_away(rng):
    """What rounding takes off a draw: uniform on [0, 1) again."""
    w = 4 * rng.random()
    return w - round(w) + 0.5


def inverted(rng):
    """A quarter by the inverted byte of a drawn one, and where in it."""
    k = rng.integers(0, 4, dtype=np.uint8)
    return (255 - int(~k) + rng.random()) / 4


def tier_of(rule, *, seconds=60.0, gamma=2) -> ExactTier:
    models = instances_for("verify", gamma, 3, seed=0)
    return run_exact_tier(
        Subject("rule", rule, "verify"), "verify", models,
        tolerance=None, budget=Budget(60_000, seconds), searching=False,
    )  # fmt: skip


@pytest.fixture
def broken(monkeypatch):
    """Let draws round down, and the twin of a generator forget the dtype of its integers."""

    def integers(self, low, high=None, size=None, dtype=None, endpoint=False):
        return low + self._index(high - low, None)

    monkeypatch.setattr(Draw, "__round__", lambda self, digits=None: int(self), raising=False)
    monkeypatch.setattr(SymbolicGenerator, "integers", integers)


def test_right_code_on_a_right_stand_in_passes():
    tier = tier_of(verifier(rounded_away), gamma=1)
    assert (tier.failure, tier.not_enumerable) == (None, None)


@pytest.mark.usefixtures("broken")
def test_right_code_on_a_wrong_stand_in_does_not_fail():
    assert tier_of(verifier(rounded_away), gamma=1).failure is None


@pytest.mark.usefixtures("broken")
def test_a_wrong_stand_in_is_a_limit_and_no_failure():
    tier = tier_of(verifier(inverted))
    assert tier.failure is None
    assert "not repeat on plain numbers: a limit of this tool" in str(tier.not_enumerable)
    # Which path, and what it does instead.
    assert "emits" in str(tier.not_enumerable)
    assert tier.not_enumerable.findings == ()


@pytest.mark.usefixtures("broken")
def test_the_sampled_tier_decides_then():
    settings = AuditSettings(gamma=2, vocab=4, detect=0.2)
    run = audit(Subject("right", verifier(inverted), "verify"), "verify", settings)
    assert (run.verdict, run.tier) == ("PASS", "sampled")
    assert "a limit of this tool" in run.not_enumerable
    run = audit(Subject("lenient", verifier(inverted, 0.7), "verify"), "verify", settings)
    assert (run.verdict, run.tier) == ("FAIL", "sampled")


def test_faulty_code_fails_with_all_its_paths_repeated():
    tier = tier_of(verifier(rounded_away, 0.9), gamma=1)
    assert tier.failure.deviates
    assert tier.unrepeated == ""


def test_a_law_that_free_calls_contradict_is_a_limit(monkeypatch):
    true_fork = RandomSource.fork

    def skewed(self, weights, *decided, **more):
        # All paths repeat, and their weights are wrong.
        first = weights[0] ** 2
        return true_fork(
            self, (first, 1 - first) if len(weights) == 2 else weights, *decided, **more
        )

    monkeypatch.setattr(RandomSource, "fork", skewed)
    tier = tier_of(verifier(lambda rng: rng.random()))
    assert tier.failure is None
    assert "follow the target instead of the distribution" in str(tier.not_enumerable)


def drawn_seed(rng):
    """A generator seeded with four drawn words."""
    return np.random.default_rng([int(x) for x in rng.integers(0, 2**31, size=4)]).random()


def bit_length(rng):
    """A method that integers have."""
    few = rng.integers(0, 12).item().bit_length() < 3
    return rng.random() if few else 1 - rng.random()


class Counted:
    """A generator keyed by the number of the call: another one each time."""

    def __init__(self):
        self.calls = 0

    def __call__(self, rng):
        self.calls += 1
        return np.random.Generator(np.random.Philox(key=self.calls)).random()


@pytest.mark.parametrize("uniform", [drawn_seed, bit_length, Counted()])
@pytest.mark.thorough
def test_right_code_that_stand_ins_do_not_follow_is_not_failed(uniform):
    assert tier_of(verifier(uniform), gamma=1).failure is None


def constant_order(target_probs, draft_probs, draft_tokens, rng):
    """Search the tokens in an order that is the same in every call, with coins that are not."""
    order = np.random.default_rng(0).permutation(len(target_probs[0]))
    tokens = []
    for p in target_probs:
        tokens.append(int(order[np.searchsorted(np.cumsum(p[order]), rng.random(), "right")]))
        if len(tokens) > len(draft_tokens) or tokens[-1] != draft_tokens[len(tokens) - 1]:
            break
    return tokens


def test_a_constant_that_changes_no_law_is_no_failure():
    assert tier_of(constant_order).failure is None


def constant(rng):
    return np.random.default_rng(7).random()


def test_a_constant_seed_repeats():
    tier = tier_of(verifier(constant))
    assert [f.kind for f in tier.failure.comparison.findings] == ["constant-seed"]


@pytest.mark.parametrize("name", ["repeated-stream", "seeded-per-request", "greedy-no-state"])
def test_faults_that_carry_draws_from_call_to_call_fail(name):
    fault = FAULTS[name]
    models = instances_for(fault.contract, 4, 12, seed=0)
    subject = Subject(name, fault.rule, fault.contract)
    tier = run_exact_tier(subject, fault.contract, models, tolerance=None, searching=False)
    assert tier.failure is not None


def test_the_legacy_and_python_generators_repeat_their_constant_seeds():
    assert tier_of(FAULTS["seeded-per-call"].rule).failure is not None


class Pool:
    """Coins are drawn ahead of their use, so that calls meet those of the calls before."""

    def __init__(self):
        self.coins = []

    def __call__(self, rng):
        while len(self.coins) < 5:
            self.coins.append(rng.random())
        return self.coins.pop(0)


def test_draws_of_the_exact_tier_that_the_code_keeps_are_not_its_fault():
    settings = AuditSettings(gamma=1, vocab=4, detect=0.2)
    run = audit(Subject("pool", verifier(Pool()), "verify"), "verify", settings)
    assert (run.verdict, run.tier, run.findings) == ("PASS", "sampled", ())


def raising(p, q, draft, rng):
    if rng.random() < 0.3:
        raise IndexError("the residual is empty")
    return [*draft, rng.choice(len(p[-1]), p=p[-1])]


def outside(p, q, draft, rng):
    return [*draft, len(p[-1]) + int(rng.random() < 0.5)]


def hanging(p, q, draft, rng):
    while rng.random() < 0.5:
        while True:
            pass
    return [0]


@pytest.mark.parametrize(
    ("rule", "kind"),
    # A loop that hangs by day draws, and is below.
    at_night(
        [(raising, "raises"), (outside, "out-of-range"), (hanging, "hangs")],
        but=[(raising, "raises"), (outside, "out-of-range")],
    ),
)
def test_broken_contracts_repeat(rule, kind):
    tier = tier_of(rule, seconds=3.0)
    assert kind in [f.kind for f in tier.failure.comparison.findings]


@pytest.fixture
def hasty(monkeypatch):
    """A quarter of the time, and less, is enough for a hang: nobody waits longer than he must."""
    monkeypatch.setattr(engine, "MIN_HANG_SECONDS", engine.MIN_HANG_SECONDS / 4)
    monkeypatch.setattr(outcomes, "_HANG_SECONDS", outcomes._HANG_SECONDS / 10)


def slow(p, q, draft, rng):
    began = time.process_time()
    while time.process_time() - began < 0.1:
        pass
    return [int(rng.choice(len(p[0]), p=p[0]))]


def drawing_for_ever(p, q, draft, rng):
    while rng.random() < 2:
        pass
    return [0]


@pytest.mark.usefixtures("hasty")
def test_slow_code_that_the_clock_cuts_off_is_no_hang():
    for seconds in (0.25, 0.35):
        tier = tier_of(slow, seconds=seconds)
        assert tier.failure is None
        assert tier.aborted == seconds


@pytest.mark.usefixtures("hasty")
def test_a_call_that_was_cut_off_and_then_returns_is_no_hang():
    """Not even where it is the only call that was seen."""
    tier = tier_of(slow, seconds=0.09)
    assert tier.failure is None


@pytest.mark.usefixtures("hasty")
def test_a_loop_that_draws_for_ever_repeats_as_a_hang():
    tier = tier_of(drawing_for_ever, seconds=0.75)
    assert [f.kind for f in tier.failure.comparison.findings] == ["hangs"]
