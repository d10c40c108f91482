"""Every fault's law is wrong, by as much as the catalogue says, and wrong in the way it says."""

import math

import numpy as np
import pytest
from faults.closed_forms import (
    naive_block_law,
    ratio,
    residual,
    shared_noise,
    slices_above,
    slot_by_slot,
)
from faults.laws import (
    GAMMA,
    MODEL,
    accepted_tokens,
    by_paths,
    completed,
    deviation,
    fits,
    law_of_generation,
    law_of_step,
    law_of_verify,
    sampled,
)

from simverify.faults import COMPACT_TV, FAULTS, get_fault
from simverify.faults.calls import RepeatedStream
from simverify.verifiers import get_verifier

CALLS = 20_000
NOT_BY_PATHS = {
    "naive-block": naive_block_law,
    "shared-noise": slot_by_slot(ratio, shared_noise),
}
RATE_STAYS_RIGHT = [
    "residual-row-zero",
    "wrong-bonus-row",
    "one-hot-residual",
    "softmax-residual",
    "target-residual",
    "reused-uniform",
    "shared-noise",
]


def law_of(fault):
    if fault.name in NOT_BY_PATHS:
        return law_of_verify(NOT_BY_PATHS[fault.name])
    if fault.contract == "verify":
        return law_of_verify(by_paths(fault.rule))
    if isinstance(fault.rule, type):
        return law_of_generation(fault.rule, GAMMA + 1)
    return law_of_step(fault.rule)


@pytest.mark.parametrize("name", COMPACT_TV)
def test_the_law_is_off_by_what_the_catalogue_says(name):
    tv = deviation(law_of(FAULTS[name]))
    assert tv == pytest.approx(COMPACT_TV[name], abs=5e-7)
    assert (tv > 1e-5) == (FAULTS[name].caught_by != "probe")


@pytest.mark.parametrize("name", ["seeded-per-call", "seeded-per-request"])
def test_a_constant_seed_leaves_no_chance(name):
    law = law_of(get_fault(name))
    assert deviation(law) > 0.5
    # Nothing but the draft's tokens is left to chance, where the draft is given.
    assert name == "seeded-per-call" or len(law) == 1


@pytest.mark.parametrize("name", ["token", "block", "match"])
def test_a_correct_rule_is_not_off_by_the_same_route(name):
    assert deviation(law_of_verify(by_paths(get_verifier(name).rule))) < 1e-12


def test_a_stream_that_is_not_repeated_is_right():
    class Fresh(RepeatedStream):
        def step(self, *args):
            self.reset()
            return super().step(*args)

    assert deviation(law_of_generation(Fresh, GAMMA + 1)) < 1e-12


def scaled(p, q, x):
    return min(1.0, 1.1 * p[x] / q[x])


def second_chance(p, q, x):
    return ratio(p, q, x) + (1 - ratio(p, q, x)) * p[x]


def eased(p, q, x):
    return min(1.0, p[x] / q[x] + 0.1 * (1 - max(p)))


def relaxed(p, q, x):
    more_likely = sum(p > p[x]) + sum(p[:x] == p[x])
    return float(more_likely < 2 and p[x] + 0.25 >= max(p))


def forced(p, q, x):
    return 1.0 if sum(p > p[x]) + sum(p[:x] == p[x]) < 2 else ratio(p, q, x)


def one_hot_residual(p, q, x):
    return np.where(np.arange(len(p)) == x, np.maximum(p - q, 0), p)


