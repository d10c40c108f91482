"""What one call hides from the next is found, whatever it is kept in."""

import numpy as np
import pytest
from support.composing import MODELS, SMALL, Count, composed, generation, judged, right

from simverify.auditing.enumeration import NotComposable, StepEnumeration, enumerate_generation
from simverify.auditing.examiner import verify_as_step
from simverify.symbolic.engine import Budget
from simverify.verifiers import VERIFIERS


class HidesRejections(Count):
    """Counts rejections in a library's module, and is wrong after the first."""

    def reset(self):
        np.exceptions.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        tokens = right(prefix, target, draft, gamma, rng, wrong=np.exceptions.calls > 0)
        np.exceptions.calls += len(tokens) <= gamma
        return tokens


def test_two_histories_that_look_the_same_are_told_apart():
    with pytest.raises(NotComposable, match="lead to two distributions"):
        composed(HidesRejections, SMALL)
    assert judged(HidesRejections).deviates


def test_hidden_state_is_found_by_making_the_calls_one_after_the_other(monkeypatch):
    monkeypatch.setattr("simverify.auditing.enumeration._MAX_CHECKED_PATHS", 0)
    rule, model = HidesRejections, MODELS["plain, V=2, gamma=1"]
    with StepEnumeration(rule) as enumeration:
        enumerate_generation(enumeration, rule, generation(model), Budget(9_000, 60))
        assert not enumeration.composes


class HidesBonuses(Count):
    """Counts whole blocks in a library's module, and is wrong after the first."""

    def reset(self):
        np.exceptions.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        tokens = right(prefix, target, draft, gamma, rng, wrong=np.exceptions.calls > 0)
        np.exceptions.calls += len(tokens) > gamma
        return tokens


@pytest.mark.parametrize("hidden", [HidesRejections, HidesBonuses])
@pytest.mark.parametrize("name", ["plain, V=2, gamma=2", "skewed, V=2, gamma=2"])
@pytest.mark.thorough
def test_what_one_call_hides_from_the_next_is_found_on_any_instance(hidden, name):
    """In the core each way to end is followed; elsewhere the longest call, and one again."""
    assert judged(hidden, MODELS[name]).deviates


def test_outside_the_core_fewer_calls_are_made_after_others():
    rule = verify_as_step(VERIFIERS["token"].rule)
    core, other = (judged(rule, MODELS[f"{x}, V=2, gamma=2"]) for x in ("plain", "skewed"))
    assert not core.failed
    assert not other.failed
    assert other.comparison.paths < 0.7 * core.comparison.paths


# -- how far it looks --


class AfterBonus:
    """Wrong in the call after one that kept every draft, and in no other."""

    def reset(self):
        self.full = False

    def step(self, prefix, target, draft, gamma, rng):
        tokens = right(prefix, target, draft, gamma, rng, wrong=self.full)
        self.full = len(tokens) > gamma
        return tokens


class AfterTwo(AfterBonus):
    """Wrong after two such calls."""

    def reset(self):
        self.full, self.before = False, False

    def step(self, prefix, target, draft, gamma, rng):
        wrong = self.full and self.before
        tokens = right(prefix, target, draft, gamma, rng, wrong=wrong)
        self.full, self.before = len(tokens) > gamma, self.full
        return tokens


class HidesTheBonus(AfterBonus):
    """The same, where nobody looks."""

    def reset(self):
        np.exceptions.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        tokens = right(prefix, target, draft, gamma, rng, wrong=np.exceptions.calls > 0)
        np.exceptions.calls = int(len(tokens) > gamma)
        return tokens


@pytest.mark.parametrize(
    ("rule", "gamma"),
    [(AfterBonus, 1), (AfterBonus, 3), (AfterTwo, 1), (AfterTwo, 2), (HidesTheBonus, 1)],
)
def test_what_shows_after_a_bonus_alone_is_seen(rule, gamma):
    assert judged(rule, MODELS[f"plain, V=2, gamma={gamma}"]).deviates
    assert not judged(right, MODELS[f"plain, V=2, gamma={gamma}"]).failed


@pytest.mark.parametrize("tau", [0, 1, 2, 3])
@pytest.mark.thorough
def test_what_shows_after_one_way_to_end_alone_is_seen(tau):
    class After:
        def reset(self):
            self.last = None

        def step(self, prefix, target, draft, gamma, rng):
            tokens = right(prefix, target, draft, gamma, rng, wrong=self.last == tau)
            self.last = len(tokens) - 1
            return tokens

    assert judged(After, MODELS["plain, V=2, gamma=3"]).deviates
