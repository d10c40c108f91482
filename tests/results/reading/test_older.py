"""Run files that were saved before findings had kinds."""

import json

import pytest
from msgspec.structs import replace
from support.audit_runs import FAILED, STARVED, finding

from simverify.errors import UsageError
from simverify.results import Probe
from simverify.results.reading.document import document_text, read_audit

PROBES = (
    Probe(name="u = 0", outcome="violation", message="raised KeyError"),
    Probe(name="zero rows", outcome="warning", message="emitted token 2", failed=True),
    Probe(name="p = q", outcome="warning", message="drew nothing"),
)
TOLD = (
    finding("probe", "probe u = 0: raised KeyError"),
    finding("probe", "probe zero rows: emitted token 2"),
)
TESTS = (finding("tests", "G2: p = 1e-30"), finding("tests", "PIT: p = 1e-20"))
TIER = replace(STARVED.sampled, findings=TESTS)

RUNS = {
    "the law": replace(FAILED, findings=(finding("other", "the exact law on found differs"),)),
    "probes and more": replace(
        FAILED, probes=PROBES, findings=(*TOLD, finding("other", "too-many: 9 tokens"))
    ),
    "the sampled tier": replace(
        STARVED, verdict="FAIL", inconclusive=None, probes=PROBES, sampled=TIER,
        findings=(*TOLD, *TESTS),
    ),
}  # fmt: skip


def saved(run, path):
    """Write ``run`` as it was written when findings were texts."""
    plain = json.loads(document_text(run))
    for part in filter(None, (plain, plain["sampled"])):
        part["findings"] = [found["text"] for found in part["findings"]]
    path.write_text(json.dumps(plain))
    return path


@pytest.mark.parametrize("name", RUNS)
def test_findings_get_the_kinds_that_can_be_told(name, tmp_path):
    assert read_audit(saved(RUNS[name], tmp_path / "run.json")) == RUNS[name]


@pytest.mark.parametrize(
    "change", [{"findings": "broke"}, {"findings": [7]}, {"probes": 3}, {"sampled": []}]
)
def test_what_is_broken_otherwise_is_refused(change, tmp_path):
    plain = json.loads(saved(RUNS["the law"], tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(plain | change))
    with pytest.raises(UsageError, match="is not a result document of this version: Expected"):
        read_audit(tmp_path / "run.json")
