from simverify.audit import self_test as module
from simverify.audit.self_test import Tried, self_test
from simverify.audit.settings import AuditSettings
from simverify.faults import CONTROLS, FAULTS


def test_every_fault_is_caught_and_every_control_passes():
    tried = list(self_test(AuditSettings()))
    assert not [entry.name for entry in tried if not entry.as_expected]
    names = {entry.name for entry in tried}
    assert set(FAULTS) <= names
    assert set(CONTROLS) <= names
    # What the enumerator can follow is caught exactly.
    sampled = {entry.name for entry in tried if entry.tier == "sampled"}
    batches = {name for name, fault in FAULTS.items() if fault.batch}
    assert sampled == {"shared-noise", "coupled-match"} | batches


def test_a_blind_audit_is_seen(monkeypatch):
    """Negative control: an audit that never fails anything misses the faults."""

    class Blind:
        failure = not_enumerable = None
        paths = 0

    monkeypatch.setattr(module, "examine", lambda *_, **__: Blind())
    missed = [entry for entry in self_test(AuditSettings()) if not entry.as_expected]
    assert {entry.name for entry in missed} >= set(FAULTS) - {"zero-mass-accept"}


def test_what_is_expected():
    assert Tried("a", "fault", True, "exact", 1, 0.1).as_expected
    assert not Tried("a", "fault", False, "exact", 1, None).as_expected
    assert not Tried("a", "control", True, "exact", 1, 0.1).as_expected
