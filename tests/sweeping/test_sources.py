"""Every worker reads the file that the sweep began with, or says that it has another."""

import json

import pytest

from simverify.errors import UsageError
from simverify.sweeping.run import run_sweep
from simverify.sweeping.spec import Spec
from simverify.sweeping.tasks import AuditTask, CountTask, perform
from simverify.sweeping.versions import versions

SPEC = Spec(models=("own.json",), verifiers=("block",), gamma=(1,), blocks=100)


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
    return (CountTask(cell, "run", (0, 1), 0, 100, versions(), file),)


def test_a_worker_with_the_same_file_counts(began):
    ((payload, _),) = perform(count(began))
    assert payload


def test_a_worker_with_another_file_by_that_name_refuses(began, tmp_path, monkeypatch):
    (tmp_path / "worker").mkdir()
    monkeypatch.chdir(tmp_path / "worker")
    with pytest.raises(UsageError, match=r"own\.json: .* a worker has none that can be read: give"):
        perform(count(began))
    write(tmp_path / "worker", 0.25)
    with pytest.raises(UsageError, match=r"own\.json: the sweep began .* a worker has one with SH"):
        perform(count(began))


def test_an_audit_is_of_the_file_that_was_named(began, tmp_path):
    (tmp_path / "own.py").write_text("def verify(): pass")
    spec = Spec(audits=("own.py:verify",))
    (cell,) = spec.audit_cells()
    file = spec.files()["own.py"]
    (tmp_path / "own.py").write_text("def verify(): ...")
    with pytest.raises(UsageError, match=r"own\.py: the sweep began with a file"):
        perform((AuditTask(cell, 60.0, versions(), file),))


def test_a_file_that_changes_in_the_middle_ends_the_sweep(began, tmp_path, monkeypatch):
    counted = []

    def changing(load):
        write(tmp_path, 0.25)
        counted.append(load)
        return perform(load)

    monkeypatch.setattr("simverify.sweeping.workers.perform", changing)
    with pytest.raises(UsageError, match=r"own\.json: the sweep began with a file"):
        run_sweep(SPEC, tmp_path / "sweep", executor="threads", workers=1)
    assert counted
    assert not (tmp_path / "sweep" / "sweep.json").exists()
