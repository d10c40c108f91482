"""Slow code is sampled for the smallest deviation that there is time for, and that is said."""

import numpy as np
import pytest

from simverify.auditing.run import audit
from simverify.auditing.sampled import plan as planning
from simverify.auditing.sampled import tier as sampling
from simverify.auditing.sampled.tables import SampledInstance
from simverify.auditing.sampled.tier import sample_callable
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.models.small import compact
from simverify.verifiers import VERIFIERS

TOKEN = VERIFIERS["token"].rule


class Clock:
    """A clock on which each call of the code takes a millisecond, and nothing else any time."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def timed(self, rule):
        def called(*given):
            self.now += 1e-3
            return rule(*given)

        return called


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(planning.time, "monotonic", clock.monotonic)
    return clock


def sampled(clock, seconds, **options):
    return sample_callable(
        clock.timed(TOKEN), "verify", instances=[SampledInstance(compact(), 2)], seed=7,
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
    between = planning.HURRY * (fine + coarse) / 2 * 1e-3 + planning.PILOT_TRIALS * 1e-3
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


def test_where_nothing_fits_the_run_is_for_the_first(clock):
    found = sampled(clock, 3.0, coarser=(0.02, 0.03, 0.05))
    assert (found.verdict, found.tier.detect) == ("INCONCLUSIVE", 0.01)


def test_a_wrong_rule_still_fails(clock):
    def lenient(p, q, x, rng):
        return TOKEN(p, 0.7 * q, x, rng)

    found = sample_callable(
        clock.timed(lenient), "verify", instances=[SampledInstance(compact(), 2)], seed=7,
        seconds=30.0, coarser=(0.02, 0.03, 0.05),
    )  # fmt: skip
    assert found.verdict == "FAIL"


def hashed(p, q, x, rng):
    """Token verification on the bytes of a draw, which nothing follows."""
    coins = np.random.default_rng(list(rng.bytes(16)))
    return TOKEN(p, q, x, coins)


@pytest.mark.parametrize(("chosen", "words"), [(0.01, ""), (0.05, " --detect 0.05")])
def test_the_audit_says_what_was_asked_for_and_repeats_it(monkeypatch, chosen, words):
    def plan(pilots, *, detects, **options):
        return planning.make_plan(pilots, detects=[chosen], **options)

    monkeypatch.setattr(sampling, "make_plan", plan)
    monkeypatch.setattr(planning, "_promise", lambda pilot, n, alpha, power: 0.0)
    settings = AuditSettings(gamma=1, vocab=2, coarser=(0.05,))
    run = audit(Subject("hashed.py:hashed", hashed, "verify"), "verify", settings)
    assert run.tier == "sampled"
    assert any(note.startswith("sampled: a TV of 0.01 would") for note in run.notes) == bool(words)
    assert run.reproduce.endswith(f"--gamma 1 --vocab 2{words}")
