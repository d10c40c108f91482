"""What the record knows of the machine, the packages and the code; and stores of an older version.

``version-1.db`` was made by the first version: a comparison, and an audit of rule.py.
"""

import hashlib
import platform
import shutil
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.baseline_runs import drawn
from support.pages.report_runs import example

from simverify.history import record
from simverify.history.record import add_run, get_run, init_store, run_differences, runs
from simverify.results import SweepAudit

OLD = Path(__file__).with_name("version-1.db")
RULE = "d984f66d37153c9a71b63d7ed7c07c419d0013eb301e130d8e9e599948a41341"
"""SHA-256 of rule.py, as the first version recorded it."""


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copy(OLD, tmp_path / "runs.db"))


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "runs.db"
    init_store(path)
    return path


def table_version(path):
    with sqlite3.connect(path) as database:
        found = database.execute("PRAGMA user_version").fetchone()[0]
    database.close()
    return found


def test_an_old_store_is_read_as_it_is(old):
    before = old.read_bytes()
    audit, comparison = runs(old)
    assert (audit.code_sha256, audit.code[0].sha256, audit.code[0].spec) == (
        RULE, RULE, "rule.py:verify",
    )  # fmt: skip
    assert comparison.code == ()
    for entry in (audit, comparison):
        assert (entry.host, entry.cores, entry.memory, entry.packages) == (None, None, None, {})
        assert get_run(old, entry.id)[0] == entry
    assert [run.id for run in runs(old, search=RULE[:9])] == [2]
    assert runs(old, search="numpy") == ()
    assert old.read_bytes() == before  # reading changes nothing: it may be another's


def test_an_old_store_is_brought_up_to_date_by_the_first_run_of_many(old):
    before = runs(old)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: add_run(old, drawn(100), ["simverify", str(i)]), range(8)))
    assert table_version(old) == 2
    found = runs(old)
    assert found[-2:] == before
    assert [run.id for run in found] == list(range(10, 0, -1))
    assert all(run.host == socket.gethostname() for run in found[:8])
    assert get_run(old, 2)[1].verdict == "FAIL"


def test_an_old_store_that_is_half_way_is_as_it_was(old, monkeypatch):
    """Columns come all or not at all, whatever stops it."""
    monkeypatch.setattr("simverify.history.record.STORE_VERSION", "no number")
    with pytest.raises(Exception, match=r"no such|near|syntax|cannot be used"):
        add_run(old, drawn(100), ["simverify"])
    monkeypatch.undo()
    assert table_version(old) == 1
    assert len(runs(old)) == 2


def test_the_machine_and_the_packages_of_a_run(store):
    entry, _ = get_run(store, add_run(store, drawn(100), ["simverify", "compare"]))
    assert entry.host == socket.gethostname()
    assert entry.system == platform.platform(terse=True)
    assert entry.cores >= 1
    assert entry.memory > 2**20
    assert entry.processor
    assert entry.gpu == ""
    for name in ("numpy", "scipy", "numba", "torch"):
        assert entry.packages[name] == version(name)
    for text in (entry.host, entry.processor.upper(), f"NUMPY {version('numpy')}"):
        assert [run.id for run in runs(store, search=text)] == [1], text
    assert runs(store, search="numpy 0.0") == ()


def test_a_file_that_was_added_says_nothing_of_this_machine(store):
    entry, _ = get_run(store, add_run(store, drawn(100)))
    told = (entry.host, entry.processor, entry.memory, entry.sources_sha256)
    assert told == (None, None, None, None)
    assert (entry.packages, entry.code) == ({}, ())


