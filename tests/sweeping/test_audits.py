"""Audits in a sweep: each a shard, each with its own verdict."""

import json
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import nullcontext

import msgspec
import pytest

import simverify
from simverify.errors import UsageError
from simverify.surveying.table import AuditOutcome, AuditProcesses
from simverify.sweeping import run as running
from simverify.sweeping.run import run_sweep, status_lines
from simverify.sweeping.spec import SweepSpec, current_versions
from simverify.sweeping.store import SweepFolder
from simverify.sweeping.tasks import AuditTask, CellState, CountTask, perform_load
from simverify.sweeping.workers import WorkerPool

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
            return AuditOutcome("not loaded", None, f"{words[0]} is not there", 4, 0.1)
        return AuditOutcome("judged", run, run.inconclusive or "", 0, 0.1)

    folder = tmp_path_factory.mktemp("audits")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AuditProcesses, "audit", audit)
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
    whole = simverify.load(SweepFolder(folder / "out").audit_file(0))
    assert whole.findings == run.audits[0].findings
    assert status_lines(folder / "out")[:2] == ["shards: 3 of 3 done", "audits: 3 of 3 ended"]


def test_each_has_its_own_verdict(swept):
    check(swept)


@pytest.mark.slow
def test_each_has_its_own_verdict_in_a_process_of_its_own(tmp_path):
    swept_in(tmp_path)
    check(tmp_path)


def test_a_damaged_one_is_run_again(swept):
    out = swept / "out"
    before = (out / "sweep.json").read_bytes()
    file = SweepFolder(out).cell_file(1)
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    assert "damaged records: 1, which the next run does again" in status_lines(out)
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
    spec = SweepSpec(audits=(*(f"{name}:verify" for name in names), "token"))
    for name, file in zip(names, files, strict=True):
        before = spec.files()
        file.write_text(LOSSY)
        after = spec.files()
        assert list(before) == list(after) == names
        assert [key for key in names if before[key] != after[key]] == [name]
    asked = {"audits": ["some_rules:verify"], "audit_gamma": 1, "executor": "threads"}
    with pytest.MonkeyPatch.context() as patch:
        audited = AuditOutcome("not loaded", None, "nothing", 4, 0.1)
        patch.setattr(AuditProcesses, "audit", lambda *_: audited)
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
        AuditProcesses, "audit", lambda *_: AuditOutcome("not loaded", None, "it is empty", 4, 0.1)
    )
    made = []

    def make():
        made.append(Breaks(3 if len(made) < running.DEATHS_BEFORE_ISOLATION else 1))
        return made[-1]

    monkeypatch.setattr(running, "open_workers", lambda *_: nullcontext(WorkerPool(make, 1)))
    said = []
    run = simverify.sweep(
        audits=[f"{tmp_path}/{name}.py:verify" for name in ("good", "other", "kills")],
        out=tmp_path / "out", progress=said.append,
    )  # fmt: skip
    assert len(made) == running.MAX_TRIES + 1
    assert len([line for line in said if "a worker died" in line]) == running.MAX_TRIES
    assert [audit.state for audit in run.audits] == ["not loaded", "not loaded", "crashed"]
    assert run.audits[2].reason == "its worker died 4 times, of it alone"


# Every worker reads the file that the sweep began with, or says that it has another.


SPEC = SweepSpec(models=("own.json",), verifiers=("block",), gamma=(1,), blocks=100)


def write(folder, first):
    side = {"start": [first, 1 - first], "rows": [[0.5, 0.5], [1, 0]]}
    (folder / "own.json").write_text(json.dumps({"name": "own", "target": side, "draft": side}))


@pytest.fixture
def began(tmp_path, monkeypatch):
    """A folder with a model, which is the working folder, and the hash of the model."""
    write(tmp_path, 0.5)
    monkeypatch.chdir(tmp_path)
    return SPEC.files()["own.json"]


def count(file):
    (cell,) = SPEC.cells()
    return (CountTask(cell, "run", (0, 1), 0, 100, current_versions(), file),)


def test_a_worker_with_the_same_file_counts(began):
    ((payload, _),) = perform_load(count(began))
    assert payload


def test_a_worker_with_another_file_by_that_name_refuses(began, tmp_path, monkeypatch):
    (tmp_path / "worker").mkdir()
    monkeypatch.chdir(tmp_path / "worker")
    with pytest.raises(UsageError, match=r"own\.json: .* a worker has none that can be read: give"):
        perform_load(count(began))
    write(tmp_path / "worker", 0.25)
    with pytest.raises(UsageError, match=r"own\.json: the sweep began .* a worker has one with SH"):
        perform_load(count(began))


def test_an_audit_is_of_the_file_that_was_named(began, tmp_path):
    (tmp_path / "own.py").write_text("def verify(): pass")
    spec = SweepSpec(audits=("own.py:verify",))
    (cell,) = spec.audit_cells()
    file = spec.files()["own.py"]
    (tmp_path / "own.py").write_text("def verify(): ...")
    with pytest.raises(UsageError, match=r"own\.py: the sweep began with a file"):
        perform_load((AuditTask(cell, 60.0, current_versions(), file),))


def test_a_file_that_changes_in_the_middle_ends_the_sweep(began, tmp_path, monkeypatch):
    counted = []

    def changing(load):
        write(tmp_path, 0.25)
        counted.append(load)
        return perform_load(load)

    monkeypatch.setattr("simverify.sweeping.workers.perform_load", changing)
    with pytest.raises(UsageError, match=r"own\.json: the sweep began with a file"):
        run_sweep(SPEC, tmp_path / "sweep", executor="threads", workers=1)
    assert counted
    assert not (tmp_path / "sweep" / "sweep.json").exists()


# What a cell's file holds: records that are added up when they are many, or large, or stay.


@pytest.mark.parametrize(
    ("limit", "most", "judged"),
    [
        ("MAX_LOOSE_RECORDS", 2, {False, True}),
        ("MAX_LOOSE_BYTES", 1, {False}),
        ("MAX_UNCOMPRESSED_BYTES", 1, {True}),
    ],
)
def test_many_shards_and_large_ones_are_folded(
    spec, ends_as_expected, tmp_path, monkeypatch, limit, most, judged
):
    """Before a cell is judged where its counts are many, and after it where they stay."""
    folds = []
    mend = CellState.mend

    def counted(state):
        folds.append(state.result is not None)
        mend(state)

    monkeypatch.setattr(CellState, "mend", counted)
    monkeypatch.setattr(f"simverify.sweeping.tasks.{limit}", most)
    ends_as_expected(tmp_path / "sweep")
    assert set(folds) == judged


def test_what_stays_of_large_counts_is_compressed(spec, tmp_path, monkeypatch):
    sizes = []
    spec = msgspec.structs.replace(spec, shard=spec.blocks)  # one record, which is not folded
    for most in (1 << 40, 1):
        monkeypatch.setattr("simverify.sweeping.tasks.MAX_UNCOMPRESSED_BYTES", most)
        out = tmp_path / str(most)
        run_sweep(spec, out, executor="threads", workers=1)
        cells = spec.cells()
        sizes.append(sum(SweepFolder(out).cell_file(cell.index).stat().st_size for cell in cells))
    assert sizes[1] < sizes[0]
