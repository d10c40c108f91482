"""Audits in a sweep: each a shard, each with its own verdict."""

from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import nullcontext

import pytest

import simverify
from simverify.surveying.audited import Audited, Processes
from simverify.sweeping import run as running
from simverify.sweeping.folder import Folder
from simverify.sweeping.spec import Spec
from simverify.sweeping.status import status
from simverify.sweeping.workers import Pool

LOSSY = (
    "def verify(target_probs, draft_probs, draft_tokens, rng):\n"
    "    return [int(rng.choice(len(target_probs[0]), p=draft_probs[0]))]\n"
)


def asked(folder):
    """What is audited: a lossy rule, a right one, and a file without what is named."""
    specs = [f"{folder}/rule.py:verify", "token", f"{folder}/none.py:verify"]
    return {"audits": specs, "audit_gamma": 1, "executor": "threads", "out": folder / "out"}


def swept_in(folder):
    (folder / "rule.py").write_text(LOSSY)
    (folder / "none.py").write_text("")
    return simverify.sweep(**asked(folder))


@pytest.fixture(scope="module")
def swept(tmp_path_factory, unsearched_module):
    """A folder with a sweep whose audits are answered at once, where processes would be."""
    names = {}
    exec(LOSSY, names)
    runs = {
        "rule.py:verify": simverify.audit(names["verify"], gamma=1, vocab=2),
        "token": simverify.audit("token", gamma=1, vocab=2),
    }

    def audit(_self, words, limit):
        assert words[1:] == ["--seed", "0", "--gamma", "1"]
        assert limit > 0
        run = runs.get(words[0].rpartition("/")[2])
        if run is None:
            return Audited("not loaded", None, f"{words[0]} is not there", 4, 0.1)
        return Audited("judged", run, run.inconclusive or "", 0, 0.1)

    folder = tmp_path_factory.mktemp("audits")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Processes, "audit", audit)
        swept_in(folder)
        yield folder


def check(folder):
    run = simverify.load(folder / "out" / "sweep.json")
    assert [audit.verdict for audit in run.audits] == ["FAIL", "PASS", None]
    assert run.audits[0].findings
    assert "run.json" not in run.audits[0].reproduce  # of a folder that is gone
    assert run.audits[1].tier == "exact"
    assert run.audits[2].state == "not loaded"
    assert "none.py" in run.audits[2].reason
    assert (run.verdict, run.cells, run.alpha_each) == ("FAIL", (), None)
    assert max(map(len, str(run).splitlines())) <= 80
    whole = simverify.load(Folder(folder / "out").audit_file(0))
    assert whole.findings == run.audits[0].findings
    assert status(folder / "out")[:2] == ["shards: 3 of 3 done", "audits: 3 of 3 ended"]


def test_each_has_its_own_verdict(swept):
    check(swept)


@pytest.mark.slow
def test_each_has_its_own_verdict_in_a_process_of_its_own(tmp_path):
    swept_in(tmp_path)
    check(tmp_path)


def test_a_damaged_one_is_run_again(swept):
    out = swept / "out"
    before = (out / "sweep.json").read_bytes()
    file = Folder(out).cell_file(1)
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    assert "damaged records: 1, which the next run does again" in status(out)
    said = []
    simverify.sweep(**asked(swept), progress=said.append)
    assert len([line for line in said if "done again" in line]) == 1
    assert (out / "sweep.json").read_bytes() == before


def test_a_file_that_changed_is_another_sweep(swept):
    (swept / "rule.py").write_text(LOSSY + "# edited\n")
    try:
        with pytest.raises(simverify.UsageError, match=r"rule.py has changed since it was begun"):
            simverify.sweep(**asked(swept))
    finally:
        (swept / "rule.py").write_text(LOSSY)  # as the other tests find it


def test_a_module_that_changed_is_another_sweep(tmp_path, monkeypatch):
    """It was named by no path, and its old verdict stood for whatever it had become."""
    package = tmp_path / "some_rules"
    (package / "inner").mkdir(parents=True)
    files = [package / "__init__.py", package / "rule.py", package / "inner" / "__init__.py"]
    for file in files:
        file.write_text("raise SystemExit  # nothing is imported to find it\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = ["some_rules", "some_rules.rule", "some_rules.inner"]
    spec = Spec(audits=(*(f"{name}:verify" for name in names), "token"))
    for name, file in zip(names, files, strict=True):
        before = spec.files()
        file.write_text(LOSSY)
        after = spec.files()
        assert list(before) == list(after) == names
        assert [key for key in names if before[key] != after[key]] == [name]
    asked = {"audits": ["some_rules:verify"], "audit_gamma": 1, "executor": "threads"}
    with pytest.MonkeyPatch.context() as patch:
        audited = Audited("not loaded", None, "nothing", 4, 0.1)
        patch.setattr(Processes, "audit", lambda *_: audited)
        simverify.sweep(**asked, out=tmp_path / "out")
    files[0].write_text(LOSSY + "# edited\n")
    with pytest.raises(simverify.UsageError, match=r"some_rules has changed since it was begun"):
        simverify.sweep(**asked, out=tmp_path / "out")


class Breaks(Executor):
    """Ends so many loads together; whatever is out with a killer goes with the workers."""

    def __init__(self, together):
        self.together, self.out = together, []

    def submit(self, function, load):
        future = Future()
        self.out.append((future, function, load))
        add = future.add_done_callback

        def waited(callback):
            add(callback)
            if len(self.out) == self.together:
                self.end()

        future.add_done_callback = waited
        return future

    def end(self):
        broken = any("kills" in task.cell.name for _, _, load in self.out for task in load)
        waiting, self.out = self.out, []
        for future, function, load in waiting:
            if broken:
                future.set_exception(BrokenExecutor())
            else:
                future.set_result(function(load))


def test_an_audit_that_its_workers_die_of_is_a_line(tmp_path, monkeypatch):
    """It ended the sweep, and what was out with it was as likely to be blamed."""
    for name in ("good", "kills", "other"):
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.setattr(
        Processes, "audit", lambda *_: Audited("not loaded", None, "it is empty", 4, 0.1)
    )
    made = []

    def make():
        made.append(Breaks(3 if len(made) < running.ALONE else 1))
        return made[-1]

    monkeypatch.setattr(running, "workers_of", lambda *_: nullcontext(Pool(make, 1)))
    said = []
    run = simverify.sweep(
        audits=[f"{tmp_path}/{name}.py:verify" for name in ("good", "other", "kills")],
        out=tmp_path / "out", progress=said.append,
    )  # fmt: skip
    assert len(made) == running.TRIES + 1
    assert len([line for line in said if "a worker died" in line]) == running.TRIES
    assert [audit.state for audit in run.audits] == ["not loaded", "not loaded", "crashed"]
    assert run.audits[2].reason == "its worker died 4 times, of it alone"