def test_a_machine_that_says_little(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "_CPUINFO", tmp_path / "none")
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert record.processor_name() == platform.machine()
    (tmp_path / "cpuinfo").write_bytes(b"flags : \xff\nmodel name\t:  Some   chip \n")
    monkeypatch.setattr(record, "_CPUINFO", tmp_path / "cpuinfo")
    assert record.processor_name() == "Some chip"

    def silent(_name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(record.os, "sysconf", silent)
    assert record.memory_bytes() is None
    assert record.memory_words(None) == "unknown"
    assert record.memory_words(3 * 2**29) == "1.5 GiB"


def recorded(store, **changes):
    run = replace(example("transformers"), engine_path=None, pair=None, **changes)
    return get_run(store, add_run(store, run, ["simverify", "audit"]))[0]


def test_the_code_under_audit(store, tmp_path):
    engine = recorded(store, spec="transformers").code
    assert [(one.spec, one.package) for one in engine] == [
        ("transformers", f"transformers {version('transformers')}")
    ]
    assert len(engine[0].sha256) == 64
    (module,) = recorded(store, spec="msgspec.json:encode").code
    assert module.package == f"msgspec {version('msgspec')}"
    (tmp_path / "rule.py").write_text("x = 1\n")
    file = recorded(store, spec=f"{tmp_path}/rule.py:verify")
    assert file.code[0].sha256 == hashlib.sha256(b"x = 1\n").hexdigest() == file.code_sha256
    assert recorded(store, spec=f"{tmp_path}/gone.py:verify").code[0].sha256 is None
    own = recorded(store, spec="token")
    assert own.code == ()
    assert len(own.sources_sha256) == 64
    assert [run.id for run in runs(store, search="transformers 5")] != []


def test_each_audit_of_a_sweep_has_its_code(store, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(f"# {name}\n")
    import simverify

    spec = [f"{tmp_path}/{name}.py:verify" for name in ("a", "b")]
    audits = [SweepAudit(one, 1, 0, "not loaded", None, "x", 4) for one in [*spec, "token"]]
    swept = simverify.sweep(
        models=["toy"], verifiers=["token"], gamma=[1], blocks=10, out=tmp_path / "out",
        executor="threads",
    )  # fmt: skip
    swept = replace(swept, audits=tuple(audits), verdict="INCONCLUSIVE")
    entry = get_run(store, add_run(store, swept, ["simverify", "sweep"]))[0]
    assert [one.spec for one in entry.code] == spec
    assert len({one.sha256 for one in entry.code}) == 2
    assert entry.code_sha256 is None  # of several there is not one


def test_what_differs_of_machine_packages_and_code_is_told(store, tmp_path, monkeypatch):
    rule = tmp_path / "rule.py"
    rule.write_text("x = 1\n")
    spec = f"{rule}:verify"
    run = replace(example("transformers"), spec=spec, engine_path=None, pair=None)
    numbers = [add_run(store, run, ["simverify", "audit", "a"])]
    rule.write_text("x = 2\n")
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    monkeypatch.setattr(record, "processor_name", lambda: "Another chip")
    monkeypatch.setattr(record, "memory_bytes", lambda: 2**30)
    real = record.installed_version
    others = {"numpy": "9.9", "torch": None}
    monkeypatch.setattr(record, "installed_version", lambda n: others.get(n, real(n)))
    later = replace(run, meta=replace(run.meta, version="9.9"))
    numbers += [add_run(store, later, ["simverify", "audit", "b"]), add_run(store, later)]
    first, second, added = (get_run(store, number) for number in numbers)
    said = "\n".join(run_differences(first, second)[0])
    for words in (
        "command line: simverify audit a -> simverify audit b", "-> 9.9",
        f"host: {first[0].host} -> elsewhere", "-> Another chip", "-> 1.0 GiB",
        f"numpy: {version('numpy')} -> 9.9", f"torch: {version('torch')} -> none",
        f"code of {spec}: {hashlib.sha256(b'x = 1' + bytes([10])).hexdigest()[:12]} -> ",
    ):  # fmt: skip
        assert words in said, words
    assert "scipy" not in said
    assert "sources" not in said
    said = "\n".join(run_differences(first, added)[0])
    assert "machine and packages: known of the first run alone" in said
    assert "numpy" not in said
    assert not [line for line in run_differences(first, first)[0] if "->" in line]
