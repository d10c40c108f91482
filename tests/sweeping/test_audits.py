"""Audits in a sweep: each a shard, each with its own verdict."""

import pytest

import simverify
from simverify.sweeping.folder import Folder
from simverify.sweeping.status import status

LOSSY = (
    "def verify(target_probs, draft_probs, draft_tokens, rng):\n"
    "    return [int(rng.choice(len(target_probs[0]), p=draft_probs[0]))]\n"
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A folder with a sweep of three audits, one of a file that is not there."""
    folder = tmp_path_factory.mktemp("audits")
    (folder / "rule.py").write_text(LOSSY)
    audits = [f"{folder}/rule.py:verify", "token", f"{folder}/none.py:verify"]
    simverify.sweep(out=folder / "out", audits=audits, audit_gamma=1, executor="threads")
    return folder


def test_each_has_its_own_verdict(swept):
    run = simverify.load(swept / "out" / "sweep.json")
    assert [audit.verdict for audit in run.audits] == ["FAIL", "PASS", None]
    assert run.audits[0].findings
    assert run.audits[1].tier == "exact"
    assert run.audits[2].state == "not loaded"
    assert "none.py" in run.audits[2].reason
    assert (run.verdict, run.cells, run.alpha_each) == ("FAIL", (), None)
    assert max(map(len, str(run).splitlines())) <= 80
    whole = simverify.load(Folder(swept / "out").audit_file(0))
    assert whole.findings == run.audits[0].findings
    assert status(swept / "out")[:2] == ["shards: 3 of 3 done", "audits: 3 of 3 ended"]


def test_a_damaged_one_is_run_again(swept):
    out = swept / "out"
    before = (out / "sweep.json").read_bytes()
    file = Folder(out).cell_file(1)
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    assert "damaged records: 1, which the next run does again" in status(out)
    said = []
    audits = [f"{swept}/rule.py:verify", "token", f"{swept}/none.py:verify"]
    simverify.sweep(out=out, audits=audits, audit_gamma=1, executor="threads", progress=said.append)
    assert len(said) == 1
    assert "done again" in said[0]
    assert (out / "sweep.json").read_bytes() == before


def test_a_file_that_changed_is_another_sweep(swept):
    (swept / "rule.py").write_text(LOSSY + "# edited\n")
    with pytest.raises(simverify.UsageError, match=r"rule.py has changed since it was begun"):
        simverify.sweep(
            out=swept / "out",
            audits=[f"{swept}/rule.py:verify", "token", f"{swept}/none.py:verify"],
            audit_gamma=1,
        )