CLOSED_FORMS = {
    "reused-uniform": slot_by_slot(ratio, slices_above),
    "target-residual": slot_by_slot(ratio, lambda p, q, x: p),
    "softmax-residual": slot_by_slot(ratio, lambda p, q, x: np.exp(residual(p, q, x))),
    "one-hot-residual": slot_by_slot(ratio, one_hot_residual),
    "inverted-ratio": slot_by_slot(lambda p, q, x: min(1.0, q[x] / p[x]), residual),
    "scaled-acceptance(1.1)": slot_by_slot(scaled, residual),
    "double-chance": slot_by_slot(second_chance, residual),
    "lenient(0.9)": slot_by_slot(lambda p, q, x: min(1.0, p[x] / q[x] / 0.9), residual),
    "entropy-scaled(0.1)": slot_by_slot(eased, residual),
    "relaxed-acceptance(2,0.25)": slot_by_slot(relaxed, lambda p, q, x: np.eye(len(p))[p.argmax()]),
    "forced-top(2)": slot_by_slot(forced, residual),
    "draft-leak(0.01)": slot_by_slot(lambda p, q, x: 0.01 + 0.99 * ratio(p, q, x), residual),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_the_rule_does_what_its_description_says(name):
    law, expected = law_of(FAULTS[name]), law_of_verify(CLOSED_FORMS[name])
    assert set(law) >= {tokens for tokens, weight in expected.items() if weight > 1e-12}
    assert max(abs(law[tokens] - expected[tokens]) for tokens in law) < 1e-12


def test_another_closed_form_does_not_fit():
    law, expected = law_of(FAULTS["reused-uniform"]), law_of_verify(slot_by_slot(ratio, residual))
    assert max(abs(law[tokens] - expected[tokens]) for tokens in law) > 1e-3


@pytest.mark.distribution
@pytest.mark.parametrize("name", NOT_BY_PATHS)
def test_a_law_in_closed_form_is_the_rules_own(name):
    fault = FAULTS[name]
    counts = sampled(fault.contract, fault.rule, CALLS, np.random.default_rng())
    assert fits(counts, law_of(fault))
    assert not fits(counts, law_of_verify(by_paths(get_verifier("token").rule)))


@pytest.mark.parametrize("name", RATE_STAYS_RIGHT)
def test_the_acceptance_rate_shows_nothing(name):
    """379/216 is the token rule's E[tau] on the compact model at gamma 3."""
    assert accepted_tokens(law_of(FAULTS[name])) == pytest.approx(379 / 216, abs=1e-9)


@pytest.mark.parametrize("name", ["one-uniform", "lenient(0.9)", "double-chance"])
def test_an_acceptance_fault_accepts_more(name):
    assert accepted_tokens(law_of(FAULTS[name])) > 379 / 216 + 0.01


@pytest.mark.parametrize("bound", [0.5, 0.8, 0.95])
def test_lenience_lies_on_the_lossy_frontier(bound):
    """TV of the first token is sum min(q, p/b) - sum min(q, p)."""
    p, q = MODEL.target(()), MODEL.draft(())
    law = law_of(get_fault(f"lenient({bound})"))
    first = completed(law).sum(axis=(1, 2, 3))
    due = np.minimum(q, p / bound).sum() - np.minimum(q, p).sum()
    assert np.abs(first - p).sum() / 2 == pytest.approx(due, abs=1e-12)
    assert due > 0


def test_a_leak_mixes_the_draft_in():
    p, q = MODEL.target(()), MODEL.draft(())
    first = completed(law_of(get_fault("draft-leak(0.2)"))).sum(axis=(1, 2, 3))
    assert first == pytest.approx(0.8 * p + 0.2 * q, abs=1e-12)


def test_row_zero_is_invisible_at_position_zero():
    first = completed(law_of(FAULTS["residual-row-zero"])).sum(axis=(1, 2, 3))
    assert first == pytest.approx(MODEL.target(()), abs=1e-12)


class FixedCoins:
    """A generator whose uniforms are all ``u`` and that picks the likeliest outcome."""

    def __init__(self, u):
        self.u = u

    def random(self):
        return self.u

    def choice(self, n, p):
        return int(np.argmax(p))


@pytest.mark.parametrize(
    ("u", "q", "emitted"),
    [
        (0.0, [0.5, 0.5, 0.0], [1, 2]),
        (2.0**-53, [0.5, 0.5, 0.0], [0]),
        (0.5, [1.0, 0.0, 0.0], [1, 2]),
    ],
    ids=["u = 0", "the next uniform", "0/0"],
)
def test_zero_mass_is_accepted_at_the_edge_only(u, q, emitted):
    target = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    block = target, np.array([q]), np.array([1])
    assert FAULTS["zero-mass-accept"].rule(*block, FixedCoins(u)) == emitted
    if q[1] > 0:
        assert get_verifier("token").rule(*block, FixedCoins(u)) == [0]


def test_every_fault_runs_on_numpys_generator_and_returns_plain_tokens():
    for fault in (f for f in FAULTS.values() if f.batch is None and f.scheme is None):
        rule = fault.rule().step if isinstance(fault.rule, type) else fault.rule
        counts = sampled(fault.contract, rule, 200, np.random.default_rng())
        for tokens in counts:
            assert 1 <= len(tokens) <= GAMMA + 1
            assert all(type(x) is int and 0 <= x < MODEL.vocab_size for x in tokens)
    assert math.isclose(sum(counts.values()), 200)
