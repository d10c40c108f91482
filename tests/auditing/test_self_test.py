from types import SimpleNamespace

import pytest

from simverify.auditing import self_test as module
from simverify.auditing.self_test import self_test
from simverify.auditing.settings import AuditSettings
from simverify.faults import CONTROLS, FAULTS
from simverify.results import Tried

SMALLER = AuditSettings(gamma=2, vocab=3)
"""Two drafts and three tokens at most: every fault shows on them. The other slow test is of the
defaults, four and four."""


@pytest.fixture
def some(monkeypatch):
    """Every seventh entry alone is tried, and a fault of whole batches; the faults' names."""
    known = list(module._entries())
    entries = [*known[::7], next(entry for entry in known if entry.subject.batch)]
    monkeypatch.setattr(module, "_entries", lambda: iter(entries))
    return {entry.subject.name for entry in entries if entry.kind == "fault"}


@pytest.mark.thorough
def test_some_faults_are_caught_and_some_controls_pass(some):
    run = self_test(SMALLER)
    assert (run.verdict, run.unexpected) == ("PASS", ())
    assert {entry.name for entry in run.results if entry.caught} == some
    assert {entry.kind for entry in run.results} == {"fault", "control"}
    assert {entry.tier for entry in run.results} >= {"exact", "sampled"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [SMALLER, AuditSettings()], ids=["smaller instances", "as it comes"]
)
def test_every_fault_is_caught_and_every_control_passes(settings):
    run = self_test(settings)
    assert (run.verdict, run.unexpected) == ("PASS", ())
    tried = run.results
    names = {entry.name for entry in tried}
    assert set(FAULTS) <= names
    assert set(CONTROLS) <= names
    # What the enumerator can follow is caught exactly.
    sampled = {entry.name for entry in tried if entry.tier == "sampled"}
    batches = {name for name, fault in FAULTS.items() if fault.batch}
    assert sampled == batches


def test_a_blind_audit_is_seen(monkeypatch, some):
    """Negative control: an audit that never fails anything misses the faults."""

    class Blind:
        failure = not_enumerable = None
        paths = 0

    class Deaf:
        verdict = "PASS"
        tier = SimpleNamespace(samples=0)

    monkeypatch.setattr(module, "examine", lambda *_, **__: Blind())
    monkeypatch.setattr(module, "sample_callable", lambda *_, **__: Deaf())
    run = self_test(SMALLER)
    assert run.verdict == "FAIL"
    assert set(run.unexpected) >= some & set(FAULTS) - {"zero-mass-accept"}


def test_what_is_expected():
    def as_expected(kind, caught):
        entry = Tried(name="a", kind=kind, caught=caught, tier="exact", effort=1, tv=None)
        return entry.as_expected

    assert as_expected("fault", True)
    assert not as_expected("fault", False)
    assert as_expected("control", False)
    assert not as_expected("control", True)
