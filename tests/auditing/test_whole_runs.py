"""Whole audits, the search for a smaller counterexample included."""

from functools import cache

import msgspec
import pytest
from support.levels import at_night
from support.rules import scaled

from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject, load_subject
from simverify.models import get_model
from simverify.verifiers import VERIFIERS


@cache
def whole(name):
    """The audit of a built-in rule with the settings it has when none are given."""
    return audit(load_subject(name))


@pytest.mark.parametrize("name", at_night(["token", "block", "match"], but=["block"]))
@pytest.mark.thorough
def test_the_projects_rules_pass_on_the_whole_battery(name):
    result = whole(name)
    assert (result.verdict, result.tier, result.findings) == ("PASS", "exact", ())
    assert not any(probe.outcome in ("warning", "violation") for probe in result.probes)


@pytest.mark.usefixtures("unsearched")
@pytest.mark.thorough
def test_greedy_passes_under_the_step_contract():
    result = audit(load_subject("greedy"), settings=AuditSettings(gamma=2, vocab=3))
    assert (result.contract, result.verdict, result.tier) == ("step", "PASS", "exact")


@pytest.mark.slow
def test_greedy_passes_as_it_comes():
    """Four tokens, four drafts and the search; a page's step rule is searched in tests/docs."""
    result = audit(load_subject("greedy"))
    assert (result.contract, result.verdict, result.tier) == ("step", "PASS", "exact")


@pytest.mark.thorough
def test_a_fault_is_named_shown_and_placed():
    result = audit(load_subject("reused-uniform"))
    assert result.verdict == "FAIL"
    assert result.diagnosis[0].fault == "reused-uniform"
    assert result.diagnosis[0].distance < 1e-9
    assert result.localisation.stage == "residual"
    shown = result.counterexample
    assert (shown.instance.vocab_size, shown.instance.gamma) == (3, 1)
    assert all(isinstance(x, str) for x in shown.instance.target_probs[""])
    # The rows shown are rows that fail: the due probability follows from them.
    due = 1.0
    for i, t in enumerate(shown.sequence):
        row = shown.instance.target_probs[",".join(map(str, shown.sequence[:i]))]
        a, _, b = row[t].partition("/")
        due *= int(a) / int(b or 1)
    assert shown.probability_expected == pytest.approx(due, abs=1e-12)
    assert shown.probability_emitted != pytest.approx(due, abs=1e-6)


@pytest.mark.usefixtures("unsearched")
@pytest.mark.thorough
def test_the_first_counterexample_comes_at_once():
    # Paths, not seconds: the machine is not ours to time on.
    result = audit(load_subject("naive-block-stealth"))
    assert result.paths < 5_000


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_document():
    subject, settings = Subject("mine", scaled(1.1), None), AuditSettings(gamma=2, vocab=3)
    first, second = (
        msgspec.to_builtins(audit(subject, "verify", settings)) | {"meta": None} for _ in range(2)
    )
    assert first == second


@pytest.mark.thorough
def test_counts_of_accepted_tokens_are_the_rules_own():
    result = whole("block")
    tree = {i.name: i.expected_accepted for i in result.instances}
    assert tree["equal, V=2, one row"] == pytest.approx(1.0)
    assert VERIFIERS["block"].rule is load_subject("block").rule
    assert get_model("toy").vocab_size == 2
