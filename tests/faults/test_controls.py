"""Every control's law is the target's: exactly where its draws allow, else by counts."""

import numpy as np
import pytest
from faults.closed_forms import coupled_match_law, ratio, slices_above, slot_by_slot
from faults.laws import (
    GAMMA,
    MODEL,
    accepted_tokens,
    by_paths,
    deviation,
    fits,
    law_of_step,
    law_of_verify,
    sampled,
)

from simverify.faults import CONTROLS, FAULTS
from simverify.verifiers import get_verifier, token

CALLS = 20_000
BY_PATHS = ["sample-and-match", "one-hot-verification", "hotter-draft", "cut-context-draft"]


def law_by_paths(entry):
    if entry.contract == "verify":
        return law_of_verify(by_paths(entry.rule))
    return law_of_step(entry.rule)


def due_law(name):
    """Law of a call's tokens, itself proven lossless, that the control must follow."""
    if name == "coupled-match":
        return coupled_match_law(MODEL.target, MODEL.draft, GAMMA)
    rule = "block" if name == "past-a-rejection" else "token"
    return law_of_verify(by_paths(get_verifier(rule).rule))


@pytest.mark.parametrize("name", BY_PATHS)
def test_the_law_is_the_targets_exactly(name):
    assert deviation(law_by_paths(CONTROLS[name])) < 1e-12


def test_one_hot_verification_is_sample_and_match():
    laws = [law_by_paths(CONTROLS[name]) for name in ("one-hot-verification", "sample-and-match")]
    assert max(abs(laws[0][tokens] - laws[1][tokens]) for tokens in laws[0]) < 1e-12


def test_a_cut_context_is_the_last_token():
    """On the order-1 compact model the last token is all there is: nothing is lost."""
    laws = [law_by_paths(CONTROLS["cut-context-draft"]), law_of_verify(by_paths(token.verify))]
    assert max(abs(laws[0][tokens] - laws[1][tokens]) for tokens in laws[1]) < 1e-12
    rule, seen = CONTROLS["cut-context-draft"].rule, []

    def draft(context):
        seen.append(len(context))
        return MODEL.draft(context)

    rule((0, 1, 2), MODEL.target, draft, GAMMA, np.random.default_rng(1))
    assert set(seen) == {1}


def test_a_hotter_draft_without_its_true_q_is_wrong():
    assert deviation(law_by_paths(FAULTS["draft-temperature(0.9)"])) > 0.01


@pytest.mark.distribution
@pytest.mark.parametrize("name", [name for name in CONTROLS if name not in BY_PATHS])
@pytest.mark.thorough
def test_the_counts_fit_the_law(name):
    control, law = CONTROLS[name], due_law(name)
    assert deviation(law) < 1e-12
    counts = sampled(control.contract, control.rule, CALLS, np.random.default_rng())
    assert fits(counts, law)


@pytest.mark.distribution
@pytest.mark.parametrize("name", ["reused-uniform", "lenient(0.9)", "target-residual"])
def test_a_faults_counts_do_not_fit(name):
    fault = FAULTS[name]
    counts = sampled(fault.contract, fault.rule, CALLS, np.random.default_rng())
    assert not fits(counts, due_law("token-vectorised"))


@pytest.mark.distribution
def test_the_rejecting_uniform_must_be_rescaled():
    """The same rule without the rescaling is the fault, and each fits only its own law."""
    wrong = law_of_verify(slot_by_slot(ratio, slices_above))
    control = CONTROLS["rescaled-uniform"]
    counts = sampled(control.contract, control.rule, CALLS, np.random.default_rng())
    assert not fits(counts, wrong)


@pytest.mark.parametrize(("name", "due"), [("coupled-match", None), ("past-a-rejection", 139 / 72)])
def test_a_law_that_counts_are_held_against_is_a_law_of_its_own(name, due):
    """139/72 is block verification's E[tau] on the compact model at gamma 3, 379/216 token's."""
    rate = accepted_tokens(due_law(name))
    if due is None:
        assert abs(rate - 379 / 216) > 0.01
    else:
        assert rate == pytest.approx(due, abs=1e-12)
