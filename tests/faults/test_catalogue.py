"""Names, parameters and references of the catalogue."""

import dataclasses

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

from simverify.errors import UsageError
from simverify.faults import COMPACT_TV, CONTROLS, FAULTS, get_control, get_fault
from simverify.trees import SCHEMES
from simverify.verifiers import get_verifier, token

SEEN = [
    "reused-uniform",
    "residual-row-zero",
    "one-hot-residual",
    "softmax-residual",
    "target-residual",
    "count-all-accepts",
    "naive-block",
    "naive-block-stealth",
    "greedy-no-state",
    "seeded-per-call",
    "double-chance",
    "openvino-draft",
    "lenient(0.9)",
    "typical-acceptance",
    "relaxed-acceptance(2,0.25)",
    "entropy-scaled(0.1)",
    "zero-mass-accept",
    "argmax-draft-soft-q",
    "truncated-draft-soft-q",
    "rounded-q",
    "one-sided-penalty",
    "draft-temperature(0.9)",
    "target-temperature(0.9)",
    "ragged-offset",
    "swapped-requests",
    "shared-noise",
    "draft-uniform-as-coin",
    "repeated-stream",
    "shared-request-uniforms",
    "seeded-per-request",
    "stale-sibling-q",
    "top-k-taken-as-sampled",
    "zero-id-as-padding",
    "row-by-depth",
    "rejected-row-residual",
    "best-of-several-ways",
    "traversal-ratio-weight",
    "uncapped-hierarchical",
    "raw-row-report",
    "argmax-soft-report",
    "bfloat16-report",
    "truncated-soft-report",
    "stop-at-unlikely-token",
]


def test_every_fault_seen_in_an_engine_is_there_with_its_reference():
    assert set(SEEN) <= set(FAULTS)
    assert all(FAULTS[name].seen_in not in ("", "synthetic") for name in SEEN)
    assert get_fault("argmax-draft-soft-q").contract == "step"
    assert get_fault("greedy-no-state").contract == "step"
    assert get_fault("stale-sibling-q").contract == "tree"
    assert get_fault("raw-row-report").contract == "draft"


def test_keys_are_names_and_every_fixed_law_has_its_deviation():
    for entries in (FAULTS, CONTROLS):
        assert all(entry.name == name for name, entry in entries.items())
    seeded = {"seeded-per-call", "seeded-per-request"}
    batched = {name for name, fault in FAULTS.items() if fault.batch}
    trees = {name for name, fault in FAULTS.items() if fault.scheme is not None}
    assert set(COMPACT_TV) == set(FAULTS) - seeded - batched - trees
    assert not set(FAULTS) & set(CONTROLS)


def test_what_is_not_left_to_the_exact_tier():
    others = [f for f in FAULTS.values() if (f.caught_by, f.severity) != ("exact", "violation")]
    assert {(f.name, f.caught_by, f.severity) for f in others} == {
        ("zero-mass-accept", "probe", "warning"),
        ("ragged-offset", "sampled", "violation"),
        ("swapped-requests", "sampled", "violation"),
        ("shared-request-uniforms", "sampled", "violation"),
    }
    assert {f.name for f in others if f.batch} == {f.name for f in FAULTS.values() if f.batch}


def test_faults_of_trees_and_drafters_and_no_others_name_a_scheme():
    for fault in FAULTS.values():
        assert (fault.scheme in SCHEMES) == (fault.contract in ("tree", "draft"))
        assert fault.scheme is None or (fault.caught_by, fault.batch) == ("exact", None)
    assert {fault.scheme for fault in FAULTS.values()} == {None, *SCHEMES}


def test_entries_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        get_fault("naive-block").name = "other"


def test_a_parameter_is_read_from_the_name():
    fault = get_fault("lenient(0.7)")
    assert fault.name == "lenient(0.7)"
    assert get_fault("lenient(.7)").name == "lenient(0.7)"
    assert "0.7" in fault.summary


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("reused-uniforms", "did you mean 'reused-uniform'"),
        ("lenient", r"did you mean 'lenient\(0.9\)'"),
        ("lenyent(0.9)", "did you mean 'lenient'"),
        ("lenient(soft)", r"'soft' is no number"),
        ("lenient(nan)", "between 0 and 1"),
        ("lenient(1)", "between 0 and 1"),
        ("draft-leak(0)", r"\(0, 1\]"),
        ("scaled-acceptance(1)", "other than 1"),
        ("draft-temperature(-1)", "positive temperature"),
        ("draft-temperature(inf)", "positive temperature"),
        ("target-temperature(0)", "positive temperature"),
        ("floored-residual(0)", "between 0 and 1"),
        ("top-k-residual(0)", "whole number"),
        ("top-k-residual(1.5)", "whole number"),
        ("top-k-residual(nan)", "whole number"),
        ("top-k-residual(inf)", "whole number"),
        ("forced-top(0)", "whole number"),
        ("forced-top(nan)", "whole number"),
        ("forced-top(2,3)", "got 2 numbers, expected 1"),
        ("relaxed-acceptance(2)", "got 1 numbers, expected 2"),
        ("relaxed-acceptance(2,some)", "'some' is no number"),
        ("relaxed-acceptance(1.5,0.1)", "whole number"),
        ("relaxed-acceptance(2,1)", "0 or more and below 1"),
        ("relaxed-acceptance(2,nan)", "0 or more and below 1"),
        ("entropy-scaled(0)", r"\(0, 1\]"),
    ],
)
def test_a_bad_name_says_what_to_write(name, hint):
    with pytest.raises(UsageError, match=hint):
        get_fault(name)


def test_a_bad_control_name_says_what_to_write():
    assert get_control("hotter-draft").contract == "step"
    with pytest.raises(UsageError, match="did you mean 'hotter-draft'"):
        get_control("hoter-draft")


# Every control's law is the target's: exactly where its draws allow, else by counts.


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
