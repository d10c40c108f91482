"""Engines that judge a batch are handed one: faults that no request by itself shows."""

import pytest
from support.batched_doubles import V1, V1_FAULTS
from support.engine_doubles import checkout, largest_deviation

from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import load_subject
from simverify.errors import UsageError

torch = pytest.importorskip("torch")


def judged(folder, text, kinds, name="aphrodite", **options):
    subject = load_subject(name, engine_path=str(checkout(folder, name, text)))
    sizes = {"gamma": 1, "vocab_size": 3, "max_samples": 4000, "seconds": 60.0}
    return audit(subject, None, AuditSettings(company=kinds, **sizes | options))


def test_a_right_batch_passes_in_the_company_that_its_adapter_knows(tmp_path):
    run = judged(tmp_path, V1, "ragged,mixed,one-hot")
    assert (run.verdict, run.tier, run.company) == ("PASS", "exact", "ragged,one-hot,mixed")


@pytest.mark.parametrize("kind", V1_FAULTS)
def test_a_fault_that_only_a_batch_shows_is_found_in_its_company(tmp_path, kind):
    right, wrong = V1_FAULTS[kind]
    assert V1.count(right) == 1
    text = V1.replace(right, wrong)
    if kind != "one-hot":  # drafts without probabilities are no matter of the batch
        assert largest_deviation("aphrodite", checkout(tmp_path, "aphrodite", text), 1) < 1e-6
    assert judged(tmp_path, text, kind).verdict == "FAIL"


def test_another_kind_than_the_adapter_knows_is_refused(tmp_path):
    with pytest.raises(UsageError, match="aphrodite takes no requests of the kind unmasked"):
        judged(tmp_path, V1, "unmasked")
